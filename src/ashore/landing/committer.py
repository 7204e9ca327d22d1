"""Steps 4 to 6 and recovery: the effects of the one unclosed entry.

What it is: the function that applies the steps which `plan_commit` makes.
What it promises: applying them again is harmless, on any machine. Moves are durable before the
closing is given out.
What it must not know: where the entry came from, a batch just written or a log read.
"""

from dataclasses import dataclass, field
from typing import Protocol

from ashore.base.clock import Clock
from ashore.errors import check
from ashore.jobs.events import Step
from ashore.landing.log import LandingLog
from ashore.landing.mover import Moved, move_files
from ashore.protocol.entries import Closing
from ashore.protocol.plan_commit import (
    CloseEntry,
    MoveFile,
    OpenSlice,
    RegisterPartitions,
    SyncDirectories,
    plan_commit,
)
from ashore.protocol.plan_owed import Waits, nobody_waits, plan_owed, registers_all
from ashore.storage.base import Storage


class Progress(Protocol):
    """Told what the loop does, for displays and metrics. Must not raise and not block."""

    def step(self, slice_name: str, step: Step) -> None:
        """Tell which step begins."""
        ...

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        """Tell that a batch is readable: its rows, its files, offsets still to read."""
        ...

    def trouble(self, slice_name: str, message: str) -> None:
        """Tell of a failure that the loop rides out."""
        ...


class Quiet:
    """A progress that nobody watches."""

    def step(self, slice_name: str, step: Step) -> None:
        """Ignore it."""

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        """Ignore it."""

    def trouble(self, slice_name: str, message: str) -> None:
        """Ignore it."""


@dataclass
class Committer:
    """Applies the effects of the unclosed entry of one slice's log."""

    log: LandingLog
    storage: Storage
    clock: Clock
    progress: Progress = field(default_factory=Quiet)
    registers: bool = False  # whether a catalog wants new partitions at once
    waits: Waits = nobody_waits  # but those of these tables, which come with their seals

    def finish(self, without: tuple[str, ...] = ()) -> Closing | None:
        """Make the unclosed entry's files final and return its closing for the next entry.

        What may be done later (registration, the effects of a seal) is owed by the closing.

        None where nothing is unclosed. Raises FilesLost, FileConflict, Fenced, StorageError.
        If interrupted: call it again, here or anywhere, after an `open`.
        """
        name, fold = self.log.name, self.log.fold
        steps = plan_commit(name, fold, registers=self.registers, without=without)
        places = [step.place for step in steps if isinstance(step, MoveFile)]
        moved = Moved(0, 0)
        closing: Closing | None = None
        if places:
            # Step 4. Move every pending file to its final path; or aside, what a rewind withdraws.
            self.progress.step(name.slice, Step.MOVE)
            moved = move_files(self.storage, places, self.clock, self.log.look)
        for step in steps:
            match step:
                case SyncDirectories():
                    self.storage.sync(step.directories)
                case CloseEntry():
                    # Step 6. The next entry closes this one.
                    owed = plan_owed(fold, registers=self.registers, waits=self.waits)
                    has_all = registers_all(fold, registers=self.registers, waits=self.waits)
                    closing = Closing(
                        step.number, moved.moved, moved.already_moved, has_all, owed, ()
                    )
                case MoveFile() | RegisterPartitions():
                    pass  # moves are done above, all at once; registration is owed
                case OpenSlice():
                    check(False, "a slice is opened before its entry is finished")
        return closing
