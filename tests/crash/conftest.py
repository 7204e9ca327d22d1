"""Calls have the same number in every run: moves go one after another."""

import pytest

from ashore.landing import mover


@pytest.fixture(autouse=True)
def serial_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mover, "PARALLEL_MOVES", 1)
