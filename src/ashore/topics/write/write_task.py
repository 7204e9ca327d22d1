"""One task of a batch, from fetched records to closed and synced files.

What it is: the loop over topic runs, and the ledger of where their records went.
What it promises: `write_task` returns once every file is closed and every staging directory synced,
in this order; what it returns adds up. Nothing is returned for a task that failed.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa

from ashore.base.unique import Entropy, unique
from ashore.errors import CountsDisagree, TooManyFiles, check
from ashore.log.entries import ShardRead
from ashore.log.positions import ShardRange
from ashore.storage.base import Storage
from ashore.topics.write.batch import FILES_MAX, BatchOrder, LandingSpec, TaskResult, sort_counters
from ashore.topics.write.data_files import (
    DEFAULT_LIMITS,
    FilePool,
    OffsetRun,
    PoolLimits,
    count_overlaps,
    highest,
)
from ashore.topics.write.runs import TopicRun, split_shards, split_topics
from ashore.topics.write.sorting import ShardCounts, TopicSorter


def write_task(
    order: BatchOrder,
    storage: Storage,
    task: int,
    batches: Iterable[pa.RecordBatch],
    entropy: Entropy = unique,
    *,
    limits: PoolLimits = DEFAULT_LIMITS,
) -> TaskResult:
    """Write the records of one task and return what the log needs to know.

    Requires: batches as `runs` describes them. Raises StorageError, BadRecord, CountsDisagree,
    TooManyFiles, or what reading `batches` raises. Where it raises, what it has staged is deleted.
    If interrupted: in-progress files remain; no entry names them.
    """
    pool = FilePool(order, task, storage, entropy, limits)
    writer = _TaskWriter(order, task, pool)
    try:
        for batch in batches:
            writer.write_all(batch)
            del batch  # or it is in memory while the next one is read
        return writer.finish()
    except BaseException:
        pool.abandon()
        raise


@dataclass(slots=True)
class _Account:
    """What the task did with the records of one shard."""

    range: ShardRange
    spec: LandingSpec
    fetched: int = 0
    landed: int = 0
    dead: int = 0
    filtered: int = 0
    dropped: int = 0
    size_bytes: int = 0
    event_max_ms: int | None = None

    def add(self, fetched: int, size_bytes: int, counts: ShardCounts) -> None:
        self.fetched += fetched
        self.landed += counts.landed
        self.dead += counts.dead
        self.filtered += counts.filtered
        self.dropped += counts.dropped
        self.size_bytes += size_bytes
        self.event_max_ms = highest(self.event_max_ms, counts.event_max_ms)

    def to_read(self) -> ShardRead:
        """Return the range for the log. Checks that no record was lost or made."""
        accounted = self.landed + self.dead + self.filtered + self.dropped
        check(
            self.fetched == accounted, f"{self.range}: {self.fetched} fetched, {accounted} sorted"
        )
        return ShardRead(
            self.range.key,
            self.range.offsets,
            self.spec.table,
            self.fetched,
            self.landed,
            self.dead,
            self.filtered,
            self.dropped,
            self.size_bytes,
            self.event_max_ms,
        )


class _TaskWriter:
    """The ledger and the sorters of a task."""

    def __init__(self, order: BatchOrder, task: int, pool: FilePool) -> None:
        self._order = order
        self._task = task
        self._pool = pool
        self._ranges = {(each.key.stream, each.key.shard): each for each in order.ranges}
        check(len(self._ranges) == len(order.ranges), "two ranges of an order are of one shard")
        self._specs = dict(order.tables)
        self._sorters: dict[str, TopicSorter] = {}
        self._accounts: list[_Account] = []
        self._indices: dict[tuple[str, int], int] = {}
        self._counters: Counter[str] = Counter()
        self._offset_run: OffsetRun | None = None
        self._last_offset = -1

    def write_all(self, batch: pa.RecordBatch) -> None:
        split = split_topics if self._order.keep is None else split_shards
        for run in split(batch):
            self._write(run)

    def _write(self, run: TopicRun) -> None:
        indices = [self._find_account(run.topic, each) for each in run.partitions]
        accounts = [self._accounts[index] for index in indices]
        offset_runs = []
        for index, (first, last) in zip(indices, run.offsets, strict=True):
            self._check_range(first, last, self._accounts[index].range)
            offset_runs.append(self._continue_offset_run(first, last, index))
        result = self._find_sorter(run.topic, accounts[0].spec).sort(run, offset_runs)
        for rows in result.rows:
            self._pool.write(rows)
        is_partial = self._order.keep is not None  # nothing counts as fetched but what is kept
        entered = zip(accounts, run.bounds, run.sizes_bytes(), result.counts, strict=True)
        for account, (start, end), size_bytes, counts in entered:
            fetched = counts.landed + counts.dead if is_partial else end - start
            account.add(fetched, size_bytes, counts)
        self._counters += result.counters
        self._bound_files()

    def _bound_files(self) -> None:
        """Raise TooManyFiles where this task alone has more than its batch may have."""
        if self._pool.files > FILES_MAX and self._order.keep is None:
            raise TooManyFiles(
                f"task {self._task} of batch {self._order.batch} has {self._pool.files:,} files",
                records=max(1, sum(account.fetched for account in self._accounts)),
            )

    def finish(self) -> TaskResult:
        targets, files = self._pool.finish()
        reads = tuple(account.to_read() for account in self._accounts)
        overlaps = 0 if self._order.keep is not None else count_overlaps(files)
        counters = sort_counters(self._counters + Counter(overlapping_spans=overlaps))
        return TaskResult(self._task, reads, targets, files, counters)

    def _continue_offset_run(self, first: int, last: int, index: int) -> OffsetRun:
        """Return the offset run of a shard: the one before, where these offsets continue it."""
        before = self._offset_run
        if before is None or before.shard != index or self._last_offset >= first:
            number = 0 if before is None else before.number + 1
            self._offset_run = before = OffsetRun(number, index, self._accounts[index].range.key)
        self._last_offset = last
        return before

    def _find_account(self, topic: str, partition: int) -> int:
        shard = (topic, partition)
        if shard not in self._indices:
            planned = self._ranges.get((topic, str(partition)))
            spec = self._specs.get(topic)
            if planned is None or spec is None:
                raise CountsDisagree(
                    f"task {self._task} was given {topic}/{partition}, which it was not assigned",
                    hint="nothing was prepared; please report this",
                )
            self._indices[shard] = len(self._accounts)
            self._accounts.append(_Account(planned, spec))
        return self._indices[shard]

    def _find_sorter(self, topic: str, spec: LandingSpec) -> TopicSorter:
        if topic not in self._sorters:
            self._sorters[topic] = TopicSorter(self._order, spec)
        return self._sorters[topic]

    def _check_range(self, first: int, last: int, planned: ShardRange) -> None:
        if first < planned.offsets.start or last >= planned.offsets.end:
            raise CountsDisagree(
                f"task {self._task} was given offsets {first} to {last} of {planned.key}, "
                f"where {planned.offsets} was assigned",
                hint="nothing was prepared; please report this",
            )


def write_probes(storage: Storage, files: Mapping[str, bytes]) -> None:
    """Write files as tasks do: content by path. Raises StorageError for the first that fails."""
    for path, content in files.items():
        writer = storage.open_write(path)
        writer.write(content)
        writer.close()
