"""The moves of a job that is dead: what they are, how they stand, and how they are finished.

What it is: the use of the same steps as in the loop, from a command.
What it promises: nothing is appended, so that it may run beside anything.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from ashore.base.clock import Clock
from ashore.errors import (
    LogGrows,
    PathMissing,
)
from ashore.log import names
from ashore.log.files import FilePlace
from ashore.log.names import SliceName
from ashore.log.plan_commit import (
    HelpStep,
    MoveOutcome,
    PublishBatch,
    SyncLog,
    find_moves,
    judge_move,
    plan_publish_batch,
)
from ashore.log.store.committer import PARALLEL_MOVES, Moved, look_at_move, move_files
from ashore.log.store.reader import read_log
from ashore.storage.base import Storage


def plan_help(storage: Storage, name: SliceName) -> tuple[HelpStep, ...]:
    """Return what `help_dead` would do. What the entry publishes is left to the next writer."""
    unclosed = read_log(storage, name).unclosed
    batch = plan_publish_batch(name, unclosed) if unclosed else None
    # The entry is durable before what it orders.
    return (SyncLog(names.log_directory(name)), batch) if batch else ()


def help_dead(storage: Storage, name: SliceName, clock: Clock, steps: Sequence[HelpStep]) -> Moved:
    """Apply what `plan_help` returned. Appends nothing: the next writer closes the entry.

    Raises FilesLost, FileConflict, LogGrows (the job lives), StorageError.
    """
    end = read_log(storage, name).end

    def look() -> None:
        if read_log(storage, name).end != end:
            raise LogGrows(
                f"the job of {name} is running: its log has grown",
                hint="the job finishes the moves itself",
            )

    moved = Moved(0, 0)
    for step in steps:
        match step:
            case SyncLog():
                _sync(storage, name, step, [step.directory])
            case PublishBatch():
                moved = move_files(storage, step.places, clock, look)
                _sync(storage, name, step, step.directories)
    return moved


def _sync(storage: Storage, name: SliceName, step: HelpStep, directories: Sequence[str]) -> None:
    try:
        storage.sync(directories)
    except PathMissing:
        if step in plan_help(storage, name):
            raise
        # A new writer has closed the entry, and the janitor has been where it was staged.


def require_quiet(
    storage: Storage, slices: Sequence[SliceName], clock: Clock, watch_s: float
) -> None:
    """Return once no log of `slices` has grown for `watch_s`. Raises LogGrows."""
    before = {name: read_log(storage, name).end for name in slices}
    clock.sleep(watch_s)
    for name, end in before.items():
        if read_log(storage, name).end != end:
            raise LogGrows(
                f"the log of {name} is growing: its job is still running",
                hint="stop the job first, or repeat the command with --take-over",
            )


def find_gone(storage: Storage, steps: Sequence[HelpStep]) -> int:
    """Return how many files of `steps` are lost, as a writer that moves them would find."""
    return sum(
        judge_move(place, _size(storage, place.pending), _size(storage, place.final))
        is MoveOutcome.LOST
        for place in find_moves(steps)
        if not place.leaves
    )


def _size(storage: Storage, path: str) -> int | None:
    found = storage.stat(path)
    return found.size if found else None


def look_at_moves(
    storage: Storage, steps: Sequence[HelpStep]
) -> tuple[tuple[FilePlace, MoveOutcome], ...]:
    """Return each file that steps move, with how its move stands. Moves nothing."""
    places = find_moves(steps)
    if not places:
        return ()
    with ThreadPoolExecutor(min(PARALLEL_MOVES, len(places)), "ashore-look") as pool:
        outcomes = pool.map(lambda place: look_at_move(storage, place), places)
        return tuple(zip(places, outcomes, strict=True))
