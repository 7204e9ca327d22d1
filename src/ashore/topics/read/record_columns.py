"""The columns in which every reader delivers records.

What it is: one schema: of Spark's Kafka source, of ours, of recorded sources in tests.
What it promises: a record's bytes as they are; its time in microseconds, as Kafka has it, or null
where that is not within the years 1 to 9999: no table could hold it. Headers where they are asked
for: in their order, none left out; null where a record has none, as Spark's source has it.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import FIRST_MS, LAST_MS
from ashore.log.positions import StreamShard
from ashore.topics.read.source import Record

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
HEADERS = pa.list_(pa.field("element", pa.struct([("key", pa.string()), ("value", pa.binary())])))
FETCHED_WITH_HEADERS = FETCHED.append(pa.field("headers", HEADERS))


def to_times(times_ms: np.ndarray) -> pa.TimestampArray:
    """Return times that Kafka counts, in milliseconds, as FETCHED has them."""
    is_there = (times_ms >= FIRST_MS) & (times_ms <= LAST_MS)
    times_us = np.where(is_there, times_ms, 0) * 1_000  # what is far out would overflow
    found = pa.array(times_us, pa.int64(), mask=None if is_there.all() else ~is_there)
    return found.view(FETCHED.field("timestamp").type)


def fetched_batch(shard: StreamShard, records: Sequence[Record]) -> pa.RecordBatch:
    """Return records of one shard in the columns in which readers hand them out, with headers."""
    columns = [
        [shard.stream] * len(records),
        [int(shard.shard)] * len(records),
        [each.offset for each in records],
        to_times(np.array([_time_of(each) for each in records], np.int64)),
        [each.key for each in records],
        [each.value for each in records],
        [
            [{"key": key, "value": value} for key, value in each.headers or ()] or None
            for each in records
        ],
    ]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, FETCHED_WITH_HEADERS, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=FETCHED_WITH_HEADERS)


def to_headers(counts: np.ndarray, keys: pa.BinaryArray, values: pa.BinaryArray) -> pa.ListArray:
    """Return the headers of records, as FETCHED_WITH_HEADERS has them.

    Arguments:
        counts: of the headers of each record.
        keys: of all headers, one record's after the other's.
        values: of all headers; null is one without a value.

    """
    ends = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=ends[1:])
    pairs = pa.StructArray.from_arrays([_to_texts(keys), values], fields=list(HEADERS.value_type))
    mask = pa.array(counts == 0)
    return pa.ListArray.from_arrays(pa.array(ends), pairs, type=HEADERS, mask=mask)


def record_sizes(batch: pa.RecordBatch) -> np.ndarray:
    """Return the bytes of key, value and headers of each record."""
    sizes = np.zeros(batch.num_rows, np.int64)
    for name in ("key", "value"):
        sizes += _sizes_of(batch.column(name))
    if "headers" in batch.schema.names:
        headers = batch.column("headers")
        pairs = headers.flatten()
        rows = pc.list_parent_indices(headers).to_numpy()
        for place in (0, 1):
            np.add.at(sizes, rows, _sizes_of(pairs.field(place)))
    return sizes


def _sizes_of(column: pa.Array) -> np.ndarray:
    found: np.ndarray = pc.fill_null(pc.binary_length(column), 0).to_numpy()
    return found


def _to_texts(keys: pa.BinaryArray) -> pa.StringArray:
    """Return bytes as text; what is not UTF-8 is replaced, as Java's client does it."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([each.decode(errors="replace") for each in keys.to_pylist()], pa.string())


def _time_of(record: Record) -> int:
    """Return a record's time as Kafka counts it; of one that no table could hold, such a one."""
    return LAST_MS + 1 if record.timestamp_ms is None else record.timestamp_ms
