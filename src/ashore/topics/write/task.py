"""One task of a batch, from fetched records to closed and synced files.

What it is: the loop over sheaves of runs, and the ledger of what became of their records.
What it promises: `write_task` returns once every file is closed and every staging directory synced,
in this order; what it returns adds up. Nothing is returned for a task that failed.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from ashore.base.unique import Entropy, unique
from ashore.errors import CountsDisagree, TooManyFiles, check
from ashore.log.entries import ShardRead
from ashore.log.positions import ShardRange
from ashore.storage.base import Storage
from ashore.topics.write.batch import FILES_MAX, BatchOrder, TaskResult
from ashore.topics.write.counters import sort_counters
from ashore.topics.write.data_file import Stretch, count_overlaps, highest
from ashore.topics.write.pool import DEFAULT_LIMITS, FilePool, PoolLimits
from ashore.topics.write.runs import Sheaf, split_runs, split_sheaves
from ashore.topics.write.sorting import RunCounts, TopicSorter
from ashore.topics.write.specs import LandingSpec


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
    writer = _TaskWriter(order, task, FilePool(order, task, storage, entropy, limits))
    try:
        for batch in batches:
            writer.write_all(batch)
            del batch  # or it is in memory while the next one is read
        return writer.finish()
    except BaseException:
        writer.abandon()
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

    def add(self, fetched: int, size_bytes: int, tally: RunCounts) -> None:
        """Enter what became of a run."""
        self.fetched += fetched
        self.landed += tally.landed
        self.dead += tally.dead
        self.filtered += tally.filtered
        self.dropped += tally.dropped
        self.size_bytes += size_bytes
        self.event_max_ms = highest(self.event_max_ms, tally.event_max_ms)

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
        self._stretch: Stretch | None = None
        self._last_offset = -1

    def write_all(self, batch: pa.RecordBatch) -> None:
        """Sort and write the records of a batch."""
        for sheaf in self._split(batch):
            self._write(sheaf)

    def _split(self, batch: pa.RecordBatch) -> Iterator[Sheaf]:
        """Yield what of a batch is written together."""
        if self._order.keep is None:
            return split_sheaves(batch)
        return (Sheaf.of(run) for run in split_runs(batch))

    def _write(self, sheaf: Sheaf) -> None:
        """Sort a sheaf, write its pieces, enter its runs in the ledger."""
        indices = [self._find_account(sheaf.topic, each) for each in sheaf.partitions]
        accounts = [self._accounts[index] for index in indices]
        stretches = []
        for index, (first, last) in zip(indices, sheaf.offsets, strict=True):
            self._check_range(first, last, self._accounts[index].range)
            stretches.append(self._continue_stretch(first, last, index))
        result = self._find_sorter(sheaf.topic, accounts[0].spec).sort(sheaf, stretches)
        for piece in result.pieces:
            self._pool.write(piece)
        is_partial = self._order.keep is not None  # nothing counts as fetched but what is kept
        entered = zip(accounts, sheaf.bounds, sheaf.sizes_bytes(), result.tallies, strict=True)
        for account, (start, end), size_bytes, tally in entered:
            fetched = tally.landed + tally.dead if is_partial else end - start
            account.add(fetched, size_bytes, tally)
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
        """Close and sync everything and return what was done."""
        targets, files = self._pool.finish()
        reads = tuple(account.to_read() for account in self._accounts)
        overlaps = 0 if self._order.keep is not None else count_overlaps(files)
        counters = sort_counters(self._counters + Counter(overlapping_spans=overlaps))
        return TaskResult(self._task, reads, targets, files, counters)

    def abandon(self) -> None:
        """Release everything, after a failure."""
        self._pool.abandon()

    def _continue_stretch(self, first: int, last: int, index: int) -> Stretch:
        """Return the stretch of a run: that of the run before, if the run continues it."""
        before = self._stretch
        goes_on = before is not None and before.shard == index and self._last_offset < first
        if before is None or not goes_on:
            number = 0 if before is None else before.number + 1
            self._stretch = before = Stretch(number, index, self._accounts[index].range.key)
        self._last_offset = last
        return before

    def _find_account(self, topic: str, partition: int) -> int:
        """Return the index of the shard that a run is of."""
        shard = (topic, partition)
        if shard not in self._indices:
            asked = self._ranges.get((topic, str(partition)))
            spec = self._specs.get(topic)
            if asked is None or spec is None:
                raise CountsDisagree(
                    f"task {self._task} was given {topic}/{partition}, which it was not assigned",
                    hint="nothing was prepared; please report this",
                )
            self._indices[shard] = len(self._accounts)
            self._accounts.append(_Account(asked, spec))
        return self._indices[shard]

    def _find_sorter(self, topic: str, spec: LandingSpec) -> TopicSorter:
        if topic not in self._sorters:
            self._sorters[topic] = TopicSorter(self._order, spec)
        return self._sorters[topic]

    def _check_range(self, first: int, last: int, asked: ShardRange) -> None:
        if first < asked.offsets.start or last >= asked.offsets.end:
            raise CountsDisagree(
                f"task {self._task} was given offsets {first} to {last} of {asked.key}, "
                f"where {asked.offsets} was assigned",
                hint="nothing was prepared; please report this",
            )
