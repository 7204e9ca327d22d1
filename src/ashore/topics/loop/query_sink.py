"""The sink of one INSERT: the batches of a streaming query, through the landing log.

What it is: `QuerySink`, steps 3 to 6 of a batch whose rows Spark has computed.
What it promises: the rows of each batch of the query are in the table once, whatever is killed,
frozen or run again: what a batch would do is decided from the log before it runs, and the log has
closed it before Spark hears of its end. Of two processes that run the query one appends. Rows that
go into a topic are there at least once: nothing takes them back where their batch comes to nothing.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from ashore.base.clock import Clock
from ashore.errors import BatchFailed, CheckpointUnfit, check, fail
from ashore.log.entries import Join, Joined, LeaveOut, Plan, Prepare, Query, next_version
from ashore.log.entries.batch import SENT
from ashore.log.files import Role
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import ShardOffsets, WentBack, leaders_of
from ashore.log.plan_commit import NO_CATALOG, Publishing
from ashore.log.plan_query import (
    DiscardRows,
    QueryBatch,
    Refusal,
    Refuse,
    WriteRows,
    plan_query_batch,
)
from ashore.log.positions import BatchTime, ShardKey, ShardRange, StreamShard
from ashore.log.progress import (
    BatchLanded,
    Progress,
    Quiet,
    Step,
    count_batch,
    count_sent,
    measure_slice,
)
from ashore.log.query import Letter, PlanState
from ashore.log.store.cleaner import delete_staged
from ashore.log.store.committer import Committer
from ashore.log.store.effects import Effects
from ashore.log.store.entry_writer import EntryWriter
from ashore.log.store.log import LandingLog
from ashore.log.store.owner import TableDirectories
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress
from ashore.tables.table_format import Directories, TableFormat
from ashore.topics.loop.compaction import Compactor
from ashore.topics.loop.definitions import (
    DefinePlan,
    Others,
    definition_of,
    no_others,
    plan_define,
    record,
    require_readable,
)
from ashore.topics.loop.joins import Histories, look_again, shards_of, went_back
from ashore.topics.loop.shares import ShareWindow
from ashore.topics.loop.sinks import require_log_of
from ashore.topics.read.source import Source
from ashore.topics.write.batch import (
    FILES_MAX,
    LettersOrder,
    Order,
    OutputSpec,
    RowsOrder,
    TaskResult,
    Written,
    merge_rows,
    sort_counters,
)

Leaders = tuple[tuple[ShardKey, int], ...]


class QueryLeaders:
    """Asks for leaders, at the start of a query and before each batch. Used by one thread.

    No batch follows records that the topic no longer has. A range is recorded with a leader only
    if that leader has all of it, before any of it is read, and was the leader when the run began:
    Spark keeps what it has fetched beyond a batch for the next ones, as long as a run lasts. The
    rules are those of `model/histories.py`.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._histories = Histories(source)
        self._at_begin: dict[StreamShard, int] = {}  # of this run

    def begin_run(self) -> None:
        """Forget the leaders of the run before: nothing that it has fetched is used any more."""
        self._at_begin = {}

    def check(self, fold: Fold) -> None:
        """Raise HistoryTruncated or OffsetsWentBack where a partition was cut below what was read.

        What a broker that lags behind may say by mistake: see `look_again`. Raises SourceError.
        """
        self._check_landed(fold, self._read(fold.current()))

    def begin_batch(self, fold: Fold, ranges: Iterable[ShardRange]) -> Leaders:
        """Return the leaders under which the ranges of a batch are read.

        Requires: nothing of the batch has been read yet. Raises as `check`, also where a range ends
        above what a partition holds; BatchFailed where a leader has changed since the run began:
        the query has to be started again.
        """
        read = list(ranges)
        offsets = self._read({*fold.current(), *(each.key for each in read)})
        self._check_landed(fold, offsets)
        for each in read:
            if offsets[each.key].end < each.offsets.end:
                raise went_back(WentBack(each.key, each.offsets.end, offsets[each.key].end))
        leaders = leaders_of(sorted(each.key for each in read), offsets)
        self._require_same(leaders)
        return leaders

    def _read(self, keys: Iterable[ShardKey]) -> dict[ShardKey, ShardOffsets]:
        ordered = sorted(keys)
        found = self._source.read_offsets(sorted(set(shards_of(ordered)))) if ordered else {}
        return {key: found[StreamShard(key.stream, key.shard)] for key in ordered}

    def _check_landed(self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        landed = fold.current()
        for key, state in landed.items():
            if offsets[key].end < state.next:
                raise went_back(WentBack(key, state.next, offsets[key].end))
        self._histories.check(fold, {key: offsets[key] for key in landed})

    def _require_same(self, leaders: Leaders) -> None:
        for key, leader in leaders:
            shard = StreamShard(key.stream, key.shard)
            before = self._at_begin.setdefault(shard, leader)
            if before != leader:
                raise BatchFailed(
                    f"{key.stream}/{key.shard} has a new leader: the query is restarted, to "
                    "discard what it has prefetched from the old one",
                )


_HINTS = {
    Refusal.EMPTY_CHECKPOINT: "continue from a savepoint, `ashore run --from SAVEPOINT`, or "
    "restore a copy of the checkpoint; without either write to another table or topic, from the "
    "start: this one would get its rows twice",
    Refusal.OTHER_QUERY: "restore the checkpoint of that query, or write to another table or topic",
    Refusal.OTHER_LINEAGE: "finish the batch with the SQL that it was started with, then change "
    "the SQL; was another checkpoint restored?",
    Refusal.GAP: "was another checkpoint restored, or the table's log? A table in which "
    "nothing has landed continues from a savepoint by `ashore run --from SAVEPOINT --output "
    "another-table`",
    Refusal.RANGES: "was another checkpoint restored, or the table's log?",
    Refusal.FORGOTTEN: "restore a newer checkpoint",
}


@dataclass(frozen=True, slots=True)
class QuerySlice:
    """What the sink of an INSERT is to do."""

    lake: LakeAddress
    name: SliceName
    output: OutputSpec | None  # None: the rows go into a topic
    remember_ms: int
    accepted_by: str = ""  # who accepts risky changes of tables
    topic: str = ""  # that the rows go into, where there is no table
    bad_of: int = 10_000  # the number of last offsets that are judged together
    bad_share: float = 0.01  # above it, bad records are reported
    others: Others = no_others  # tables of other slices of the job
    formats: TableFormat = field(default_factory=Directories)
    compactor: Compactor | None = None  # None: its table is not compacted while the job runs

    @property
    def table(self) -> str:
        """The table; empty where there is none."""
        return self.output.table if self.output else ""

    @property
    def filled(self) -> str:
        """The table, or the topic."""
        return self.table or self.topic


@dataclass(frozen=True, slots=True)
class BegunBatch:
    """A batch whose rows count, once they are written or sent; `land` or `sent` comes after."""

    batch: QueryBatch
    lineage: str
    order: Order
    counted: Mapping[str, int] = field(default_factory=dict)  # records that were read
    leaders: Leaders = ()  # of the topic partitions, before any of it was read


class QuerySink:
    """The sink of one INSERT. One batch at a time, by one thread at a time."""

    def __init__(  # noqa: PLR0913 - given by name
        self,
        plan: QuerySlice,
        *,
        storage: Storage,
        log: LandingLog,
        clock: Clock,
        progress: Progress | None = None,
        publishing: Publishing = NO_CATALOG,
        effects: Effects | None = None,
        source: Source | None = None,
    ) -> None:
        """`source`: asked for leaders, and for the time where it is in doubt."""
        self.plan = plan
        self.storage = storage
        self.log = log
        self.clock = clock
        self.progress = progress or Quiet()
        commit_table = plan.formats.commit
        committer = Committer(log, storage, clock, self.progress, publishing, commit_table)
        self._entries = EntryWriter(committer, effects, source)
        self._leaders = QueryLeaders(source) if source else None
        self._directories = TableDirectories(storage)
        self._shares = ShareWindow(plan.bad_of, plan.bad_share, plan.filled)

    @property
    def fold(self) -> Fold:
        """The log as this writer knows it. Requires: `open` was called."""
        return self.log.fold

    def open(self) -> Fold:
        """Take the slice over, finish what was prepared, close it. After every failure again.

        Raises LogDamaged, FilesLost, FileConflict, Fenced, StorageError; before it takes over,
        CheckpointUnfit where the log is another table's, and SchemaConflict.
        """
        self._step(Step.OPEN)
        if self._leaders is not None:
            self._leaders.begin_run()
        self._entries.open(self._require)
        self._directories.require([self.plan.table] if self.plan.table else ())
        planned = self._plan_define(self.fold)
        record(planned, self._entries, self.progress, self.plan.accepted_by)
        self._entries.close("recovery")
        self._entries.shorten(self.plan.remember_ms)
        self._measure()
        return self.fold

    def join(self, joined: Sequence[Joined]) -> None:
        """Take shards up that the log does not know yet, before they are read first."""
        new = tuple(each for each in joined if each.key not in self.fold.shards)
        if new:
            self._entries.append(Join(new))

    def check_histories(self) -> None:
        """Raise HistoryTruncated or OffsetsWentBack where a topic was cut below what was read.

        Looked at again for seconds first. Raises SourceError. Requires: `open`.
        """
        leaders = self._leaders
        if leaders is not None:
            look_again(self.clock, lambda: leaders.check(self.fold), self._warn)

    def take_plan(self, plan: PlanState) -> None:
        """Write down what the query computes from here on. Requires: `open`.

        Raises Fenced, StorageError. If interrupted: the next start compares with it, or with the
        one before.
        """
        self._entries.append(Plan(plan.digest, plan.document))

    def take_version(self, digest: str, describe: Callable[[], str]) -> bool:
        """Write down what the job is from here on, unless the log has it. Requires: `open`.

        `describe` returns the version as JSON, where it is a new one.

        Returns whether it is new. Raises Fenced, StorageError, and what `describe` raises.
        If interrupted: the next start writes it down.
        """
        known = self.fold.version
        if known is not None and known.digest == digest:
            return False
        self._entries.append(next_version(self.fold, digest, describe()))
        return True

    def leave_out(self, records: Sequence[Letter]) -> None:
        """Write down what the batches to come leave out. Requires: `open`, nothing prepared since.

        Raises Fenced, StorageError. If interrupted: the batch is run again with or without them,
        and without them nothing of it counts.
        """
        self._entries.append(LeaveOut(tuple(sorted(records))))

    def begin(
        self,
        batch: QueryBatch,
        identify: Callable[[ShardKey], str],
        past: Mapping[int, str] | None = None,
    ) -> BegunBatch | None:
        """Decide how a batch is written; None: run it, drop its rows.

        Shards that the log does not know are joined. Requires: `open`.

        Arguments:
            batch: that is about to run.
            identify: returns the identity of the stream that a shard is of.
            past: lineages of older batches.

        Raises CheckpointUnfit, ClockAhead, LogAhead, Fenced, StorageError; HistoryTruncated,
        OffsetsWentBack, SourceError; BatchFailed where the query has to be started again, as a
        topic partition has got another leader.

        """
        check(not self._entries.must_open, "a sink is opened before a batch begins")
        self._step(Step.PLAN)
        self.log.look()  # a frozen process must not send its tasks out once more
        decision = plan_query_batch(self.fold, batch, past)
        match decision:
            case Refuse():
                raise refusal_of(self.plan.name, decision)
            case DiscardRows():
                self._begin_reading(batch)  # a state is built of what is read
                return None
            case WriteRows():
                leaders = self._begin_reading(batch)
                self._entries.require_time(self._now_ms())
                first = {each.key: each.offsets.start for each in batch.ranges}
                self.join(
                    [
                        Joined(key, identify(key), first[key], "new_shard")
                        for key in decision.unknown
                    ]
                )
                self._step(Step.WRITE)  # Spark computes the rows meanwhile: it may take long
                return BegunBatch(batch, decision.lineage, self._order(), leaders=leaders)

    def land(
        self,
        begun: BegunBatch,
        results: Sequence[TaskResult],
        check_source: Callable[[], None] = lambda: None,
    ) -> int:
        """Make the rows of a batch count, and return how many there are.

        When it returns, the rows are readable and the entry is closed. `check_source` raises where
        what was read is not what the log knows: nothing is prepared then.
        If interrupted: `open`, then `begin` with the same batch, which says what is left to do.
        """
        # Step 3. Prepare: the commit point, for rows and for what was left aside.
        self._step(Step.PREPARE)
        written = merge_rows(self.plan.table, _read_ranges(begun), results)
        check_source()
        self._directories.require([self.plan.table])
        rows = sum(
            file.rows for file in written.files if written.targets[file.target].role is Role.MAIN
        )
        self._close_batch(begun, written, rows)
        return rows

    @contextmanager
    def discarding(self, begun: BegunBatch) -> Iterator[None]:
        """Delete what tasks have staged for a batch where it fails, as far as possible."""
        try:
            yield
        except Exception:
            if self.plan.output is not None:
                delete_staged(self.storage, begun.order.place, [self.plan.output.table])
            raise

    def sent(
        self, begun: BegunBatch, rows: int, check_source: Callable[[], None] = lambda: None
    ) -> None:
        """Make a batch count whose rows are in a topic.

        `check_source` as with `land`. If interrupted before the entry is there: the batch is run
        again, and its rows are sent again.
        """
        # Step 3. Prepare: from here on the rows are not sent again.
        self._step(Step.PREPARE)
        check_source()
        written = merge_rows(self.plan.table, _read_ranges(begun), ())
        self._close_batch(begun, replace(written, counters=sort_counters({SENT: rows})), rows)

    def _close_batch(self, begun: BegunBatch, written: Written, rows: int) -> None:
        counters = sort_counters({**dict(written.counters), **begun.counted})
        written = replace(written, counters=counters)
        prepare = self._prepare(begun, written)
        self._entries.append(prepare)
        count = count_batch(self.plan.name.slice, prepare)
        if self.plan.output is None:
            count = count_sent(count, self.plan.topic, rows)
        self.progress.measured(count)
        entry = self._entries.log.fold.end
        files = len(written.files)
        if files > FILES_MAX:  # the batch stands in Spark's checkpoint: it cannot become smaller
            self.progress.note(
                self.plan.name.slice,
                f"batch {begun.order.batch} has {files:,} files, but an entry lists at most "
                f"{FILES_MAX:,}; end the SELECT with DISTRIBUTE BY and the columns that the table "
                "is partitioned by, partition it by less, or lower batch.max_records",
            )
        landed = BatchLanded(begun.order.batch, entry, rows, files, 0, (self.plan.filled,))
        # Steps 4 to 6. Move, publish, close: Spark forgets the batch once this has returned.
        self._entries.finish()
        self._entries.close("query")
        for text in self._shares.take(prepare):
            self._warn(text)
        self.progress.landed(self.plan.name.slice, landed)
        self._measure()
        if self.plan.compactor is not None:
            self.plan.compactor.note(entry, self.fold.epoch, prepare)
            self.plan.compactor.run(self._entries)
        self._entries.write_snapshot(self.plan.remember_ms)

    def idle(self) -> None:
        """Do what is deferred, between batches; look whether the log is still ours."""
        self._step(Step.IDLE)
        if self._entries.must_open:
            return
        self.log.look()
        self._entries.run_deferred()
        self._entries.close("idle")
        self._measure()

    def rows_order(self, begun: BegunBatch) -> RowsOrder:
        """Return what tasks need to write the rows of a batch. Requires: they go into a table."""
        order, output = begun.order, self.plan.output
        if output is None:
            fail(f"the rows of {self.plan.name} are not written to a table")
        return RowsOrder(
            order.lake,
            order.name,
            order.epoch,
            order.batch,
            order.time,
            output=output,
            field_ids=order.field_ids,
        )

    def letters_order(self, begun: BegunBatch) -> LettersOrder:
        """Return what a task needs to write records that the query leaves aside."""
        order, output = begun.order, self.plan.output
        if output is None:
            fail(f"the rows of {self.plan.name} are not written to a table")
        return LettersOrder(
            order.lake,
            order.name,
            order.epoch,
            order.batch,
            order.time,
            output=output,
            shards=tuple(each.key for each in begun.batch.ranges),
            field_ids=order.field_ids,
        )

    def _require(self, fold: Fold) -> None:
        require_log_of(fold, self.plan.name, self.plan.table)
        require_readable(self._plan_define(fold), self.plan.accepted_by)

    def _plan_define(self, fold: Fold) -> DefinePlan:
        output = self.plan.output
        definitions = () if output is None else (definition_of(output),)
        return plan_define(fold.tables, definitions, self.plan.others)

    def _begin_reading(self, batch: QueryBatch) -> Leaders:
        """Return the leaders of what a batch reads, before any of it is read. Raises as `begin`."""
        leaders = self._leaders
        if leaders is None:
            return ()
        return look_again(
            self.clock, lambda: leaders.begin_batch(self.fold, batch.ranges), self._warn
        )

    def _warn(self, message: str) -> None:
        self.progress.warn(self.plan.name.slice, message)

    def _order(self) -> Order:
        return Order(
            lake=self.plan.lake.with_active(),
            name=self.plan.name,
            epoch=self.fold.epoch,
            batch=self.fold.next_batch,
            time=BatchTime(self._now_ms()),
            field_ids=tuple(self.plan.formats.field_ids().items()),
        )

    def _now_ms(self) -> int:
        return max(self.clock.now_ms(), self.fold.now_ms)

    def _prepare(self, begun: BegunBatch, written: Written) -> Prepare:
        batch, order = begun.batch, begun.order
        # It depends on which inputs were idle, and on restarts: no later run could compute it.
        watermarks = ((self.plan.filled, batch.watermark_ms),) if batch.watermark_ms else ()
        leaders = dict(begun.leaders)
        return Prepare(
            batch=order.batch,
            time=replace(order.time, watermarks=watermarks),
            shards=tuple(
                replace(read, leader_epoch=leaders.get(read.key)) for read in written.reads
            ),
            targets=written.targets,
            files=written.files,
            counters=written.counters,
            query=Query(batch.query_id, batch.batch_id, begun.lineage, batch.planned_ms),
            commits=self.plan.formats.draw(
                self.log.name, {each.table for each in written.targets}, self.fold.commits
            ),
        )

    def _measure(self) -> None:
        self.progress.measured(measure_slice(self.plan.name.slice, self.fold, None, None))

    def _step(self, step: Step) -> None:
        self.progress.step(self.plan.name.slice, step)


def _read_ranges(begun: BegunBatch) -> list[ShardRange]:
    """Return the ranges of a batch that have offsets, in the order of an entry."""
    return [each for each in sorted(begun.batch.ranges) if each.offsets.size]


def refusal_of(name: SliceName, refuse: Refuse) -> CheckpointUnfit:
    """Return the error that a refusal is."""
    return CheckpointUnfit(
        f"{name}: {refuse.text}; nothing was written", hint=_HINTS[refuse.why], why=refuse.why.value
    )
