"""Looking for what a slice has left in its tables: what is seen, and what it costs."""

import pytest

from ashore.errors import LogLost
from ashore.log.lost_end import LogEnd, Trace
from ashore.log.names import SliceName
from ashore.log.store.traces import LISTINGS_MAX, find_traces, require_whole
from ashore.storage import MemoryStorage
from ashore_lab.testing import FakeClock, FaultyStorage

NAME = SliceName("clicks", "main")
TABLE, PATH = "ods.clicks", "ods.db/clicks"
UNIQUE = "00000000c0ffee00"


def final(epoch: int, batch: int, slice_name: str = "main") -> str:
    return f"a-{slice_name}-{epoch}-{batch}-0001-{UNIQUE}.parquet"


def found(*paths: str, listings_max: int = LISTINGS_MAX) -> set[tuple[int, int]]:
    storage = MemoryStorage(FakeClock())
    for path in paths:
        storage.create(f"{PATH}/{path}", b"x")
    traces = find_traces(storage, NAME, [TABLE], listings_max)
    return {(each.epoch, each.batch) for each in traces}


@pytest.mark.parametrize(
    ("paths", "traces"),
    [
        ((), set()),
        ((".ashore/owner-0.json",), set()),  # claimed, and stopped before the log was opened
        ((".ashore/clicks/main/_probe-1",), {(1, -1)}),
        ((f".ashore/clicks/main/4/0-{UNIQUE}.in-progress",), {(4, -1)}),
        ((f".ashore/clicks/main/4/9-{UNIQUE}.in-progress",), {(4, -1), (4, 8)}),
        ((f".ashore/other/main/4/9-{UNIQUE}.in-progress",), set()),
        ((final(2, 5),), {(2, 5)}),
        ((f"date=2026-11-21/hour=08/{final(2, 5)}",), {(2, 5)}),
        ((final(2, 5), final(2, 6), final(1, 4)), {(2, 6)}),
        ((final(2, 5, "other"), "mine.parquet", "_SUCCESS"), set()),
        ((f"_aside-1/{final(2, 5)}",), set()),
    ],
)
def test_what_is_seen(paths, traces):
    assert found(*paths) == traces


def test_a_large_table_is_not_listed_as_a_whole_and_what_changed_last_comes_first():
    clock = FakeClock()
    storage = MemoryStorage(clock)
    for number in range(500):
        clock.advance(1)
        storage.create(f"{PATH}/date={number:04}/{final(1, number)}", b"x")
    counted = FaultyStorage(storage)
    traces = find_traces(counted, NAME, [TABLE])
    assert Trace(f"{PATH}/date=0499/{final(1, 499)}", 1, 499) in traces
    assert len(counted.calls) == LISTINGS_MAX + 2


def test_listings_are_shared_by_all_tables():
    storage = MemoryStorage(FakeClock())
    tables = [f"ods.t{number}" for number in range(20)]
    for number in range(20):
        for day in range(20):
            storage.create(f"ods.db/t{number}/date={day}/{final(1, 1)}", b"x")
    counted = FaultyStorage(storage)
    find_traces(counted, NAME, tables)
    assert len(counted.calls) == 2 * len(tables) + LISTINGS_MAX


def test_the_error_says_what_was_found_and_what_to_type():
    with pytest.raises(LogLost) as raised:
        require_whole(NAME, LogEnd(), [Trace(f"{PATH}/{final(2, 5)}", 2, 5)])
    error = raised.value
    assert (error.code, error.exit_code) == ("log-lost", 4)
    assert final(2, 5) in error.message
    assert "ashore doctor JOB.yaml --from-files" in error.hint
