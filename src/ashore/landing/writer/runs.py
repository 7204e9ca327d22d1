"""Runs: what a batch of fetched records holds, one shard after another.

What it is: the cut of a batch, in the columns of FETCHED, where the shard changes.
What it promises: each record is in exactly one run; a run's offsets ascend strictly.
What it must not know: tables.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import CountsDisagree, check

DECODED = "decoded"  # with `keep`, where Spark has decoded: null is a value that it could not
HEADERS = "headers"  # where they are asked for
KEEP = "keep"  # false or null: the table's filter refuses the record


@dataclass(frozen=True, slots=True)
class Run:
    """Records of one shard, neighbours in a batch. Never empty."""

    topic: str
    partition: int
    records: pa.RecordBatch

    @property
    def first(self) -> int:
        """The offset of the first record."""
        return int(self.records.column("offset")[0].as_py())

    @property
    def last(self) -> int:
        """The offset of the last record."""
        return int(self.records.column("offset")[-1].as_py())

    @property
    def size_bytes(self) -> int:
        """Bytes of the keys, the values, and the headers that were asked for."""
        columns = [self.records.column(name) for name in ("key", "value")]
        if HEADERS in self.records.schema.names:
            columns += self.records.column(HEADERS).flatten().flatten()
        lengths = [pc.sum(pc.binary_length(each)) for each in columns]
        return sum(length.as_py() or 0 for length in lengths)


def split_runs(batch: pa.RecordBatch) -> Iterator[Run]:
    """Yield the runs of a batch in their order. Raises CountsDisagree where one comes twice."""
    if not batch.num_rows:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    offsets = batch.column("offset")
    check(
        not (topics.null_count or partitions.null_count or offsets.null_count),
        "a record came without its topic, partition or offset",
    )
    starts = [0, *_find_cuts(topics, partitions, offsets), batch.num_rows]
    for start, end in pairwise(starts):
        records = batch.slice(start, end - start)
        if 2 * records.num_rows < batch.num_rows:
            # A short run that waits in an encoder must not keep the whole batch alive.
            records = records.take(pa.array(range(records.num_rows), pa.int64()))
        yield Run(topics[start].as_py(), partitions[start].as_py(), records)


def _find_cuts(
    topics: pa.StringArray, partitions: pa.Int32Array, offsets: pa.Int64Array
) -> list[int]:
    """Return the rows that begin a run, but the first."""
    is_cut = pc.or_(
        pc.not_equal(topics[1:], topics[:-1]), pc.not_equal(partitions[1:], partitions[:-1])
    )
    steps = pc.subtract(offsets[1:], offsets[:-1])
    if pc.any(pc.and_not(pc.equal(steps, 0), is_cut)).as_py():
        twice = pc.indices_nonzero(pc.and_not(pc.equal(steps, 0), is_cut))[0].as_py()
        raise CountsDisagree(
            f"{topics[twice]}/{partitions[twice]}: offset {offsets[twice]} was read twice",
            hint="nothing was prepared; please report this",
        )
    is_cut = pc.or_(is_cut, pc.less(steps, 0))
    return [row + 1 for row in pc.indices_nonzero(is_cut).to_pylist()]
