"""Real servers from jars."""

pytest_plugins = ["tests.fixtures_servers"]
