"""Steps 4 to 6 and recovery: the effects of the one unclosed entry.

What it is: the function that applies the steps which `plan_commit` makes; of these, `move_files`:
many moves at once, each with an outcome.
What it promises: applying them again is harmless, on any machine. Moves are durable before the
closing is given out. Nothing is overwritten or deleted; a move whose answer is unclear is settled
by looking at the source and then at the target. A file that is at neither end is only called lost
after a look that the log is still ours.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from ashore.base.clock import Clock
from ashore.errors import (
    CatalogError,
    FileConflict,
    FilesLost,
    PathMissing,
    StorageError,
    SyncFailed,
)
from ashore.log.entries import Closing, Commit, Compact
from ashore.log.files import FilePlace
from ashore.log.names import SliceName
from ashore.log.plan_commit import (
    NO_CATALOG,
    CloseEntry,
    CommitTable,
    MoveOutcome,
    Outcomes,
    Publish,
    PublishBatch,
    Publishing,
    judge_move,
    plan_commit,
)
from ashore.log.progress import Progress, Quiet, Step, count_moves
from ashore.storage.base import Staged, Storage

if TYPE_CHECKING:  # moving files does not load what appends
    from ashore.log.store.log import LandingLog

PARALLEL_MOVES = 32
ATTEMPTS = 6
_PIECE_BYTES = 8 << 20


@dataclass(frozen=True, slots=True)
class Moved:
    """How the moves of an entry ended that ended well."""

    moved: int
    already_moved: int


def move_files(
    storage: Storage,
    places: Sequence[FilePlace],
    clock: Clock,
    look: Callable[[], None],
    report: Callable[[Outcomes], None] = lambda _outcomes: None,
) -> Moved:
    """Move every file. Returns when all are at their targets (not yet synced).

    `look` raises Fenced where the log is no longer ours, and is called before a file is called
    lost; `report` gets how all moves ended, before anything is raised for them.

    Raises FilesLost, FileConflict, Fenced; StorageError where the storage gave no answer for
    long: some files are moved, and the entry is finished after the next `open`.
    """
    if not places:
        return Moved(0, 0)
    with ThreadPoolExecutor(min(PARALLEL_MOVES, len(places)), "ashore-move") as pool:
        failures: list[StorageError] = []
        outcomes = list(pool.map(lambda place: _try_move(storage, place, clock, failures), places))
    counts = Counter(outcomes)
    report(counts)
    if failures:
        raise next((each for each in failures if isinstance(each, SyncFailed)), failures[0])
    _raise_wrong(places, outcomes, look)
    return Moved(counts[MoveOutcome.MOVED], counts[MoveOutcome.ALREADY_MOVED])


def _try_move(
    storage: Storage, place: FilePlace, clock: Clock, failures: list[StorageError]
) -> MoveOutcome:
    """Move a file, unless a move before has failed: the entry is finished after the next `open`."""
    if failures:
        return MoveOutcome.AGAIN
    try:
        return _move(storage, place, clock)
    except StorageError as error:
        failures.append(error)
        return MoveOutcome.AGAIN


def _move(storage: Storage, place: FilePlace, clock: Clock) -> MoveOutcome:
    failure: StorageError | None = None
    for attempt in range(ATTEMPTS):
        try:
            storage.publish(Staged(place.pending), place.final)
        except SyncFailed:
            raise
        except StorageError as error:
            failure = error
        else:
            return MoveOutcome.MOVED
        try:
            outcome = look_at_move(storage, place)
        except StorageError as error:
            failure, outcome = error, MoveOutcome.AGAIN
        if outcome is not MoveOutcome.AGAIN:
            return outcome
        clock.sleep(min(0.05 * 2**attempt, 2.0))
    raise failure or StorageError(f"{place.pending} could not be moved")


def look_at_move(storage: Storage, place: FilePlace) -> MoveOutcome:
    """Return how a move stands, from what lies at both ends. Moves nothing."""
    source = storage.stat(place.pending)
    if place.leaves:
        # Nothing of it must stay; what is gone from its table, for whatever reason, has left it.
        return MoveOutcome.AGAIN if source else MoveOutcome.ALREADY_MOVED
    target = storage.stat(place.final)
    outcome = judge_move(place, source.size if source else None, target.size if target else None)
    if outcome is MoveOutcome.ALREADY_MOVED and source and not _is_file(storage, place):
        return MoveOutcome.CONFLICT
    return outcome


def _is_file(storage: Storage, place: FilePlace) -> bool:
    """Return whether the bytes at the target are the file's.

    Asked only where the source is there as well: a move leaves one of the two, or one file under
    both names, so that another process may have written the target.
    """
    digest, position = hashlib.blake2b(digest_size=8), 0
    while piece := storage.read(place.final, position, _PIECE_BYTES):
        digest.update(piece)
        position += len(piece)
    return digest.hexdigest() == place.file.checksum


def _raise_wrong(
    places: Sequence[FilePlace], outcomes: Sequence[MoveOutcome], look: Callable[[], None]
) -> None:
    ended = list(zip(places, outcomes, strict=True))
    conflicts = [each.final for each, outcome in ended if outcome is MoveOutcome.CONFLICT]
    lost = [each for each, outcome in ended if outcome is MoveOutcome.LOST]
    if conflicts or lost:
        look()
    if conflicts:
        raise FileConflict(
            f"{len(conflicts)} targets differ from the log: {conflicts[0]}",
            hint="nothing was overwritten; find out who writes there, then start again",
            paths=conflicts[:20],
        )
    if lost:
        raise FilesLost(
            f"{len(lost)} prepared files are gone, neither at their source nor at their target: "
            f"{lost[0].pending}",
            hint="restore them, or run: ashore recover JOB.yaml --reland; for rows of a query, "
            "which cannot be read again: --accept-loss",
            paths=[each.pending for each in lost[:20]],
            unique=[each.file.unique for each in lost],
        )


# Makes one snapshot of a table, or sees that it is there: repeatable, by any writer of the slice.
CommitsTable = Callable[[SliceName, CommitTable], None]


class TableChanged(Exception):
    """A compaction is not committed: its table has changed since. The message says how."""


def refuse_commit(name: SliceName, step: CommitTable) -> None:
    """Raise CatalogError: this process does not know the format of the table."""
    raise CatalogError(
        f"entry {step.number} of {name} orders a snapshot of {step.commit.table}, and this process "
        f"does not know its format, {step.commit.format}",
        hint="run the job, which commits it; keep the table and its `catalog` in the job file",
    )


@dataclass
class Committer:
    """Applies the steps that finish the unclosed entry of one slice's log."""

    log: "LandingLog"
    storage: Storage
    clock: Clock
    progress: Progress = field(default_factory=Quiet)
    publishing: Publishing = NO_CATALOG
    commit_table: CommitsTable = refuse_commit

    def take_over(self) -> None:
        """Open the log for a process that does not run the job, and close what is unclosed.

        Raises as `finish`; LogDamaged. If interrupted: call it again.
        """
        self.log.open()
        closing = self.finish()
        if closing is not None:
            self.log.append(Commit("recovery"), closing)

    def finish(self, without: tuple[str, ...] = ()) -> Closing | None:
        """Make the unclosed entry's files final and return its closing for the next entry.

        What may be done later (registration, the effects of a seal) is deferred by the closing.

        None where nothing is unclosed. Raises FilesLost, FileConflict, Fenced, StorageError.
        If interrupted: call it again, here or anywhere, after an `open`.
        """
        unclosed = self.log.fold.unclosed
        try:
            return self._finish(without)
        except FilesLost as error:
            if unclosed is None or not isinstance(unclosed.body, Compact):
                raise
            return self._finish(error.unique)  # nothing needs them: the old files are there

    def _finish(self, without: tuple[str, ...]) -> Closing | None:
        name, moved, abandoned = self.log.name, Moved(0, 0), ""
        publish: Publish | None = None
        closing: Closing | None = None
        for step in plan_commit(name, self.log.fold, self.publishing, without=without):
            match step:
                case PublishBatch():
                    # Step 4. Move pending files to their final paths; aside, what is withdrawn.
                    self.progress.step(name.slice, Step.MOVE)
                    moved = move_files(
                        self.storage, step.places, self.clock, self.log.look, self._report
                    )
                    self._sync(step.directories)
                case CommitTable():
                    abandoned = self._commit(step)
                case Publish():
                    # Step 5. Publish: the closing defers it, and `EntryWriter.run_deferred` does
                    # what it can.
                    publish = step
                case CloseEntry():
                    # Step 6. Close: the next entry carries this closing.
                    closing = replace(_closing(step, moved, publish), abandoned=abandoned)
        return closing

    def _commit(self, step: CommitTable) -> str:
        """Commit to a table; return why a compaction came to nothing, empty where it did not."""
        try:
            self.commit_table(self.log.name, step)
        except TableChanged as changed:
            reason = f"compaction of {step.commit.table} abandoned: {changed}"
            self.progress.warn(self.log.name.slice, reason)
            return str(changed)
        return ""

    def _report(self, outcomes: Outcomes) -> None:
        self.progress.measured(count_moves(self.log.name.slice, outcomes))

    def _sync(self, directories: tuple[str, ...]) -> None:
        try:
            self.storage.sync(directories)
        except PathMissing:
            # A successor has closed the entry, and the janitor has been where it was staged?
            self.log.look()
            raise


def _closing(step: CloseEntry, moved: Moved, publish: Publish | None) -> Closing:
    return Closing(
        entry=step.number,
        moved=moved.moved,
        already_moved=moved.already_moved,
        registered=publish is not None and publish.registers_all,
        deferred=publish.effects if publish else (),
        done=(),
    )
