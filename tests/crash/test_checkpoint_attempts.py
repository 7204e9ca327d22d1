"""A copy of a query's checkpoint is whole or is not taken, whatever call of it is struck."""

import itertools
from collections.abc import Callable
from contextlib import suppress

import pytest
from tests.unit.queries.test_attempts import STORE, attempts_of, begun, files, snapshot, write

from ashore.errors import StorageError
from ashore.storage import MemoryStorage
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    FakeClock,
    Fault,
    FaultyStorage,
    LateEffect,
    ProcessStopped,
    StopProcess,
)

STRIKES: dict[str, Callable[[int], Fault]] = {
    "stops before": lambda number: StopProcess(number, when="before"),
    "stops after": lambda number: StopProcess(number, when="after"),
    "fails": FailBefore,
    "answer lost": FailAfterEffect,
    "late": lambda number: LateEffect(number, after=None, times=2),
}


@pytest.mark.parametrize("strike", STRIKES)
def test_whatever_call_of_a_copy_is_struck_the_next_writer_has_a_whole_one(strike: str) -> None:
    for number in itertools.count(1):
        storage = MemoryStorage(FakeClock())
        attempts = begun(storage, 4)
        write(attempts.attempt(1), f"{STORE}/SSTs/a-1.sst")
        write(attempts.attempt(1), f"{STORE}/3.zip", snapshot("a-1.sst"))
        faulty = FaultyStorage(storage, [STRIKES[strike](number)])
        with suppress(StorageError, ProcessStopped):
            attempts_of(faulty).take(2, is_mine=False)

        taken = attempts.take(3, is_mine=False)
        faulty.pending.release()
        faulty.pending.release()

        found = {path: storage.read(f"{taken.path}/{path}") for path in files(taken)}
        assert found == {path: storage.read(f"{attempts.attempt(1).path}/{path}") for path in found}
        assert {f"{STORE}/{name}" for name in ("3.zip", "4.changelog", "SSTs/a-1.sst")} < set(found)
        assert (taken.read_position().planned, taken.read_position().committed) == (3, 3)
        assert attempts.newest() == taken
        if not faulty.fired:
            assert number > 20
            return
