"""What a reader has fetched, for comparing it with what was produced."""

from collections.abc import Iterable

import pyarrow as pa

from ashore.log.positions import StreamShard


def rows(batches: Iterable[pa.RecordBatch]) -> dict[StreamShard, list[tuple[int, bytes]]]:
    """Return offset and value of each record, by partition, in the order in which they came."""
    found: dict[StreamShard, list[tuple[int, bytes]]] = {}
    for batch in batches:
        for row in batch.to_pylist():
            shard = StreamShard(row["topic"], str(row["partition"]))
            found.setdefault(shard, []).append((row["offset"], row["value"]))
    return found
