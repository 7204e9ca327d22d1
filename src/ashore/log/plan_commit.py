"""Steps 4 to 6 of a batch, and recovery: what finishes an entry, in which order.

What it is: typed steps, which `Committer` applies. Step 5, `Publish`, lets others learn of
partitions, perhaps later: `find_due` and `complete_deferred` are for the effects that are deferred,
by this entry and by earlier ones.
What it promises: pure; from the log alone, so that any writer of the slice defers the same actions.
An action that is deferred already is not deferred twice. Repeating any step is harmless. No step
deletes or overwrites.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from ashore.log import names
from ashore.log.entries import (
    Closing,
    Compact,
    DeferredAction,
    FailedTries,
    Prepare,
    Reland,
    Rollback,
    Seal,
)
from ashore.log.files import BatchPlace, FilePlace, PartitionKey, TableCommit, Target
from ashore.log.fold import Action, Fold, Unclosed
from ashore.log.names import SliceName

Waits = Callable[[str], bool]  # whether the partitions of a table are registered by their seals


def nobody_waits(_table: str) -> bool:
    """Return False: partitions are registered with their first file."""
    return False


@dataclass(frozen=True, slots=True)
class Publishing:
    """When a job's partitions become known to a catalog."""

    registers: bool  # whether partitions are registered, each with its first file
    waits: Waits = nobody_waits  # but of those of these tables with their seal only

    def is_due(self, table: str) -> bool:
        """Return whether the partitions of a table are registered with their first file."""
        return self.registers and not self.waits(table)


NO_CATALOG = Publishing(registers=False)


@dataclass(frozen=True, slots=True)
class Publish:
    """Let others learn of what an entry brings. The closing defers what is not done by then."""

    effects: tuple[DeferredAction, ...]
    registers_all: bool  # after these effects the catalog knows every partition of the entry


