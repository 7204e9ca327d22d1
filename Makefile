# The one door: people, CI and the documents use the same targets.

.DEFAULT_GOAL := help
.PHONY: help
BIN := .venv/bin

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
