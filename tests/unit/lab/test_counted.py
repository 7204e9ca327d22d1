"""What a query has counted, compared with what was produced: whatever is wrong is reported."""

from collections import Counter
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ashore.base.clock import SystemClock
from ashore.log import names
from ashore.storage.memory import MemoryStorage
from ashore_lab.drills.checkers.counts import (
    HOUR_MS,
    CountedRow,
    Hour,
    check_counted,
    compare_counts,
    expect_counts,
)
from ashore_lab.drills.workloads.numbers import LONG_AGO_MS, Numbered, Produced

TABLE = "ods.per_hour"
DELAY_MS = HOUR_MS
FIRST, SECOND = Hour(0, "CN"), Hour(HOUR_MS, "DE")
EXPECTED = Counter({FIRST: 10, SECOND: 20})
RIGHT = (CountedRow(FIRST, 10), CountedRow(SECOND, 20))


def produced(records: int) -> Produced:
    found = Produced(Numbered("clicks", 7, spacing_ms=HOUR_MS // 6))
    assert len([*found.deal(records)]) == records
    return found


def test_counts_that_are_right_have_nothing_wrong() -> None:
    assert compare_counts(EXPECTED, RIGHT) == []


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        (RIGHT[:1], "missing: DE 3600000"),
        ((*RIGHT, RIGHT[0]), "more than once: CN 0"),
        ((*RIGHT, CountedRow(Hour(0, "IN"), 1)), "were not over: IN 0"),
        ((RIGHT[0], CountedRow(SECOND, 19)), "lost records: DE 3600000"),
        ((RIGHT[0], CountedRow(SECOND, 21)), "counted records twice: DE 3600000"),
    ],
)
def test_what_is_wrong_with_a_count_is_reported(rows: tuple[CountedRow, ...], found: str) -> None:
    (problem,) = compare_counts(EXPECTED, rows)
    assert problem.startswith("1 hours ")
    assert problem.endswith(found)


def test_hours_that_are_over_are_expected_and_no_others() -> None:
    records = produced(6 * 5)
    by_hour = Counter[int]()
    for hour, count in expect_counts(records, DELAY_MS).items():
        by_hour[hour.start_ms] += count
    newest_ms = LONG_AGO_MS + (6 * 5 - 1) * HOUR_MS // 6
    _, *whole = sorted(by_hour)  # the first record is in the midst of an hour
    assert {by_hour[start] for start in whole} == {6}
    assert newest_ms - DELAY_MS - HOUR_MS < whole[-1] + HOUR_MS <= newest_ms - DELAY_MS


def test_a_table_is_read_as_readers_do() -> None:
    records, storage = produced(60), MemoryStorage(SystemClock())
    counts = expect_counts(records, DELAY_MS)
    rows = [
        {
            "hour": datetime.fromtimestamp(hour.start_ms / 1000, UTC),
            "country": hour.country,
            "records": count,
        }
        for hour, count in counts.items()
    ]
    storage.create(names.join(names.table_path(TABLE), "date=1/a.parquet"), parquet(rows[1:]))
    (missing,) = check_counted(storage, records, TABLE, DELAY_MS)
    assert missing.startswith("1 hours are missing")
    storage.create(names.join(names.table_path(TABLE), "date=1/b.parquet"), parquet(rows[:1]))
    assert check_counted(storage, records, TABLE, DELAY_MS) == []
    storage.create(names.join(names.table_path(TABLE), "date=1/c.parquet"), b"no parquet")
    (unreadable,) = check_counted(storage, records, TABLE, DELAY_MS)
    assert "cannot be read" in unreadable


def parquet(rows: list[dict[str, object]]) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pylist(rows), sink)
    return bytes(sink.getvalue())
