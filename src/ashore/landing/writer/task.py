"""One task of a batch, from fetched records to closed and synced files.

What it is: the loop over runs, and the ledger of what became of their records.
What it promises: `write_task` returns once every file is closed and every staging directory synced,
in this order; what it returns adds up. Nothing is returned for a task that failed.
What it must not know: how records are sorted, how files are written.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

import pyarrow as pa

from ashore.base.unique import Entropy, unique
from ashore.errors import CountsDisagree, check
from ashore.landing.batch import BatchOrder, TaskResult
from ashore.landing.specs import LandingSpec
from ashore.landing.writer.counters import sort_counters
from ashore.landing.writer.data_file import Stretch, count_overlaps, highest
from ashore.landing.writer.pool import DEFAULT_LIMITS, FilePool, PoolLimits
from ashore.landing.writer.runs import Run, split_runs
from ashore.landing.writer.sorting import Sorted, TopicSorter
from ashore.protocol.entries import ShardRead
from ashore.protocol.positions import ShardRange
from ashore.storage.base import Storage


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

    Requires: batches as `runs` describes them. Raises StorageError, BadRecord, CountsDisagree, or
    what reading `batches` raises.
    If interrupted: in-progress files remain; no entry names them.
    """
    writer = _TaskWriter(order, task, FilePool(order, task, storage, entropy, limits))
    try:
        for batch in batches:
            for run in split_runs(batch):
                writer.write(run)
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

    def add(self, run: Run, result: Sorted, *, is_partial: bool) -> None:
        """Enter a run. Partial: what is landed again counts, and nothing else was fetched."""
        self.fetched += result.landed + result.dead if is_partial else run.records.num_rows
        self.landed += result.landed
        self.dead += result.dead
        self.filtered += result.filtered
        self.dropped += result.dropped
        self.size_bytes += run.size_bytes
        self.event_max_ms = highest(self.event_max_ms, result.event_max_ms)

    def to_read(self) -> ShardRead:
        """Return what the log wants to know. Checks that no record was lost or made."""
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

    def write(self, run: Run) -> None:
        """Sort a run, write its pieces, enter it in the ledger."""
        index = self._find_account(run)
        account = self._accounts[index]
        self._check_range(run, account.range)
        stretch = self._continue_stretch(run, index)
        result = self._find_sorter(run.topic, account.spec).sort(run, stretch)
        for piece in result.pieces:
            self._pool.write(piece)
        account.add(run, result, is_partial=self._order.keep is not None)
        self._counters += result.counters

    def finish(self) -> TaskResult:
        """Close and sync everything and return what was done."""
        targets, files = self._pool.finish()
        reads = tuple(account.to_read() for account in self._accounts)
        overlaps = 0 if self._order.keep is not None else count_overlaps(files)
        counters = sort_counters(self._counters + Counter(overlapping_spans=overlaps))
        return TaskResult(self._task, reads, targets, files, counters)

    def abandon(self) -> None:
        """Let go of everything, after a failure."""
        self._pool.abandon()

    def _continue_stretch(self, run: Run, index: int) -> Stretch:
        """Return the stretch of a run: that of the run before, if the run goes on with it."""
        before = self._stretch
        goes_on = before is not None and before.shard == index and self._last_offset < run.first
        if before is None or not goes_on:
            number = 0 if before is None else before.number + 1
            self._stretch = before = Stretch(number, index, self._accounts[index].range.key)
        self._last_offset = run.last
        return before

    def _find_account(self, run: Run) -> int:
        """Return the index of the shard that a run is of."""
        shard = (run.topic, run.partition)
        if shard not in self._indices:
            asked = self._ranges.get((run.topic, str(run.partition)))
            spec = self._specs.get(run.topic)
            if asked is None or spec is None:
                raise CountsDisagree(
                    f"task {self._task} was given {run.topic}/{run.partition}, which it was not "
                    "assigned",
                    hint="nothing was prepared; please report this",
                )
            self._indices[shard] = len(self._accounts)
            self._accounts.append(_Account(asked, spec))
        return self._indices[shard]

    def _find_sorter(self, topic: str, spec: LandingSpec) -> TopicSorter:
        if topic not in self._sorters:
            self._sorters[topic] = TopicSorter(self._order, spec)
        return self._sorters[topic]

    def _check_range(self, run: Run, asked: ShardRange) -> None:
        if run.first < asked.offsets.start or run.last >= asked.offsets.end:
            raise CountsDisagree(
                f"task {self._task} was given offsets {run.first} to {run.last} of {asked.key}, "
                f"where {asked.offsets} was assigned",
                hint="nothing was prepared; please report this",
            )
