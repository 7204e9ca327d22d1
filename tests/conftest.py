"""The marker of a test is the name of its folder; servers are there for whoever asks."""

from pathlib import Path

import pytest

pytest_plugins = ["tests.fixtures_servers", "tests.examples", "tests.shares"]

_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        folders = item.path.relative_to(_HERE).parts[:-1]
        if folders:
            item.add_marker(folders[0])
