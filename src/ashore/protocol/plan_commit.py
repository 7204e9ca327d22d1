"""Steps 4 to 6 of a batch, and recovery: which effects an entry has, in which order.

What it is: typed steps. One function elsewhere applies them, one prints them, so that what is
shown is what is done.
What it promises: pure. Repeating any step is harmless. No step deletes or overwrites.
What it must not know: how a file is moved.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ashore.errors import check
from ashore.protocol import names
from ashore.protocol.entries import Prepare, Reland, Rewind
from ashore.protocol.files import BatchPlace, FilePlace, Target
from ashore.protocol.fold import Fold, Unclosed
from ashore.protocol.names import SliceName


@dataclass(frozen=True, slots=True)
class OpenSlice:
    """Take the slice over with the next epoch."""

    epoch: int


@dataclass(frozen=True, slots=True)
class MoveFile:
    """Give a file the name that its entry wants: a pending one its final name, or one aside."""

    place: FilePlace


@dataclass(frozen=True, slots=True)
class SyncDirectories:
    """Make the names in these directories durable."""

    directories: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RegisterPartitions:
    """Tell the catalog of partitions that it does not know yet, in one call."""

    partitions: tuple[tuple[str, str], ...]  # table, partition path


@dataclass(frozen=True, slots=True)
class CloseEntry:
    """The next entry closes this one. A recovery helper leaves it to the next writer."""

    number: int


CommitStep = OpenSlice | MoveFile | SyncDirectories | RegisterPartitions | CloseEntry


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
    wanted = place.file.size_bytes
    if target_bytes == wanted:
        return MoveOutcome.ALREADY_MOVED
    if target_bytes is not None:
        return MoveOutcome.CONFLICT
    return MoveOutcome.AGAIN if source_bytes == wanted else MoveOutcome.LOST


def places_of(name: SliceName, unclosed: Unclosed) -> list[FilePlace]:
    """Return the files of an unclosed entry with their paths."""
    body = unclosed.body
    if isinstance(body, Rewind):
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
    name: SliceName, fold: Fold, *, registers: bool, without: Iterable[str] = ()
) -> tuple[CommitStep, ...]:
    """Return the steps that finish the fold's unclosed entry; none where nothing is unclosed.

    Arguments:
        name: of the slice.
        fold: of its log.
        registers: whether a catalog wants to know of new partitions.
        without: `unique` of files that are known to be lost.

    """
    unclosed = fold.unclosed
    if unclosed is None:
        return ()
    left_out = set(without)
    places = [each for each in places_of(name, unclosed) if each.file.unique not in left_out]
    steps: list[CommitStep] = [MoveFile(place) for place in places]
    directories = {names.parent(path) for each in places for path in (each.pending, each.final)}
    if directories:
        steps.append(SyncDirectories(tuple(sorted(directories))))
    if registers and isinstance(unclosed.body, Prepare | Reland):
        new = [
            target.key
            for target in unclosed.body.targets
            if target.partition and not _is_registered(fold, target)
        ]
        if new:
            steps.append(RegisterPartitions(tuple(sorted(set(new)))))
    steps.append(CloseEntry(unclosed.number))
    return tuple(steps)


def _is_registered(fold: Fold, target: Target) -> bool:
    state = fold.partitions.get(target.key)
    return state is not None and state.registered


def plan_recovery(name: SliceName, fold: Fold, *, registers: bool) -> tuple[CommitStep, ...]:
    """Return the steps of a start: take the slice over, then do the unclosed effects again.

    The same from any machine, from the log alone; no listing of data.
    """
    check(fold.epoch >= 0, "a fold has an epoch")
    return (OpenSlice(fold.epoch + 1), *plan_commit(name, fold, registers=registers))


def explain(step: CommitStep) -> str:
    """Return one line for people that says what a step does."""
    match step:
        case OpenSlice():
            return f"open the slice as epoch {step.epoch}"
        case MoveFile():
            return f"move {step.place.pending} to {step.place.final}"
        case SyncDirectories():
            return f"sync {len(step.directories)} directories"
        case RegisterPartitions():
            return f"register {len(step.partitions)} partitions in the catalog"
        case CloseEntry():
            return f"close entry {step.number} with the next one"
