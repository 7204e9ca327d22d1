"""Runs: what a batch of fetched records holds, one shard after another.

What it is: the cut of a batch, in the columns of FETCHED, where the shard changes; and sheaves, the
neighbouring runs of one topic, which are decoded and sorted together.
What it promises: each record is in exactly one run, and each run in one sheaf; a run's offsets
ascend strictly.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

import numpy as np
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


@dataclass(frozen=True, slots=True)
class Sheaf:
    """Neighbouring runs of one topic in a batch. Never empty.

    Arguments:
        topic: of all records.
        records: of all runs, one run after the other.
        partitions: of each run.
        starts: the row at which each run begins; the first is 0.

    """

    topic: str
    records: pa.RecordBatch
    partitions: tuple[int, ...]
    starts: tuple[int, ...]

    @classmethod
    def of(cls, run: Run) -> "Sheaf":
        """Return a single run."""
        return cls(run.topic, run.records, (run.partition,), (0,))

    @property
    def bounds(self) -> list[tuple[int, int]]:
        """For each run its first row, and the row behind its last."""
        return list(pairwise((*self.starts, self.records.num_rows)))

    @property
    def offsets(self) -> list[tuple[int, int]]:
        """For each run its first and its last offset."""
        known = self.records.column("offset").to_numpy()
        return [(int(known[start]), int(known[end - 1])) for start, end in self.bounds]

    def sizes_bytes(self) -> list[int]:
        """Return the bytes of each run: see `Run.size_bytes`."""
        if HEADERS in self.records.schema.names:
            return [run.size_bytes for run in self.runs()]
        lengths = [
            pc.fill_null(pc.binary_length(self.records.column(name)), 0).to_numpy()
            for name in ("key", "value")
        ]
        sums = np.add.reduceat(np.add(*lengths, dtype=np.int64), self.starts)
        return [int(each) for each in sums]

    def count(self, rows: np.ndarray) -> list[int]:
        """Return how many of some rows each run has. `rows` ascend."""
        cuts = np.searchsorted(rows, (*self.starts, self.records.num_rows))
        return [int(each) for each in np.diff(cuts)]

    def runs(self) -> Iterator[Run]:
        """Yield each run by itself."""
        for partition, (start, end) in zip(self.partitions, self.bounds, strict=True):
            yield Run(self.topic, partition, self.records.slice(start, end - start))


def split_runs(batch: pa.RecordBatch) -> Iterator[Run]:
    """Yield the runs of a batch in their order. Raises CountsDisagree where one comes twice."""
    topics, partitions = batch.column("topic"), batch.column("partition")
    for start, end in pairwise(_find_starts(batch)):
        records = _slice(batch, start, end)
        yield Run(topics[start].as_py(), partitions[start].as_py(), records)


def split_sheaves(batch: pa.RecordBatch) -> Iterator[Sheaf]:
    """Yield the sheaves of a batch in their order, each as long as can be.

    Raises CountsDisagree where a record comes twice.
    """
    starts = _find_starts(batch)
    if len(starts) < 2:
        return
    topics, partitions = batch.column("topic"), batch.column("partition")
    firsts = pa.array(starts[:-1], pa.int64())
    heads = zip(
        topics.take(firsts).to_pylist(),
        partitions.take(firsts).to_pylist(),
        pairwise(starts),
        strict=True,
    )
    for topic, group in groupby(heads, key=lambda head: head[0]):
        runs: Sequence[tuple[str, int, tuple[int, int]]] = list(group)
        start, end = runs[0][2][0], runs[-1][2][1]
        yield Sheaf(
            topic,
            _slice(batch, start, end),
            tuple(partition for _, partition, _ in runs),
            tuple(each - start for _, _, (each, _) in runs),
        )


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
