"""`diagnose` and `treat`, the use cases of the doctor: observe, plan, apply.

What it promises: `treat` does what `diagnose` shows; nothing is overwritten or deleted. Steps are
done in their order; after an error the rest is not, and a new diagnosis continues from there. Lost
entries are restored by one `prepare` for each batch whose files are there: no file is touched. Each
entry has the epoch and batch of its files' names; batches without a file become empty ones. A
staging directory of an epoch above all others comes first, which only the last step opens: until
then starts stop with `log-lost`, the doctor resumes.
"""

import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from shlex import quote
from typing import assert_never

from ashore.base.unique import unique
from ashore.errors import LogGrows, PathMissing, Stopped, StorageError
from ashore.log import names
from ashore.log.entries import Closing, Commit, Join, Prepare, ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.fold import Fold, forget_sealed
from ashore.log.plan_commit import places_of
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.snapshot import write_snapshot
from ashore.log.store.clock_guard import ClockGuard, require_right_clock
from ashore.log.store.committer import Committer
from ashore.log.store.owner import claim_tables
from ashore.log.store.reader import read_log
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX
from ashore.proof.doctor.observation import OwnFile, path_below
from ashore.proof.doctor.observe import FormerAt, look_at_log, observe, open_beside
from ashore.proof.doctor.repair_plan import Diagnosis, plan_doctor
from ashore.proof.doctor.steps import (
    AdoptFiles,
    JoinAdopted,
    ListAdopted,
    MoveAside,
    RegisterTable,
    Step,
    WriteSnapshot,
)
from ashore.proof.evidence.adopted_files import write_adopted
from ashore.queries.state.layout import BatchLog
from ashore.storage.base import Staged, Storage
from ashore.tables.names import DEFAULT_PARTITION, parse_partition_path
from ashore.topics.loop.job import lake_of, landing_spec
from ashore.topics.loop.registrar import Registrar
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import WATCH_S_MAX


def adopt_files(opened: OpenJob, step: AdoptFiles) -> None:
    """Append what the step says. Requires: the job does not run.

    Raises StorageError, TableOwned, FilesLost, FileConflict, ClockAhead; Stopped where the log has
    grown.
    If interrupted: diagnose again; what was appended stays, and a start refuses to continue
    before the end.
    """
    claim_tables(opened.storage, step.tables, opened.job.job, opened.clock.now_ms())
    _require_right_clock(opened, step)
    _make_directories(opened, step)
    rebuilding = _Rebuilding(opened, step)
    rebuilding.begin()
    for batch, files in groupby(step.files, lambda each: each.name.batch):
        rebuilding.append(batch, list(files))
    rebuilding.end()


def _require_right_clock(opened: OpenJob, step: AdoptFiles) -> None:
    """Raise ClockAhead before anything is appended: a file that is made now shows the time.

    It lies where only the last step opens, so that what is interrupted here changes nothing.
    """
    fold = read_log(opened.storage, step.name)
    directory = names.staging_directory(step.tables[0], step.name, step.epoch)
    guard = ClockGuard(opened.storage, opened.clock, opened.source)
    with _probe(opened.storage, directory) as probe:
        guard.anchor_by(probe, fold)
    guard.require_clock(fold)


@contextlib.contextmanager
def _probe(storage: Storage, directory: str) -> Iterator[str]:
    """Make an empty file that readers do not see, yield its path, and delete it again."""
    path = names.join(directory, names.probe_name(unique()))
    storage.create(path, b"")
    yield path
    with contextlib.suppress(PathMissing):
        storage.delete(path)


def _make_directories(opened: OpenJob, step: AdoptFiles) -> None:
    """Make the staging directories that entries sync, that of the last epoch first."""
    storage = opened.storage
    last = names.staging_directory(step.tables[0], step.name, step.epoch)
    others = {
        names.staging_directory(each.table, step.name, each.name.epoch) for each in step.files
    }
    unclosed = read_log(storage, step.name).unclosed
    places = places_of(step.name, unclosed) if unclosed else []
    others |= {names.parent(each.pending) for each in places}
    for directory in (last, *sorted(others)):
        if storage.stat(directory) is None:
            with _probe(storage, directory):
                pass


