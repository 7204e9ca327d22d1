"""Steps 4 to 6 of a batch, and recovery: what finishes an entry, in which order.

What it is: typed steps. One function elsewhere applies them, one prints them, so that what is
shown is what is done.
What it promises: pure. Repeating any step is harmless. No step deletes or overwrites.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ashore.log import names
from ashore.log.entries import Prepare, Reland, Rollback
from ashore.log.files import BatchPlace, FilePlace
from ashore.log.fold import Fold, Unclosed
from ashore.log.names import SliceName
from ashore.log.plan_publish import Publish, Publishing, plan_publish


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
class SyncLog:
    """Make the names of a log durable: the entry may have survived its writer by luck."""

    directory: str


@dataclass(frozen=True, slots=True)
class CloseEntry:
    """The next entry closes this one."""

    number: int


CommitStep = PublishBatch | Publish | CloseEntry
HelpStep = SyncLog | PublishBatch


class MoveOutcome(StrEnum):
    """How a move ended. Each is a metric."""

    MOVED = "moved"
    ALREADY_MOVED = "already_moved"  # the target is right, whatever lies at the source
    AGAIN = "again"  # the source is right and the target absent: move once more
    CONFLICT = "conflict"  # the target is wrong: stop
    LOST = "lost"  # the target is absent, the source gone or wrong: stop, keep everything


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
    if not isinstance(body, Prepare | Reland):
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
    publish = plan_publish(fold, publishing)
    steps = (batch, publish, CloseEntry(fold.unclosed.number))
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


def find_moves(steps: Iterable[CommitStep | SyncLog]) -> list[FilePlace]:
    """Return the files that steps move."""
    return [place for step in steps if isinstance(step, PublishBatch) for place in step.places]


def explain_commit(step: CommitStep) -> list[str]:
    """Return lines for people that say what a step does."""
    match step:
        case PublishBatch():
            moves = [f"move {place.pending} to {place.final}" for place in step.places]
            return [*moves, explain_sync(step)]
        case Publish():
            return [_explain_publish(step)]
        case CloseEntry():
            return [f"close entry {step.number} with the next one"]


def explain_sync(step: HelpStep) -> str:
    """Return a line for people that says what a step makes durable."""
    directories = (step.directory,) if isinstance(step, SyncLog) else step.directories
    return f"sync {directories[0] if len(directories) == 1 else f'{len(directories)} directories'}"


def _explain_publish(step: Publish) -> str:
    counts = Counter(str(each.action) for each in step.effects)
    effects = ", ".join(f"{count} x {action}" for action, count in sorted(counts.items()))
    return f"publish {effects or 'nothing: the catalog has every partition'}"
