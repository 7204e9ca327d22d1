"""Unneeded files of a checkpoint, found and deleted directory by directory.

What it is: `find_garbage`, which looks through a checkpoint and hands out what `garbage` says of
it; `delete_garbage`; `CheckpointCleaner`, which does both beside a query that runs, a little at a
time.
What it promises: `find_garbage` only reads. A store that cannot be understood is left alone and
reported; the others are looked through all the same. The logs are read before the state is listed,
so that what a running Spark finishes meanwhile is younger than all that is returned. In memory
are WORKERS partitions at a time, however many there are. Calls: a listing for each directory of
state, a reading for each snapshot of a store whose tables may go and for what an operator says of
itself where schemas may go, and a few for the logs.

A pass of the cleaner begins when it is asked for. A step takes about STEP_S, so that its caller
does other things in between. What was modified within AGE_MS stays, however soon the job file calls
a file stale: a table that Spark uploads is named by no snapshot until all of them are there. No log
is asked or written, so that nothing is fenced; a storage that fails ends the pass, and the next one
finds the rest. What cannot be understood is reported once.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from ashore.base.clock import Clock
from ashore.errors import (
    AshoreError,
    CheckpointUnfit,
    InvariantBroken,
    PathMissing,
    StorageError,
    SyncFailed,
)
from ashore.log import names
from ashore.log.progress import CheckpointCleaned
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import WORKERS, CheckpointFile, CheckpointStore
from ashore.queries.state.garbage import (
    Garbage,
    KeptBatches,
    StoreIds,
    Unneeded,
    plan_hidden,
    plan_logs,
    plan_operator,
    plan_store,
)
from ashore.queries.state.layout import (
    OPERATOR_DIRECTORIES,
    STATE,
    BatchLog,
    BatchPath,
    ChecksumPath,
    CommitFile,
    OffsetsFile,
    OperatorPath,
    SnapshotFile,
    StatePath,
    Store,
    TablePath,
    schema_names,
)
from ashore.queries.state.required_files import list_done

if TYPE_CHECKING:  # commands take an age from here, and write no log
    from ashore.log.progress import Progress

T = TypeVar("T")
STEP_S = 0.5
AGE_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class LeftAlone:
    """A state store or operator that keeps all, as it is not known what its files are for."""

    path: str
    why: str


def find_garbage(checkpoint: Checkpoint, before_ms: int) -> Iterator[Garbage | LeftAlone]:
    """Yield what `find_in_parts` yields, one by one. Raises as that."""
    for part in find_in_parts(checkpoint, before_ms):
        yield from part


def find_in_parts(
    checkpoint: Checkpoint, before_ms: int
) -> Iterator[Sequence[Garbage | LeftAlone]]:
    """Yield what no kept batch refers to, a directory after the files in it.

    A part is that of the logs, of an operator beside its partitions, or of WORKERS partitions; one
    without garbage is empty, so that the caller can do other things.

    Arguments:
        checkpoint: of Ashore, or of any query of Spark; it may be running.
        before_ms: files that were modified at this time or later stay.

    Raises CheckpointUnfit where no batch is done, so that it is unknown what is needed, and where
    a file of the logs is not as Spark writes it; StorageError.

    """
    logs = [
        file
        for directory in ("", BatchLog.OFFSETS, BatchLog.COMMITS)
        for file in checkpoint.list_directory(directory).files
    ]
    partitions = checkpoint.list_partitions()
    kept = _read_kept(checkpoint, logs, partitions, before_ms)
    yield list(_with_hidden(logs, kept, plan_logs(logs, kept)))
    for operator in sorted(partitions):
        yield _look_at_operator(checkpoint, operator, kept)
    every = (
        Store(operator, number)
        for operator, numbers in sorted(partitions.items())
        for number in numbers
    )
    with ThreadPoolExecutor(WORKERS) as pool:
        for some in _in_groups(every, WORKERS):
            looked = pool.map(lambda each: _look_through(checkpoint, each, kept), some)
            yield [each for found in looked for each in found]


def find_directories(checkpoint: CheckpointStore) -> Iterator[Garbage]:
    """Yield the directories of a checkpoint that holds no file, the root last; else none."""
    files, directories = _list_all(checkpoint, "")
    if not files:
        for each in directories:
            yield Garbage(each, 0, Unneeded.EMPTY)


def delete_garbage(checkpoint: CheckpointStore, found: Iterable[Garbage]) -> Iterator[Garbage]:
    """Delete what was found, some at a time, and yield what is gone. Raises StorageError.

    If interrupted: the rest is found again.
    """
    with ThreadPoolExecutor(WORKERS) as pool:
        for some in _in_groups(found, WORKERS * 8):
            # A directory comes after its files, and is gone only when they are.
            files = [each for each in some if each.why is not Unneeded.EMPTY]
            results = list(pool.map(lambda each: _delete(checkpoint, each), files))
            yield from (each for each, is_gone in zip(files, results, strict=True) if is_gone)
            for each in some:
                if each.why is Unneeded.EMPTY and _delete(checkpoint, each):
                    yield each


def _delete(checkpoint: CheckpointStore, garbage: Garbage) -> bool:
    try:
        return checkpoint.delete(garbage.path)  # False: Spark, or another cleaning, was faster
    except StorageError:
        if garbage.why is Unneeded.EMPTY and checkpoint.list_entries(garbage.path):
            return False  # another process has put something there
        raise


def _in_groups(items: Iterable[T], size: int) -> Iterator[list[T]]:
    remaining = iter(items)
    while some := list(islice(remaining, size)):
        yield some


# ---- what is kept


def _read_kept(
    checkpoint: Checkpoint,
    logs: Iterable[CheckpointFile],
    partitions: dict[int, list[int]],
    before_ms: int,
) -> KeptBatches:
    done = list_done(logs)
    if not done:
        raise CheckpointUnfit(
            f"the checkpoint {checkpoint.place} has no finished batch: nothing shows "
            "what is still needed",
            hint="run the query until a batch is done, or delete the directory",
            why="empty_checkpoint",
        )
    with ThreadPoolExecutor(WORKERS) as pool:
        has_ids = _read_ids(checkpoint, done[-1]) is not None
        found = pool.map(lambda batch: _read_ids(checkpoint, batch), done if has_ids else ())
        ids = {batch: each for batch, each in zip(done, found, strict=False) if each is not None}
        highest = max((number for some in partitions.values() for number in some), default=-1)
        count = _read_partitions(checkpoint, done[-1])
        if count is not None and highest >= count:  # an earlier batch may have had more
            counts = list(pool.map(lambda batch: _read_partitions(checkpoint, batch), done))
            count = None if None in counts else max(each or 0 for each in counts)
    return KeptBatches(tuple(done), count, ids, before_ms)


def _read_ids(checkpoint: Checkpoint, batch: int) -> StoreIds | None:
    try:
        return CommitFile.parse(*_read_batch(checkpoint, BatchLog.COMMITS, batch)).store_ids
    except PathMissing:  # Spark keeps the batch no more
        return None


def _read_partitions(checkpoint: Checkpoint, batch: int) -> int | None:
    """Return how many partitions a batch has; None: it does not say."""
    try:
        return OffsetsFile.parse(*_read_batch(checkpoint, BatchLog.OFFSETS, batch)).partitions
    except PathMissing:
        return 0


def _read_batch(checkpoint: Checkpoint, log: BatchLog, batch: int) -> tuple[bytes, str]:
    """Return what a file of the logs holds, and where it is, for messages. Raises PathMissing."""
    path = BatchPath(log, batch).path
    return checkpoint.read(path), f"{checkpoint.place}/{path}"


# ---- state


def _look_at_operator(
    checkpoint: Checkpoint, operator: int, kept: KeptBatches
) -> list[Garbage | LeftAlone]:
    root = names.join(STATE, str(operator))
    files = [
        file
        for each in OPERATOR_DIRECTORIES
        for file in _list_all(checkpoint, names.join(root, each))[0]
    ]

    def read_schemas(path: OperatorPath) -> set[tuple[str, str]]:
        says = checkpoint.read_operator(path)
        return {(store.name, name) for store in says.stores for name in schema_names(store)}

    try:
        return list(_with_hidden(files, kept, list(plan_operator(files, kept, read_schemas))))
    except (CheckpointUnfit, PathMissing) as error:  # a running Spark deletes such files too
        return [LeftAlone(root, error.message)]


def _look_through(
    checkpoint: Checkpoint, partition: Store, kept: KeptBatches
) -> list[Garbage | LeftAlone]:
    files, directories = _list_all(checkpoint, partition.path)
    stores: dict[Store, list[CheckpointFile]] = {}
    for each in files:
        match each.of:
            case (
                StatePath(store=store)
                | ChecksumPath(StatePath(store=store))
                | TablePath(store=store)
            ):
                stores.setdefault(store, []).append(each)

    def read_tables(path: StatePath) -> Iterable[str]:
        return SnapshotFile.read(checkpoint.read(path.path), checkpoint.full_path(path.path)).tables

    found: list[Garbage] = []
    unclear: list[LeftAlone] = []
    for store, of_store in stores.items():
        try:
            found += list(plan_store(store, of_store, kept, read_tables))
        except (CheckpointUnfit, PathMissing) as error:
            # Where Spark has deleted a snapshot since it was listed, it may have written another
            # one, which names the same tables.
            unclear.append(LeftAlone(store.path, error.message))
    found = list(_with_hidden(files, kept, found))
    if kept.partitions is not None and partition.partition >= kept.partitions:
        found += list(_find_emptied(files, directories, found))
    return [*found, *unclear]


def _list_all(
    checkpoint: CheckpointStore, directory: str
) -> tuple[list[CheckpointFile], list[str]]:
    """Return the files below a directory, and the directories, each before those that hold it."""
    listed = checkpoint.list_directory(directory)
    files, below = listed.files, list[str]()
    for each in listed.directories:
        more, deeper = _list_all(checkpoint, each)
        files, below = files + more, [*deeper, *below]
    return files, [*below, directory]


def _with_hidden(
    files: list[CheckpointFile], kept: KeptBatches, found: Iterable[Garbage]
) -> Iterator[Garbage]:
    unneeded = set()
    for each in found:
        unneeded.add(each.path)
        yield each
    yield from plan_hidden(files, kept, unneeded)


def _find_emptied(
    files: Iterable[CheckpointFile], directories: Iterable[str], found: Iterable[Garbage]
) -> Iterator[Garbage]:
    unneeded = {each.path for each in found}
    remaining = [each.path for each in files if each.path not in unneeded]
    for directory in directories:
        if not any(path.startswith(f"{directory}/") for path in remaining):
            yield Garbage(directory, 0, Unneeded.EMPTY)


# ---- beside a query that runs

Parts = Iterator[Sequence[Garbage | LeftAlone]]


@dataclass(slots=True)
class _Pass:
    checkpoint: Checkpoint
    parts: Parts
    files: int = 0
    size_bytes: int = 0
    left: int = 0


class CheckpointCleaner:
    """Cleans the checkpoint of one query. By one thread.

    Arguments:
        slice_name: of the query.
        clock: of the job.
        progress: reports each pass that has ended.

    """

    def __init__(self, slice_name: str, clock: Clock, progress: "Progress") -> None:
        self._slice = slice_name
        self._clock = clock
        self._progress = progress
        self._pass: _Pass | None = None
        self._reported: set[tuple[str, str]] = set()

    def begin(self, checkpoint: Checkpoint, now_ms: int, ttl_ms: int) -> None:
        """Begin a pass, unless one is under way. No call is made yet.

        Arguments:
            checkpoint: that the query has, and that only it writes.
            now_ms: the time now.
            ttl_ms: what was modified within it stays, and within AGE_MS.

        """
        if self._pass is None:
            before_ms = now_ms - max(ttl_ms, AGE_MS)
            self._pass = _Pass(checkpoint, find_in_parts(checkpoint, before_ms))

    def step(self) -> None:
        """Continue the pass, if one is under way. Raises InvariantBroken, SyncFailed."""
        under_way = self._pass
        if under_way is None:
            return
        until_s = self._clock.monotonic_s() + STEP_S
        try:
            for part in under_way.parts:
                self._clean(under_way, part)
                if self._clock.monotonic_s() >= until_s:
                    return
        except (InvariantBroken, SyncFailed):
            raise
        except CheckpointUnfit as error:
            if error.fields.get("why") != "empty_checkpoint":  # before the first batch
                self._report(error.message, "")
        except AshoreError as error:
            self._progress.warn(self._slice, f"cleaning the checkpoint: {error.message}")
        self.end()

    def end(self) -> None:
        """End the pass, if one is under way, and report what it has done."""
        under_way, self._pass = self._pass, None
        if under_way is None:
            return
        if under_way.files or under_way.left:
            counts = (under_way.files, under_way.size_bytes, under_way.left)
            self._progress.measured(CheckpointCleaned(self._slice, *counts))

    def _clean(self, under_way: _Pass, part: Sequence[Garbage | LeftAlone]) -> None:
        for each in part:
            if isinstance(each, LeftAlone):
                under_way.left += 1
                self._report(each.path, each.why)
        found = [each for each in part if isinstance(each, Garbage)]
        for garbage in delete_garbage(under_way.checkpoint, found):
            if garbage.why is not Unneeded.EMPTY:
                under_way.files += 1
                under_way.size_bytes += garbage.size_bytes

    def _report(self, path: str, why: str) -> None:
        if (path, why) not in self._reported:
            self._reported.add((path, why))
            text = f"{path}: {why}" if why else path
            self._progress.note(self._slice, f"not cleaned, so that nothing is lost: {text}")
