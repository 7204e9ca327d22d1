# The one door: people, CI and the documents use the same targets. `make` alone lists them.

.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory
BIN := .venv/bin

# Byte code is kept, whatever the machine says of it, and beside no source: a run starts hundreds of
# Pythons (workers of pytest and of Spark, job processes), and compiling is most of such a start.
export PYTHONPYCACHEPREFIX := $(CURDIR)/.venv/bytecode
unexport PYTHONDONTWRITEBYTECODE

# The first Python that is new enough and can make a virtual environment.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3.14 python3; do \
	$$p -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo $$p && break; done)

# Tests share the cores. Those of servers wait now and then, so three workers share two cores, which
# they and their JVMs keep busy: a fourth shortens nothing. What has a server for itself is a group
# for one worker (tests/servers.py). Groups come first, and what is short comes last, so that the
# workers end at one time.
# TIMES=FILE measures what each file of tests takes; build/test-times.tsv keeps the time of each half.
FAST := tests/unit tests/property tests/contract tests/architecture
PYTEST := $(BIN)/python -m pytest -p tests.no_silent_skips -rs \
	$(if $(TIMES),-p tests.times --times=$(TIMES))

.PHONY: help setup setup-python setup-native setup-jars java lint lint-python lint-native check \
	check-tests test test-all run-tests lint-and-test-native chromium demo drill bench bench-peers \
	azurite versitygw bench-sql fast-tests docs lock lock-jars wheel-native test-arm clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: setup-jars setup-native ## Python packages, the native module and jars; quick when nothing changed

setup-python: .venv/.ashore

# Rust is optional: without cargo this says so, and looks again the next time.
setup-native: .venv/.native

# uv comes first, by its own lines of the lock, so that it is checked like everything else. The lock
# that is installed is kept, so that a touched but unchanged one needs no network.
.venv/.packages: requirements.lock
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer with venv is needed" \
		"(Debian: apt install python3 python3-venv)" >&2; exit 7; }
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@cmp -s requirements.lock $@ || { \
		echo "installing Python packages (PySpark is 400 MB: the first time takes a while)" >&2; \
		test -x $(BIN)/uv || { \
			awk '/^uv==/ { on = 1 } on { print } on && !/\\$$/ { exit }' requirements.lock > .venv/uv.txt \
			&& $(BIN)/python -m pip install --quiet --require-hashes --no-deps -r .venv/uv.txt; } \
		&& $(BIN)/uv pip sync --quiet --require-hashes --python $(BIN)/python requirements.lock; }
	@cp requirements.lock $@

.venv/.ashore: .venv/.packages pyproject.toml lab/pyproject.toml
	@$(BIN)/uv pip install --quiet --offline --no-deps --no-build-isolation --python $(BIN)/python -e . -e lab
	@env -u PYTHONPYCACHEPREFIX $(BIN)/python tools/compile.py
	@touch $@

.venv/.native: .venv/.packages tools/native.py $(shell find native -name '*.rs' -o -name '*.toml') native/crates.lock
	@$(BIN)/python tools/native.py setup

# Looks first, so that a machine without Java hears of it before anything is downloaded.
java:
	@test -z "$(PYTHON)" || PYTHONPATH=src $(PYTHON) -B tools/setup_jars.py --java-only

setup-jars: java setup-python
	@$(BIN)/python tools/setup_jars.py

lint: lint-python lint-native

lint-python: setup-python
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_lock.py

lint-native: .venv/.packages
	$(BIN)/python tools/native.py lint

# One after the other: each of them writes Cargo.lock where it is missing.
# What runs beside it comes first, as it may watch a clock.
lint-and-test-native: setup-native
	nice $(BIN)/python tools/native.py lint
	nice $(BIN)/python tools/native.py test --quiet

check: setup-python ## lint, types, import contract, fast tests: no Java, no network
	@$(MAKE) -j 2 --output-sync=target check-tests lint

# Ten examples of each property, and of what takes seconds one of each kind.
check-tests: setup-python
	$(PYTEST) -q -n 2 -m "not (slow or long)" --hypothesis-profile=quick $(FAST)

test: CHOSEN := -m "not long"
test: export SHARE := third
test: run-tests ## tests of everything, on real servers; fails if one is left out without a mark

test-all: versitygw run-tests ## the same, and those that are marked long

# Building the crate leaves one of two cores idle, so the rest is done beside it. Tests that wait
# leave time for lint and tests of the crate; their output is not kept back meanwhile.
run-tests: java
	@$(MAKE) -j 2 --output-sync=target setup-native setup-jars lint-python chromium \
		azurite
	@$(MAKE) -j 2 CHOSEN='$(CHOSEN)' fast-tests lint-and-test-native
	$(PYTEST) -p tests.times --history=servers -n 3 --dist loadgroup --no-loadscope-reorder \
		$(CHOSEN) --durations=25 tests/spark tests/drills tests/integration

