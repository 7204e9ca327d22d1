"""What it costs a running slice, for each batch, to count its last records for `health`.

    python -m bench health

A window of the last 10,000 records takes batches whose records all land, those of which a tenth are
dead letters, and those that `where` filters, all of them; in batches of 10,000 records and of 100,
so that the window has a hundred of them. Microseconds of CPU for a batch, over BATCHES of them.
"""

import json
import sys
import time
from collections.abc import Iterator

from ashore.log.entries import Prepare
from ashore.log.entries.batch import ShardRead
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.topics.loop.shares import ShareWindow
from bench.table import Row

RECORDS, SHARE = 10_000, 0.01  # the defaults of the job file
TABLES = (1, 50)
BATCHES = 300
AIM_US = 20_000.0  # a hundredth of an interval of two seconds


def main() -> list[Row]:
    return list(_rows())


def _rows() -> Iterator[Row]:
    for tables in TABLES:
        for size in (RECORDS, 100):
            for outcome in ("landed", "dead", "filtered"):
                figure = measure(tables, size, outcome)
                words = {"dead": "a tenth dead", "filtered": "all filtered"}.get(outcome, "landed")
                noun = "table" if tables == 1 else "tables"
                question = f"{tables} {noun}, batches of {size:,} records for each, {words}"
                yield Row(question, figure, "us a batch", at_most=AIM_US)


def measure(tables: int, size: int, outcome: str) -> float:
    """Return the microseconds of CPU that a batch costs, once the window is full."""
    window = ShareWindow(RECORDS, SHARE)
    bodies = [body(number, tables, size, outcome) for number in range(BATCHES)]
    full = RECORDS // size
    for each in bodies[:full]:
        list(window.take(each))
    began_s = time.process_time()
    for each in bodies[full:]:
        list(window.take(each))
    return (time.process_time() - began_s) * 1e6 / len(bodies[full:])


def body(number: int, tables: int, size: int, outcome: str) -> Prepare:
    """Return the entry of a batch with a topic partition for each table."""
    dead = size // 10 if outcome == "dead" else 0
    filtered = size if outcome == "filtered" else 0
    reads = tuple(
        ShardRead(
            key=ShardKey("kafka", f"topic-{table}", 1, "0"),
            offsets=OffsetRange(number * size, (number + 1) * size),
            table=f"ods.table_{table}",
            fetched=size,
            landed=size - dead - filtered,
            dead=dead,
            filtered=filtered,
            dropped=0,
            size_bytes=0,
            event_max_ms=None,
        )
        for table in range(tables)
    )
    return Prepare(number, BatchTime(number), reads, (), (), (), None)


if __name__ == "__main__":
    json.dump([[each.question, each.figure] for each in main()], sys.stdout, indent=1)