class _Rebuilding:
    def __init__(self, opened: OpenJob, step: AdoptFiles) -> None:
        self._step = step
        self._now_ms = opened.clock.now_ms()
        self._committer: Committer = opened.committer(step.name, is_rebuilt=True)
        self._log = self._committer.log
        self._closing: Closing | None = None

    def begin(self) -> None:
        fold = self._log.resume()
        first = self._step.files[0].name.batch if self._step.files else fold.next_batch
        if first < fold.next_batch:
            raise Stopped(
                f"the log of {self._step.name} has grown since it was checked",
                hint="run ashore doctor again",
            )
        self._closing = self._committer.finish()
        self._reach_epoch(1)
        if self._step.joined:
            self._append(Join(self._step.joined))

    def append(self, batch: int, files: Sequence[OwnFile]) -> None:
        self._reach_epoch(files[0].name.epoch)
        self._reach_batch(batch)
        self._append(build_prepare(self._log.fold, files, self._now_ms))

    def end(self) -> None:
        self._reach_batch(self._step.next_batch)
        if self._closing is not None:
            self._append(Commit("recovery"))
        self._reach_epoch(self._step.epoch)

    def _reach_epoch(self, epoch: int) -> None:
        while self._log.fold.epoch < epoch:
            self._log.open()

    def _reach_batch(self, batch: int) -> None:
        while self._log.fold.next_batch < batch:
            self._append(build_prepare(self._log.fold, (), self._now_ms))

    def _append(self, body: Join | Prepare | Commit) -> None:
        self._log.append(body, self._closing)
        self._closing = self._committer.finish()


def build_prepare(fold: Fold, files: Sequence[OwnFile], now_ms: int) -> Prepare:
    """Return the entry that lists files of one batch, as far as they show what it was."""
    keys = {(key.stream, key.shard): key for key in sorted(fold.current())}
    here = sorted({keys[each.stream, each.shard] for file in files for each in file.shards or ()})
    targets = sorted({_target(file) for file in files}, key=lambda each: each.directory)
    return Prepare(
        batch=fold.next_batch,
        time=BatchTime(max(now_ms, fold.now_ms), tuple(sorted(fold.watermarks.items()))),
        shards=tuple(_reads(fold, here, files)),
        targets=tuple(targets),
        files=tuple(_data_file(file, targets, keys, here) for file in files),
        counters=(),
        query=None,
    )


def _target(file: OwnFile) -> Target:
    partition = names.parent(path_below(file.path, names.table_path(file.table)))
    values = tuple(
        (column, None if value == DEFAULT_PARTITION else value)
        for column, value in parse_partition_path(partition)
    )
    return Target(file.table, file.role, partition, values, file.schema, file.name.extension)


def _reads(fold: Fold, here: Sequence[ShardKey], files: Sequence[OwnFile]) -> Iterator[ShardRead]:
    for key in here:
        rows: dict[bool, int] = defaultdict(int)
        end, table = fold.shards[key].next, ""
        for file in files:
            for each in file.shards or ():
                if (each.stream, each.shard) == (key.stream, key.shard):
                    rows[file.role is Role.DEAD] += each.rows
                    end = max(end, each.offsets.end)
                    table = file.table.removesuffix(LATE_SUFFIX).removesuffix(DEAD_SUFFIX)
        offsets = OffsetRange(fold.shards[key].next, end)
        counts = {"landed": rows[False], "dead": rows[True], "filtered": 0, "dropped": 0}
        fetched = rows[False] + rows[True]
        yield ShardRead(key, offsets, table, fetched, **counts, size_bytes=0, event_max_ms=None)


def _data_file(
    file: OwnFile,
    targets: Sequence[Target],
    keys: dict[tuple[str, str], ShardKey],
    here: Sequence[ShardKey],
) -> DataFile:
    return DataFile(
        target=list(targets).index(_target(file)),
        task=file.name.task,
        unique=file.name.unique,
        rows=file.rows,
        size_bytes=file.size_bytes,
        checksum=file.checksum,
        spans=tuple(
            FileSpan(
                here.index(keys[each.stream, each.shard]),
                each.offsets.start,
                each.offsets.end,
                each.rows,
            )
            for each in file.shards or ()
        ),
        event_min_ms=None,
        event_max_ms=None,
    )


@dataclass(frozen=True, slots=True)
class Done:
    """A step that was done, and how a person undoes it. Empty: it needs no undoing."""

    step: Step
    undo: str = ""


def watch_all_quiet(opened: OpenJob, at: FormerAt) -> None:
    """Raise LogGrows where the job, or a former writer, writes within two intervals."""
    before = _traces(opened, at)
    opened.clock.sleep(min(2 * opened.job.batch.interval_ms / 1000, WATCH_S_MAX))
    for what, found in _traces(opened, at).items():
        if found != before[what]:
            raise LogGrows(
                f"{what} is growing: its writer is still running",
                hint="stop it first, or repeat the command with --take-over",
            )


def _traces(opened: OpenJob, at: FormerAt) -> dict[str, frozenset[str]]:
    """Return names in the directories that grow while a writer is active."""
    listed = {f"the log of {opened.name}": (opened.storage, names.log_directory(opened.name))}
    if at.spark_checkpoint is not None:
        checkpoint = open_beside(opened, at.spark_checkpoint)
        for log in BatchLog:
            listed[f"{at.spark_checkpoint}/{log}"] = (checkpoint, log)
    found = {
        what: frozenset(each.path for each in storage.list(directory))
        for what, (storage, directory) in listed.items()
    }
    if at.connect_table is not None:
        with opened.formats() as formats:
            if (files := formats.readable(at.connect_table)) is not None:
                found[at.connect_table] = frozenset(files.files)
    return found