fast-tests:
	$(PYTEST) -p tests.times --history=fast -q -n 3 $(CHOSEN) $(FAST) tests/crash tests/browser

# Pages are looked at in a browser, which no Python package brings. What its package recommends,
# such as printers, takes longer to install than itself; of that pages need a font.
chromium:
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& echo "installing Chromium for the tests of pages" >&2 \
		&& apt-get update -qq >&2 && apt-get install -y -qq --no-install-recommends \
		chromium fonts-liberation >&2; } || { \
		echo "Chromium is needed for the tests of pages: apt-get install chromium" >&2; exit 7; }

# Azure's store is played by Azurite. Its lock has checksums and names no registry.
azurite: .venv/azurite/.ashore

.venv/azurite/.ashore: tests/azurite/package-lock.json .venv/.packages
	@command -v npm >/dev/null || { test "$$(id -u)" = 0 && command -v apt-get >/dev/null \
		&& echo "installing npm for the tests of Azure's store" >&2 && apt-get update -qq >&2 \
		&& apt-get install -y -qq --no-install-recommends npm >&2; } || { \
		echo "npm is needed for the tests of Azure's store: apt-get install npm" >&2; exit 7; }
	@cmp -s $< $@ || { echo "installing Azurite for the tests of Azure's store (190 MB)" >&2; \
		mkdir -p .venv/azurite && cp tests/azurite/package*.json .venv/azurite \
		&& npm ci --silent --ignore-scripts --no-audit --no-fund --prefix .venv/azurite >&2; }
	@cp $< $@

# Another server of S3, in Go, for `make test-all`; go.sum has the checksums of its modules.
versitygw: .venv/versitygw/versitygw

.venv/versitygw/versitygw: tests/versitygw/go.mod tests/versitygw/go.sum .venv/.packages
	@command -v go >/dev/null || { echo "Go 1.26 or newer is needed for a server of S3" >&2; exit 7; }
	@echo "building versitygw for the tests of S3" >&2
	@go build -C tests/versitygw -mod=readonly -o $(CURDIR)/$@ github.com/versity/versitygw/cmd/versitygw
	@touch $@

# FORMAT=iceberg or delta: tables in that format.
demo: setup ## two topics, a kill half-way, and the proof: lost 0, duplicated 0
	@$(BIN)/ashore demo $(FORMAT:%=--format %)

drill: setup ## every drill at length, and a table of what came of them; takes hours
	@$(BIN)/ashore drill run all --long

bench: setup ## measure
	@$(BIN)/python -m bench

# Flink's jars and DuckDB come as Python packages, which are kept apart: nothing of Ashore may import
# them.
.venv/bench/.ashore: requirements-bench.lock .venv/.packages
	@cmp -s $< $@ || { echo "installing Flink's jars and DuckDB for the comparison (250 MB)" >&2; \
		rm -rf .venv/bench && $(BIN)/uv pip install --quiet --require-hashes --no-deps \
		--python $(BIN)/python --target .venv/bench -r $<; }
	@cp $< $@

# SHAPES=wide, or names of wide shapes: those of the page on performance instead. SHAPES=lakehouse:
# Iceberg and Delta tables.
bench-peers: setup .venv/bench/.ashore ## Ashore, Spark and Flink side by side; writes the README's table
	@$(BIN)/python -m bench.peers run $(if $(SMALL),--small) $(SHAPES:%=--shape %)

# SMALL=1: small topics, nothing is kept. ARGS, such as "--queries filter": see python -m bench.sql -h.
bench-sql: setup .venv/bench/.ashore ## SQL of Ashore, Spark and Flink side by side, proven by DuckDB
	@$(BIN)/python -m bench.sql $(if $(SMALL),--small) $(ARGS)

docs: setup-python ## write the reference and the pictures from the code, and a site to build/site
	@$(BIN)/python tools/commands.py
	@$(BIN)/python tools/docs.py
	@$(BIN)/python -m tools.pictures
	@$(BIN)/python tools/build_site.py

lock: setup-python ## resolve Python packages and crates again (UPGRADE=1: to the newest)
	$(BIN)/python tools/lock.py $(if $(UPGRADE),--upgrade)
	$(BIN)/python tools/native.py lock $(if $(UPGRADE),--upgrade)

lock-jars: java setup-python ## resolve jars again
	$(BIN)/python tools/lock_jars.py

wheel-native: setup-python ## a wheel of the native module in dist/, for any Linux of this processor
	$(BIN)/python tools/native.py wheel

test-arm: setup-python ## the crate's tests as 64-bit ARM code, under QEMU; says what it needs
	$(BIN)/python tools/native.py test-arm

clean: ## remove .venv and what tools left; jars stay in the user's cache
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist
	find src tests tools bench -name __pycache__ -prune -exec rm -rf {} +
