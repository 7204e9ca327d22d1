"""Steps 4 to 6 and recovery: the effects of the one unclosed entry.

What it is: the function that applies the steps which `plan_commit` makes.
What it promises: applying them again is harmless, on any machine. Moves are durable before the
closing is given out.
"""

from dataclasses import dataclass, field

from ashore.base.clock import Clock
from ashore.errors import PathMissing
from ashore.log.entries import Closing, Commit
from ashore.log.plan_commit import (
    NO_CATALOG,
    CloseEntry,
    Outcomes,
    Publish,
    PublishBatch,
    Publishing,
    plan_commit,
)
from ashore.log.progress import Progress, Quiet, Step, count_moves
from ashore.log.store.log import LandingLog
from ashore.log.store.mover import Moved, move_files
from ashore.storage.base import Storage


@dataclass
class Committer:
    """Applies the steps that finish the unclosed entry of one slice's log."""

    log: LandingLog
    storage: Storage
    clock: Clock
    progress: Progress = field(default_factory=Quiet)
    publishing: Publishing = NO_CATALOG

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
        name, moved = self.log.name, Moved(0, 0)
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
                case Publish():
                    # Step 5. Publish: the closing defers it, and `EntryWriter.run_deferred` does
                    # what it can.
                    publish = step
                case CloseEntry():
                    # Step 6. Close: the next entry carries this closing.
                    closing = _closing(step, moved, publish)
        return closing

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
