"""The columns in which every reader delivers records.

What it is: one schema: of Spark's Kafka source, of ours, of recorded sources in tests.
What it promises: a record's bytes as they are; its time in microseconds, as Kafka has it, or null
where that is not within the years 1 to 9999: no table could hold it.
What it must not know: who reads.
"""

import numpy as np
import pyarrow as pa

from ashore.base.calendar import FIRST_MS, LAST_MS

FETCHED = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", "UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
    ]
)


def to_times(times_ms: np.ndarray) -> pa.TimestampArray:
    """Return times that Kafka counts, in milliseconds, as FETCHED has them."""
    is_there = (times_ms >= FIRST_MS) & (times_ms <= LAST_MS)
    times_us = np.where(is_there, times_ms, 0) * 1_000  # what is far out would overflow
    found = pa.array(times_us, pa.int64(), mask=None if is_there.all() else ~is_there)
    return found.view(FETCHED.field("timestamp").type)
