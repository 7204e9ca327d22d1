"""A table to one table a bucket.

What it is: the cut of a batch along its buckets.
What it promises: each row is in exactly one part, rows of a part keep their order. With one bucket
nothing is copied; with more each part owns its memory, so that a small part which waits in an
encoder does not keep its whole batch alive.
"""

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import check
from ashore.topics.route.buckets import Buckets


def split(table: pa.Table, buckets: Buckets) -> list[tuple[tuple[str, ...], pa.Table]]:
    """Return the partition values and the rows of each bucket, in the order of the buckets."""
    return [
        (buckets.values[bucket], table if rows is None else table.take(rows))
        for bucket, rows in split_rows(buckets)
    ]


def split_rows(buckets: Buckets) -> list[tuple[int, pa.UInt64Array | None]]:
    """Return each bucket with its rows, ascending; None: all rows."""
    count = len(buckets.values)
    if count <= 1:
        return [(bucket, None) for bucket in range(count)]
    order = pc.array_sort_indices(buckets.ids)  # stable
    sizes = {each["values"]: each["counts"] for each in pc.value_counts(buckets.ids).to_pylist()}
    check(len(sizes) == count, "a bucket has no row")
    parts, start = [], 0
    for bucket in range(count):
        parts.append((bucket, order.slice(start, sizes[bucket])))
        start += sizes[bucket]
    return parts
