"""Restoring lost entries of a log: one `prepare` for each batch whose files are there.

What it promises: no file is touched. Each entry has the epoch and batch of its files' names;
batches without a file become empty ones. A staging directory of an epoch above all others comes
first, which only the last step opens: until then starts stop with `log-lost`, the doctor resumes.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import groupby

from ashore.base.unique import unique
from ashore.errors import PathMissing, Stopped
from ashore.log import names
from ashore.log.entries import Closing, Commit, Join, Prepare, ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.fold import Fold
from ashore.log.plan_commit import places_of
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.store.clock_guard import ClockGuard
from ashore.log.store.committer import Committer
from ashore.log.store.owner import claim_tables
from ashore.log.store.reader import read_log
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX
from ashore.proof.doctor.observation import OwnFile, path_below
from ashore.proof.doctor.steps import AdoptFiles
from ashore.storage.base import Storage
from ashore.tables.names import DEFAULT_PARTITION, parse_partition_path
from ashore.topics.open_job import OpenJob


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
