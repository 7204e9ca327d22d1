"""Calls have the same number in every run, and the same bytes are read as an entry once."""

import pytest
from tests.crash.harness import read_entries_once

from ashore.landing import mover


@pytest.fixture(autouse=True)
def serial_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "PARALLEL_MOVES", 1)


@pytest.fixture(autouse=True)
def entries_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    read_entries_once(monkeypatch)
