"""Runs: neighbouring records of a batch that are decoded and sorted together.

What it is: the cut of a batch, in the columns of FETCHED, where the topic changes; and, within a
run, where the shard changes.
What it promises: each record is in exactly one run; the offsets of a shard in it ascend strictly.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.errors import CountsDisagree, check
from ashore.topics.read.record_columns import record_sizes

# Columns that records of a table with `select` or `where` have besides.
DECODED = "decoded"  # null is an invalid value
REASON = "reason"  # of an invalid value; null where only Spark can decode it
KEEP = "keep"  # false or null: the table's filter refuses the record


@dataclass(frozen=True, slots=True)
class TopicRun:
    """Neighbouring records of one topic in a batch, one shard after the other. Never empty."""

    topic: str  # of all records
    records: pa.RecordBatch  # of all shards, one after the other
    partitions: tuple[int, ...]  # of each shard; one may come again
    starts: tuple[int, ...] = (0,)  # the row at which each shard begins; the first is 0

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """For each shard its first row, and the row behind its last."""
        return list(pairwise((*self.starts, self.records.num_rows)))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """For each shard its first and its last offset."""
        known = self.records.column("offset").to_numpy()
        return [(int(known[start]), int(known[end - 1])) for start, end in self.bounds]

    def sizes_bytes(self) -> list[int]:
        """Return the bytes of each shard: keys, values, and headers that were asked for."""
        sums = np.add.reduceat(record_sizes(self.records), self.starts)
        return [int(each) for each in sums]

    def count(self, rows: np.ndarray) -> list[int]:
        """Return how many of some rows each shard has. `rows` ascend."""
        cuts = np.searchsorted(rows, (*self.starts, self.records.num_rows))
        return [int(each) for each in np.diff(cuts)]


def split_topics(batch: pa.RecordBatch) -> Iterator[TopicRun]:
    """Yield the runs of a batch in their order, each as long as can be.

    Raises CountsDisagree where a record comes twice.
    """
    shards = zip(*_find_shards(batch), strict=True)
    for topic, group in groupby(shards, key=lambda shard: shard[0]):
        _, partitions, bounds = zip(*group, strict=True)
        start, end = bounds[0][0], bounds[-1][1]
        starts = tuple(first - start for first, _ in bounds)
        yield TopicRun(topic, _slice(batch, start, end), partitions, starts)


def split_shards(batch: pa.RecordBatch) -> Iterator[TopicRun]:
    """Yield the runs of a batch as `split_topics`, but each of a single shard."""
    for topic, partition, (start, end) in zip(*_find_shards(batch), strict=True):
        yield TopicRun(topic, _slice(batch, start, end), (partition,))


def _find_shards(batch: pa.RecordBatch) -> tuple[list[str], list[int], list[tuple[int, int]]]:
    """Return topic, partition and bounds of the neighbouring records of one shard."""
    starts = _find_starts(batch)
    firsts = pa.array(starts[:-1], pa.int64())
    topics, partitions = (batch.column(name).take(firsts) for name in ("topic", "partition"))
    return topics.to_pylist(), partitions.to_pylist(), list(pairwise(starts))


def _slice(batch: pa.RecordBatch, start: int, end: int) -> pa.RecordBatch:
    records = batch.slice(start, end - start)
    if 2 * records.num_rows < batch.num_rows:
        # A few records that wait in an encoder must not keep the whole batch alive.
        return records.take(pa.array(range(records.num_rows), pa.int64()))
    return records


def _find_starts(batch: pa.RecordBatch) -> list[int]:
    """Return the rows that begin a run, and the row behind the last; for no rows nothing."""
    if not batch.num_rows:
        return []
    topics, partitions = batch.column("topic"), batch.column("partition")
    offsets = batch.column("offset")
    check(
        not (topics.null_count or partitions.null_count or offsets.null_count),
        "a record came without its topic, partition or offset",
    )
    return [0, *_find_cuts(topics, partitions, offsets), batch.num_rows]


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
