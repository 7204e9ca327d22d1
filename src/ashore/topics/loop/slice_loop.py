"""The landing loop of one slice: plan, write, prepare, move, close, again and again.

What it is: `SliceLoop`, the six steps of a batch in order; the same numbers stand in
`docs/internals/commit.md`.
What it promises: the landing log is the only truth. A failure in steps 1 and 2 needs no new
`open`; after an unclear step 3 or later the loop continues only through one.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from ashore.base.clock import Clock
from ashore.errors import (
    AshoreError,
    RecordsTooLarge,
    SourceError,
    StreamReplaced,
    TooManyFiles,
)
from ashore.log.entries import Prepare, Skip
from ashore.log.files import TableCommit
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_batch import (
    BatchPlan,
    Gaps,
    Limits,
    Nothing,
    ShardOffsets,
    WentBack,
    check_batch,
    leaders_of,
    plan_batch,
    plan_time,
)
from ashore.log.plan_commit import NO_CATALOG, Publishing
from ashore.log.positions import ShardKey, StreamShard
from ashore.log.progress import (
    BatchLanded,
    PartitionsRetired,
    Progress,
    Quiet,
    Step,
    TablePartitions,
    count_batch,
    measure_slice,
)
from ashore.log.store.cleaner import delete_staged
from ashore.log.store.committer import Committer
from ashore.log.store.effects import Effects, Sealer
from ashore.log.store.entry_writer import EntryWriter
from ashore.log.store.log import LandingLog
from ashore.log.store.owner import TableDirectories
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress
from ashore.tables.ddl import FieldIds
from ashore.tables.table_format import Directories, TableFormat
from ashore.topics.loop.bisection import run_apart
from ashore.topics.loop.compaction import Compactor
from ashore.topics.loop.definitions import (
    DefinePlan,
    Definitions,
    Others,
    no_others,
    no_tables,
    plan_define,
    record,
    require_readable,
)
from ashore.topics.loop.joins import (
    Histories,
    check_streams,
    find_replaced,
    look_again,
    plan_join,
    refuse_gaps,
    require_streams,
    shards_of,
    shown_gaps,
    went_back,
)
from ashore.topics.loop.retention import Retirer, retire_entry
from ashore.topics.loop.samples import NullColumnWatch, read_samples
from ashore.topics.loop.shares import ShareWindow
from ashore.topics.loop.too_large import Oversized
from ashore.topics.loop.waiting_topics import naming_waiting
from ashore.topics.loop.worker import Tick
from ashore.topics.read.source import FirstOffset, Source, StreamInfo
from ashore.topics.write.batch import (
    FILES_MAX,
    BatchOrder,
    BatchRunner,
    LandingSpec,
    TaskResult,
    Written,
    merge_results,
    prepare_of,
)


@dataclass(frozen=True, slots=True)
class SlicePlan:
    """What a slice is to do: its part of the job file, resolved."""

    lake: LakeAddress
    name: SliceName
    streams: Callable[[], Mapping[str, LandingSpec]]  # which streams to read now, and their tables
    named: frozenset[str]  # streams that must exist
    first_of: Callable[[str, bool], FirstOffset]
    skips_gaps: bool
    limits: Limits
    remember_ms: int
    commit_group: str | None = None  # where next offsets are shown
    definitions: Definitions = no_tables  # the tables that `streams` fill
    others: Others = no_others  # tables of other slices of the job
    accepted_by: str = ""  # who accepts risky changes of tables
    bad_of: int = 10_000  # the number of last records of a table that are judged together
    bad_share: float = 0.01  # above it, dead letters and rows without event time are reported
    skips_large: bool = False  # what exceeds the limits of readers

    def require_readable(self, fold: Fold) -> None:
        """Raise SchemaConflict where readers of its tables could not stand what it would write."""
        require_readable(self.plan_define(fold), self.accepted_by)

    def plan_define(self, fold: Fold) -> DefinePlan:
        """Return how the tables change. Raises as `others`."""
        return plan_define(fold.tables, self.definitions(fold.tables), self.others)


@dataclass(frozen=True, slots=True)
class SliceParts:
    """What a slice works with."""

    storage: Storage
    source: Source
    runner: BatchRunner
    log: LandingLog
    clock: Clock
    progress: Progress = field(default_factory=Quiet)
    publishing: Publishing = NO_CATALOG
    effects: Effects | None = None  # None: what is deferred stays deferred
    sealer: Sealer | None = None
    retirer: Retirer | None = None  # None: no table has a retention
    compactor: Compactor | None = None  # None: no table is compacted while the job runs
    formats: TableFormat = field(default_factory=Directories)

    def committer(self) -> Committer:
        """Return what finishes the unclosed entry of the slice's log."""
        return Committer(
            self.log,
            self.storage,
            self.clock,
            self.progress,
            self.publishing,
            self.formats.commit,
        )

    def field_ids(self) -> tuple[tuple[str, FieldIds], ...]:
        """Return by which ids files of tables in a table format name their fields."""
        return tuple(self.formats.field_ids().items())

    def commits(self, written: Written) -> tuple[TableCommit, ...]:
        """Draw the commits to tables in a table format that an entry with these files orders."""
        tables = {target.table for target in written.targets}
        return self.formats.draw(self.log.name, tables, self.log.fold.commits)