NOTHING_CLOSED = Closing(None, 0, 0, registered=False, deferred=(), done=())


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of deferred actions that were tried. What is neither was not tried."""

    done: frozenset[str]
    failed: tuple[FailedTries, ...] = ()


def plan_publish(fold: Fold, publishing: Publishing) -> Publish | None:
    """Return what the unclosed entry makes known; None: nothing, and the catalog lacks some of it.

    Actions that earlier entries deferred are not among them.
    """
    body = fold.unclosed.body if fold.unclosed else None
    match body:
        case Seal():
            deferred, registers_all = _of_seal(body), Action.REGISTER in body.actions
        case Prepare() | Reland():
            deferred = _of_files(fold, body, publishing)
            waiting = [each for each in body.targets if not publishing.is_due(each.table)]
            registers_all = publishing.registers and not waiting
        case _:
            return None
    effects = tuple(deferred[key] for key in sorted(deferred) if key not in fold.deferred)
    return Publish(effects, registers_all) if effects or registers_all else None


def _of_files(
    fold: Fold, body: Prepare | Reland, publishing: Publishing
) -> dict[str, DeferredAction]:
    deferred = {}
    for target in body.targets:
        state = fold.partitions.get(target.key)
        is_known = state is not None and state.registered
        if target.partition and not is_known and publishing.is_due(target.table):
            key = f"{Action.REGISTER}:{target.table}:{target.partition}"
            deferred[key] = DeferredAction(key, Action.REGISTER, target.table, target.partition)
    return deferred


def _of_seal(body: Seal) -> dict[str, DeferredAction]:
    deferred = {}
    for sealed in body.partitions:
        for action in body.actions:
            key = f"{action}:{sealed.table}:{sealed.partition}:{sealed.version}"
            deferred[key] = DeferredAction(
                key, action, sealed.table, sealed.partition, sealed.version, sealed.rows
            )
    return deferred


def find_due(known: Mapping[str, DeferredAction], closing: Closing) -> tuple[DeferredAction, ...]:
    """Return what may be done now. `known`: the deferred actions of the fold.

    A closing that does not say `registered` could not record its own registrations as done:
    they wait until it is written.
    """
    left = (each for each in known.values() if each.id not in closing.done)
    new = (
        each for each in closing.deferred if closing.registered or each.action != Action.REGISTER
    )
    return (*left, *new)


def complete_deferred(
    known: Mapping[str, DeferredAction], closing: Closing, tried: Tried
) -> Closing:
    """Return a closing that also records what was tried since it was made."""
    done = {*closing.done, *tried.done}
    deferred = {each.action for each in (*known.values(), *closing.deferred) if each.id not in done}
    failed = {each.action: each for each in closing.failed if each.action in deferred}
    for each in tried.failed:
        before = failed.get(each.action)
        times = each.times + (before.times if before else 0)
        failed[each.action] = replace(each, times=times)
    return replace(
        closing,
        deferred=tuple(each for each in closing.deferred if each.id not in tried.done),
        done=tuple(sorted({*closing.done, *(tried.done & known.keys())})),
        failed=tuple(failed[action] for action in sorted(failed)),
    )


def drop_deferred(
    known: Mapping[str, DeferredAction], closing: Closing | None, dropped: Collection[PartitionKey]
) -> Closing | None:
    """Return a closing without deferred actions of partitions that are dropped.

    `known`: the deferred actions of the fold. `closing`: of the unclosed entry; None, as what is
    returned: there is nothing to say.
    """
    every = (*known.values(), *(closing.deferred if closing else ()))
    ids = frozenset(each.id for each in every if (each.table, each.partition) in dropped)
    return complete_deferred(known, closing or NOTHING_CLOSED, Tried(ids)) if ids else closing


@dataclass(frozen=True, slots=True)
class PublishBatch:
    """Make readable what an entry brings, and durably so: before the entry is closed, never later.

    A closed entry is not looked at again, so nothing of this step can be deferred. In a table of
    directories each file gets its final name, in any order, and then the names are made durable; a
    rollback gives names aside.
    """

    places: tuple[FilePlace, ...]

    @property
    def directories(self) -> tuple[str, ...]:
        """The directories whose names must be durable."""
        # A name under which a file was staged may come back after a power cut: no reader sees it,
        # and the janitor deletes it. One that readers saw must not.
        directories = {names.parent(each.final) for each in self.places}
        directories |= {names.parent(each.pending) for each in self.places if each.leaves}
        return tuple(sorted(directories))


@dataclass(frozen=True, slots=True)
class CommitTable:
    """Add files of an entry to a table in a table format, as one snapshot; some may go with it.

    They are at their final paths, and durable. As with `PublishBatch`, nothing of it is deferred:
    readers of the table see files that a snapshot names, and no others.
    """

    commit: TableCommit
    number: int  # of the entry
    files: tuple[tuple[FilePlace, Target], ...]  # with the partition of each
    replaced: frozenset[str] = frozenset()  # of a compaction: paths of the files that go
    is_whole: bool = True  # False: files of a compaction are lost, so that only a look is due


@dataclass(frozen=True, slots=True)
class SyncLog:
    """Make the names of a log durable: the entry may have survived its writer by luck."""

    directory: str


@dataclass(frozen=True, slots=True)
class CloseEntry:
    """The next entry closes this one."""

    number: int


CommitStep = PublishBatch | CommitTable | Publish | CloseEntry
HelpStep = SyncLog | PublishBatch


class MoveOutcome(StrEnum):
    """How a move ended. Each is a metric."""

    MOVED = "moved"
    ALREADY_MOVED = "already_moved"  # the target is right, whatever lies at the source
    AGAIN = "again"  # the source is right and the target absent: move once more
    CONFLICT = "conflict"  # the target is wrong: stop
    LOST = "lost"  # the target is absent, the source gone or wrong: stop, keep everything


Outcomes = Mapping[MoveOutcome, int]  # how many moves ended so; AGAIN: not moved yet


def judge_move(place: FilePlace, source_bytes: int | None, target_bytes: int | None) -> MoveOutcome:
    """Decide after an error, from the sizes found at the source first and at the target second.

    None: nothing lies there. Sizes are enough here: both names are used once and the file was
    synced before its entry, so that content under these names is this file or a part of it;
    `verify` reads checksums.
    Requires: the source was looked at before the target, so that a move which takes effect in
    between is found at its target.
    """
    size = place.file.size_bytes
    if target_bytes == size:
        return MoveOutcome.ALREADY_MOVED
    if target_bytes is not None:
        return MoveOutcome.CONFLICT
    return MoveOutcome.AGAIN if source_bytes == size else MoveOutcome.LOST


def places_of(name: SliceName, unclosed: Unclosed) -> list[FilePlace]:
    """Return the files of an unclosed entry with their paths."""
    body = unclosed.body
    if isinstance(body, Rollback):
        return [
            BatchPlace(name, each.epoch, each.batch).place_aside(
                each.file, body.targets[each.file.target], unclosed.number
            )
            for each in body.files
        ]
    if not isinstance(body, Prepare | Reland | Compact):
        return []
    place = BatchPlace(name, unclosed.epoch, body.batch)
    return [place.place(file, body.targets[file.target]) for file in body.files]


def plan_commit(
    name: SliceName, fold: Fold, publishing: Publishing, *, without: Iterable[str] = ()
) -> tuple[CommitStep, ...]:
    """Return the steps that finish the fold's unclosed entry; none where nothing is unclosed.

    `without`: `unique` of files that are known to be lost.
    """
    if fold.unclosed is None:
        return ()
    batch = plan_publish_batch(name, fold.unclosed, without=without)
    commits = plan_table_commits(fold.unclosed, batch.places if batch else ())
    publish = plan_publish(fold, publishing)
    steps = (batch, *commits, publish, CloseEntry(fold.unclosed.number))
    return tuple(step for step in steps if step is not None)


def plan_publish_batch(
    name: SliceName, unclosed: Unclosed, *, without: Iterable[str] = ()
) -> PublishBatch | None:
    """Return the part of `plan_commit` that needs no next entry: any process may do it at any time.

    `without`: as there. None: the entry has no files.
    """
    left_out = set(without)
    places = [each for each in places_of(name, unclosed) if each.file.unique not in left_out]
    return PublishBatch(tuple(places)) if places else None


def plan_table_commits(unclosed: Unclosed, places: Iterable[FilePlace]) -> tuple[CommitTable, ...]:
    """Return the commits of tables in a table format that an entry orders, each with its files.

    `places`: of the entry's files, those that are not lost.
    """
    body, found = unclosed.body, list(places)
    if isinstance(body, Compact):
        compacted = tuple((place, body.targets[place.file.target]) for place in found)
        is_whole = len(compacted) == len(body.files)
        return (CommitTable(body.commit, unclosed.number, compacted, body.paths, is_whole),)
    if not isinstance(body, Prepare | Reland) or not body.commits:
        return ()
    files: dict[str, list[tuple[FilePlace, Target]]] = {each.table: [] for each in body.commits}
    for place in found:
        target = body.targets[place.file.target]
        if target.table in files:
            files[target.table].append((place, target))
    return tuple(
        CommitTable(each, unclosed.number, tuple(files[each.table]))
        for each in body.commits
        if files[each.table]
    )


def find_moves(steps: Iterable[CommitStep | SyncLog]) -> list[FilePlace]:
    """Return the files that steps move."""
    return [place for step in steps if isinstance(step, PublishBatch) for place in step.places]


def explain_sync(step: HelpStep) -> str:
    """Return a line for people that says what a step makes durable."""
    directories = (step.directory,) if isinstance(step, SyncLog) else step.directories
    return f"sync {directories[0] if len(directories) == 1 else f'{len(directories)} directories'}"