def apply_steps(opened: OpenJob, steps: Sequence[Step], report: Callable[[Done], None]) -> None:
    """Do steps in their order. `report` is called for each that was done.

    Raises StorageError, CatalogError, TableOwned, FilesLost; Stopped where a step does not fit
    any more.
    If interrupted: the reported steps are done; diagnose again for the rest.
    """
    for step in steps:
        report(Done(step, _apply(opened, step)))


def _apply(opened: OpenJob, step: Step) -> str:
    """Do one step and return how it is undone."""
    storage = opened.storage
    match step:
        case AdoptFiles():
            adopt_files(opened, step)
        case MoveAside():
            return _move_aside(opened, step)
        case ListAdopted():
            storage.create(step.path, write_adopted(step.table, step.by, step.files))
        case JoinAdopted():
            _join(opened, step)
        case RegisterTable():
            _register(opened, step)
        case WriteSnapshot():
            _write_snapshot(opened, step)
        case _:
            assert_never(step)
    return ""


def _move_aside(opened: OpenJob, step: MoveAside) -> str:
    storage = opened.storage
    try:
        storage.publish(Staged(step.source), step.target)
    except PathMissing:
        if storage.stat(step.target) is None:
            raise
    except StorageError:
        # Unclear: the names show it. Nothing else ever has this target.
        if storage.stat(step.source) is not None or storage.stat(step.target) is None:
            raise
    storage.sync([names.parent(step.target), names.parent(step.source)])
    root = storage.describe().removeprefix("file://")
    verb = "hdfs dfs -mv" if "://" in root else "mv -n"
    return f"{verb} {quote(f'{root}/{step.target}')} {quote(f'{root}/{step.source}')}"


def _join(opened: OpenJob, step: JoinAdopted) -> None:
    """Take the slice over and append the join, closing what was unclosed.

    Requires: what the former writer left was looked at, and it writes no more.
    If interrupted: tables may be claimed, and the slice be opened; the join stands or does not.
    """
    claim_tables(opened.storage, step.tables, opened.job.job, opened.clock.now_ms())
    committer = opened.committer(opened.name)
    committer.log.open()
    require_right_clock(committer, opened.source)
    closing = committer.finish()
    known = committer.log.fold
    keys = [each.key for each in step.join.shards]
    again = [key for key in keys if known.generation(key.source, key.stream) is not None]
    streams = opened.source.describe_streams(sorted({each.key.stream for each in step.join.shards}))
    other = [
        each.key.stream
        for each in step.join.shards
        if each.key.stream not in streams or streams[each.key.stream].stream_id != each.stream_id
    ]
    if again or other:
        if closing is not None:
            committer.log.append(Commit("recovery"), closing)
        raise Stopped(
            f"{(again or other)[0]} changed since it was checked; nothing was adopted",
            hint="run ashore doctor again",
        )
    committer.log.append(step.join, closing)


def _register(opened: OpenJob, step: RegisterTable) -> None:
    with opened.catalog() as catalog:
        lake, job = lake_of(opened.job).uri, opened.job.job
        # `register` raises what it cannot do.
        registrar = Registrar(catalog, lake, job, lambda _message: None)
        resolved = opened.known_topics().values()
        fold = opened.fold(opened.name)
        registrar.ensure(landing_spec(each, fold) for each in resolved if not each.spec.select)
        registrar.register(step.table, step.partitions)


def _write_snapshot(opened: OpenJob, step: WriteSnapshot) -> None:
    """Write the snapshot that the job itself would write. Requires: damaged ones are aside."""
    seen, _ = look_at_log(opened.storage, opened.name)
    fold = seen.fold
    if fold is None or fold.end != step.end or fold.unclosed is not None:
        raise Stopped(
            f"the log of {opened.name} changed since it was checked; no snapshot was written",
            hint="a running job writes its own snapshots; otherwise run ashore doctor again",
        )
    remember_ms = max(item.seal.remember_ms for item in opened.job.tables)
    kept = forget_sealed(fold, fold.now_ms - remember_ms)
    opened.storage.create(names.snapshot_path(opened.name, kept.end), write_snapshot(kept))


def diagnose(opened: OpenJob, at: FormerAt) -> Diagnosis:
    """Return what would be done. Changes nothing."""
    return plan_doctor(observe(opened, at))


def treat(
    opened: OpenJob, at: FormerAt, report: Callable[[Done], None], *, takes_over: bool
) -> Diagnosis:
    """Do what can be done and return what is left. `report` is called for each step that was done.

    Raises LogGrows where another process appends, unless `takes_over`; else as `apply_steps`.
    """
    if not takes_over:
        watch_all_quiet(opened, at)
    seen = observe(opened, at)
    found = plan_doctor(seen)
    apply_steps(opened, found.steps, report)
    if seen.log.foreign:  # only now can the log be read
        found = diagnose(opened, at)
        apply_steps(opened, found.steps, report)
    return replace(found, steps=())
