"""What a query has counted against what was produced: a table of counts by hour and country.

What it is: the rows of all visible files of the query's table, compared with counts that are
computed from the workload.
What it promises: reads visible files as any reader would, without the log and without the state.
Every hour that is over must be there once, with its exact count, and no other. Reads only.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from typing import NamedTuple

from ashore.errors import AshoreError
from ashore.log import names
from ashore.storage.base import Storage
from ashore_lab.drills.checkers.exactly_once import NAMED_MAX, find_visible, read_files
from ashore_lab.drills.workloads.numbers import Produced

HOUR_MS = 3_600_000


class Hour(NamedTuple):
    """What is counted: the records of one hour and one country."""

    start_ms: int
    country: str


class CountedRow(NamedTuple):
    """A row of the table."""

    hour: Hour
    records: int


def check_counted(
    storage: Storage, produced: Produced, table: str, watermark_delay_ms: int
) -> list[str]:
    """Return what is wrong with a table of counts. Never raises for what it finds.

    Arguments:
        storage: the lake.
        produced: what there was to count. All of it has been read.
        table: with the columns hour, country and records.
        watermark_delay_ms: how long after its end, in event time, an hour is over.

    """
    try:
        paths = find_visible(storage, names.table_path(table))
        rows = [_read(row) for row in read_files(storage, paths)]
    except (AshoreError, OSError, ValueError) as error:
        return [f"the table {table} cannot be read: {error}"]
    return compare_counts(expect_counts(produced, watermark_delay_ms), rows)


def expect_counts(produced: Produced, watermark_delay_ms: int) -> Counter[Hour]:
    """Return how many records each hour that is over has. Pure."""
    counts, newest_ms = Counter[Hour](), 0
    for partition, count in enumerate(produced.counts):
        for number in range(count):
            _, at_ms, country, _ = produced.workload.row(partition, number)
            counts[Hour(at_ms - at_ms % HOUR_MS, country)] += 1
            newest_ms = max(newest_ms, at_ms)
    over_ms = newest_ms - watermark_delay_ms
    return Counter({hour: n for hour, n in counts.items() if hour.start_ms + HOUR_MS <= over_ms})


def compare_counts(expected: Counter[Hour], rows: Iterable[CountedRow]) -> list[str]:
    """Return what is missing, there twice, counted wrongly, and not over yet. Pure."""
    times, counted = Counter[Hour](), dict[Hour, int]()
    for row in rows:
        times[row.hour] += 1
        counted[row.hour] = row.records
    missing = sorted(expected.keys() - counted.keys())
    twice = sorted(hour for hour, number in times.items() if number > 1)
    early = sorted(counted.keys() - expected.keys())
    both = expected.keys() & counted.keys()
    fewer = sorted(hour for hour in both if counted[hour] < expected[hour])
    more = sorted(hour for hour in both if counted[hour] > expected[hour])
    found = (
        ("are missing", missing),
        ("are there more than once", twice),
        ("are there and were not over", early),
        ("have lost records", fewer),
        ("have counted records twice", more),
    )
    return [f"{len(hours):,} hours {text}: {_name(hours)}" for text, hours in found if hours]


def _read(row: dict[str, object]) -> CountedRow:
    start, count = row["hour"], row["records"]
    if not isinstance(start, datetime) or not isinstance(count, int):
        wrong = f"a row has the hour {start} and the count {count}"
        raise ValueError(wrong)  # noqa: TRY004 - of a file, and no argument
    return CountedRow(Hour(round(start.timestamp() * 1000), str(row["country"])), count)


def _name(hours: list[Hour]) -> str:
    shown = ", ".join(f"{hour.country} {hour.start_ms}" for hour in hours[:NAMED_MAX])
    return shown if len(hours) <= NAMED_MAX else f"{shown}, ..."
