"""Keeping jobs as they are wanted: `decide` is pure, the supervisor looks and acts."""