class SliceLoop:
    """One slice: a Worker."""

    def __init__(self, plan: SlicePlan, parts: SliceParts) -> None:
        self.plan = plan
        self.parts = parts
        self._entries = EntryWriter(parts.committer(), parts.effects, parts.source)
        self._histories = Histories(parts.source)
        self._oversized = Oversized()
        self._tables: dict[str, str] = {}  # of the topics, as of the last look at them
        self._landed = 0
        self._lag: int | None = None  # as of the last look at the source
        self._complete_ms: int | None = None
        self._shares = ShareWindow(plan.bad_of, plan.bad_share)
        self._directories = TableDirectories(parts.storage)
        read = partial(read_samples, parts.source)
        self._null_columns = NullColumnWatch(parts.storage, parts.clock, read)

    @property
    def log(self) -> LandingLog:
        """See Worker."""
        return self.parts.log

    @property
    def batches_landed(self) -> int:
        """See Worker."""
        return self._landed

    def open(self) -> None:
        """Take the slice over and finish what its last writer prepared.

        Raises LogDamaged, FilesLost, FileConflict, StorageError; SchemaConflict, before it takes
        over; and what `plan.streams` raises, which claims the tables before anything is written.
        """
        with naming_waiting(self._tables):
            self._streams()
            self._step(Step.OPEN)
            self._entries.open(self.plan.require_readable)
            self._directories.require(self._tables.values())
        self._measure()
        self._entries.shorten(self.plan.remember_ms, self._sealing())

    def tick(self) -> Tick:
        """Land one batch, or find that there is nothing to land. See Worker."""
        with naming_waiting(self._tables):
            return self._tick()

    def _tick(self) -> Tick:
        if self._entries.must_open:
            self.open()
        # Step 1. Plan.
        self._step(Step.PLAN)
        streams, plan = look_again(self.parts.clock, self._look, self._report)
        if plan is None:
            self._idle()
            return Tick.IDLE
        # Step 2. Write.
        self._step(Step.WRITE)
        order = self._order(plan)
        try:
            results, written = self._write(order, plan)
        except RecordsTooLarge as error:
            self._oversized.note(error, plan)
            return Tick.BEHIND
        # Step 3. Prepare: the commit point.
        self._step(Step.PREPARE)
        self._directories.require(spec.table for _, spec in order.tables)
        if not all(result.is_by_id for result in results):
            self._check_identities(streams)
        check_batch(plan, self.parts.log.fold)
        prepare = prepare_of(plan, written, self.parts.commits(written))
        self._entries.append(prepare)
        self.parts.progress.measured(count_batch(self.plan.name.slice, prepare))
        entry = self.parts.log.fold.end
        # Steps 4 to 6. Move, publish, close (the closing waits for the next entry).
        self._entries.finish()
        self._landed += 1
        if self.parts.compactor is not None:
            self.parts.compactor.note(entry, self.parts.log.fold.epoch, prepare)
        self._report_health(prepare)
        tables = tuple(sorted({target.table for target in written.targets}))
        files = len(written.files)
        landed = BatchLanded(plan.batch, entry, written.rows, files, plan.left, tables)
        self.parts.progress.landed(self.plan.name.slice, landed)
        self._lag = plan.left
        if not plan.left:
            self._complete_ms = plan.time.now_ms
        self._measure()
        self._show_offsets()
        self._seal(self.parts.log.fold.current() if plan.is_behind else ())
        self._retire()
        if not plan.is_behind:
            self._compact()
        self._write_snapshot()
        return Tick.BEHIND if plan.is_behind else Tick.LANDED

    def close(self, reason: str = "stop") -> None:
        """See Worker."""
        if not self._entries.must_open:
            self._entries.close(reason)

    def stop(self, *, finishes: bool = False) -> None:  # noqa: ARG002 - see Worker
        """See Worker. A batch is over by itself."""
        if self.parts.compactor is not None:
            self.parts.compactor.stop()

    def cancel(self) -> None:
        """See Worker."""
        self.parts.runner.cancel()

    # ---- step 1

    def _look(self) -> tuple[dict[str, StreamInfo], BatchPlan | None]:
        streams = self._describe()
        return streams, self._plan(streams)

    def _streams(self) -> Mapping[str, LandingSpec]:
        found = self.plan.streams()
        self._tables.clear()
        self._tables.update({stream: spec.table for stream, spec in found.items()})
        return found

    def _report(self, message: str) -> None:
        self.parts.progress.warn(self.plan.name.slice, message)

    def _describe(self) -> dict[str, StreamInfo]:
        names = self._streams()
        streams = self.parts.source.describe_streams(sorted(names))
        fold, source = self.parts.log.fold, self.parts.source
        require_streams(self.plan.named, streams)
        check_streams(source.name, fold, streams)
        record(
            self.plan.plan_define(fold), self._entries, self.parts.progress, self.plan.accepted_by
        )
        join = plan_join(source, self.parts.log.fold, streams, self.plan.first_of)
        if join is not None:
            self._entries.require_time(self.parts.clock.now_ms())
            self._entries.append(join)
        return streams

    def _plan(self, streams: Mapping[str, StreamInfo]) -> BatchPlan | None:
        feeds = {stream: spec.feed for stream, spec in self.plan.streams().items()}
        while True:
            fold = self.parts.log.fold
            keys = [key for key in fold.current() if key.stream in streams]
            found = self.parts.source.read_offsets(shards_of(keys))
            offsets = {key: found[StreamShard(key.stream, key.shard)] for key in keys}
            now_ms = self.parts.clock.now_ms()
            self._lag = sum(max(0, offsets[key].end - fold.shards[key].next) for key in keys)
            if self._skip_large(fold, offsets):
                continue
            cut = self._oversized.cut(offsets)
            outcome = plan_batch(fold, cut, feeds, self.plan.limits, now_ms)
            match outcome:
                case BatchPlan() | Nothing():
                    self._histories.check(fold, offsets)
                    if not self._lag:
                        self._complete_ms = now_ms
                    self._measure()
                    if not isinstance(outcome, BatchPlan):
                        return None
                    self._entries.require_time(outcome.time.now_ms)
                    return self._oversized.enlarge(outcome, offsets)
                case WentBack():
                    raise went_back(outcome)
                case Gaps():
                    self._skip(outcome, offsets)

    def _skip(self, gaps: Gaps, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        shown = shown_gaps(gaps)
        if not self.plan.skips_gaps:
            raise refuse_gaps(gaps)
        self._report(f"skipped, Kafka no longer has it: {shown}")
        leaders = leaders_of([each.key for each in gaps.ranges], offsets)
        self._entries.append(Skip(gaps.ranges, None, (), (), "job", "gap: skip", leaders))

    def _skip_large(self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> bool:
        """Skip what comes next and is too large, or raise RecordsTooLarge; False: there is none."""
        reached = self._oversized.reached(fold, offsets)
        if reached is None:
            return False
        skipped, error = reached
        if not self.plan.skips_large:
            raise error
        self._report(f"skipped {skipped}: {error.message}")
        leaders = leaders_of([skipped.key], offsets)
        why = "limits: on_too_large: skip"
        self._entries.append(Skip((skipped,), None, (), (), "job", why, leaders))
        return True

    def _order(self, plan: BatchPlan) -> BatchOrder:
        log = self.parts.log
        streams = {each.key.stream for each in plan.ranges}
        specs = sorted(
            (name, spec) for name, spec in self.plan.streams().items() if name in streams
        )
        return BatchOrder(
            lake=self.plan.lake.with_active(),
            name=self.plan.name,
            epoch=log.fold.epoch,
            batch=plan.batch,
            time=plan.time,
            ranges=plan.ranges,
            tables=tuple(specs),
            stream_ids=tuple(
                sorted(
                    {(each.key.stream, log.fold.shards[each.key].stream_id) for each in plan.ranges}
                )
            ),
            field_ids=self.parts.field_ids(),
        )

    # ---- step 2

    def _write(self, order: BatchOrder, plan: BatchPlan) -> tuple[list[TaskResult], Written]:
        """Write a batch; delete what is staged where that fails.

        Raises TooManyFiles, with a smaller next plan: every start, reader and archiver has an entry
        in memory. Raises as `run_apart` and `merge_results`.
        """
        try:
            results = run_apart(self.parts.runner, order, plan, self._report)
            written = merge_results(order, results)
            files = len(written.files)
            if files > FILES_MAX:
                raise TooManyFiles(
                    f"{files:,} files", records=max(1, plan.size * FILES_MAX // files)
                )
        except AshoreError as error:
            delete_staged(self.parts.storage, order.place, {spec.table for _, spec in order.tables})
            if isinstance(error, TooManyFiles):
                raise self._plan_fewer(plan, int(str(error.fields["records"]))) from error
            raise
        return results, written

    def _plan_fewer(self, plan: BatchPlan, records: int) -> TooManyFiles:
        """Halve what has filled an entry, for the next plans; return the error of this one."""
        left = max(1, min(records, plan.size) // 2)
        self.plan = replace(self.plan, limits=replace(self.plan.limits, records=left))
        return TooManyFiles(
            f"batch {plan.batch} would have more than {FILES_MAX:,} files, which an entry lists at "
            f"most: until the job is started again a batch has at most {left:,} records",
            hint="partition the table by less, or lower batch.max_records",
            records=records,
        )

    # ---- step 3 and after

    def _report_health(self, prepare: Prepare) -> None:
        """Report what a job that works can have wrong all the same."""
        fold, specs = self.parts.log.fold, self.plan.streams
        for text in self._shares.take(prepare):
            self._report(text)
        for text in self._null_columns.take(self.plan.name, fold, prepare, specs):
            self._report(text)

    def _check_identities(self, streams: Mapping[str, StreamInfo]) -> None:
        """Raise StreamReplaced where a stream was created again while it was read.

        Not asked where tasks have fetched each record by the id of its topic: a broker answers
        with no other topic's records then.
        """
        source = self.parts.source
        known = {name: info.stream_id for name, info in streams.items()}
        now = source.describe_streams(sorted(streams))
        name = find_replaced(source.name, self.parts.log.fold, known, now)
        if name is not None:
            raise StreamReplaced(
                f"topic {name} was replaced while it was read; nothing was prepared",
                hint=f"to continue with the new topic: ashore rejoin JOB.yaml {name}",
                stream=name,
            )

    def _seal(self, waiting: Collection[ShardKey]) -> None:
        """Seal the partitions that are complete. `waiting`: shards that have more to read."""
        if self.parts.sealer is None:
            return
        fold = self.parts.log.fold
        feeds = {stream: spec.feed for stream, spec in self.plan.streams().items()}
        time = plan_time(fold, feeds, self.parts.clock.now_ms(), waiting)
        seal = self.parts.sealer.plan(self.plan.name, fold, time)
        if seal is not None:
            self._entries.require_time(time.now_ms)
            self._step(Step.SEAL)
            self._entries.append(seal)
            sealed = TablePartitions.of((each.table, each.partition) for each in seal.partitions)
            self.parts.progress.sealed(self.plan.name.slice, self.parts.log.fold.end, sealed)
            self._entries.finish()

    def _retire(self) -> None:
        """Drop partitions that are older than their tables keep them, now and then."""
        retirer, log = self.parts.retirer, self.parts.log
        plan = retirer.plan(log.fold) if retirer and retirer.is_due() else ()
        if retirer is None or not plan:
            return
        self._entries.require_time(log.fold.now_ms)
        self._step(Step.RETIRE)
        log.look()
        if not retirer.begin(plan):
            return
        new = [each for each in plan if each.slices]
        if new:
            self._entries.retire(retire_entry(new, "job", "retention"))
        log.look()
        deleted = retirer.apply(plan)
        tables = tuple(sorted({each.table for each in plan}))
        retired = PartitionsRetired(log.fold.end, len(plan), deleted, tables)
        self.parts.progress.retired(self.plan.name.slice, retired)

    def _compact(self) -> None:
        """Put small files together, now and then, where no record waits."""
        if self.parts.compactor is not None:
            self.parts.compactor.run(self._entries)

    def _show_offsets(self) -> None:
        """Show next offsets in the job's group. For tools that watch lag: nothing rests on it."""
        group = self.plan.commit_group
        if group is None:
            return
        current = self.parts.log.fold.current()
        shown = {StreamShard(key.stream, key.shard): state.next for key, state in current.items()}
        try:
            self.parts.source.show_offsets(group, shown)
        except SourceError as error:
            self._report(f"commit_group: {error.message}")

    def _idle(self) -> None:
        """Close the last entry, or look whether the log is still ours."""
        self._step(Step.IDLE)
        self._seal(())
        self._retire()
        self._entries.run_deferred()
        if not self._entries.has_closing:
            self.parts.log.look()
        while self._entries.has_closing:
            self._entries.close("idle")
            self._entries.run_deferred()  # what may be done only once it is deferred
        self._compact()
        self._write_snapshot()

    def _write_snapshot(self) -> None:
        self._entries.write_snapshot(self.plan.remember_ms, self._sealing())

    def _sealing(self) -> set[str]:
        sealer = self.parts.sealer
        return {rule.table for rule in sealer.rules()} if sealer else set()

    def _measure(self) -> None:
        name, fold = self.plan.name.slice, self.parts.log.fold
        measured = measure_slice(name, fold, self._lag, self._complete_ms)
        self.parts.progress.measured(measured)

    def _step(self, step: Step) -> None:
        self.parts.progress.step(self.plan.name.slice, step)
