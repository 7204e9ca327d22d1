"""Effects that may be finished after their entry was closed: registration, success files, calls.

What it is: `plan_owed`, from the unclosed entry of a fold; `settle`, from what was tried since.
What it promises: pure; from the log alone, so that whoever finishes the entry owes the same. An
effect that is owed already is not owed twice.
What it must not know: how an effect is done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from ashore.protocol.effects import Action
from ashore.protocol.entries import Closing, Failed, Owed, Prepare, Reland, Seal
from ashore.protocol.fold import Fold

Waits = Callable[[str], bool]  # whether the partitions of a table are registered by their seals


def nobody_waits(_table: str) -> bool:
    """Return False: partitions are registered with their first file."""
    return False


NOTHING_CLOSED = Closing(None, 0, 0, registered=False, owed=(), done=())


@dataclass(frozen=True, slots=True)
class Tried:
    """What became of owed effects that were tried. What is neither was not tried."""

    done: frozenset[str]
    failed: tuple[Failed, ...] = ()


def find_due(known: Mapping[str, Owed], closing: Closing) -> tuple[Owed, ...]:
    """Return what may be done now. `known`: what is owed by the fold.

    A closing that does not say `registered` could not tell that its own registrations are done:
    they wait until it is written.
    """
    left = (each for each in known.values() if each.id not in closing.done)
    new = (each for each in closing.owed if closing.registered or each.action != Action.REGISTER)
    return (*left, *new)


def settle(known: Mapping[str, Owed], closing: Closing, tried: Tried) -> Closing:
    """Return a closing that tells also what was tried since it was made."""
    done = {*closing.done, *tried.done}
    owed = {each.action for each in (*known.values(), *closing.owed) if each.id not in done}
    failed = {each.action: each for each in closing.failed if each.action in owed}
    for each in tried.failed:
        before = failed.get(each.action)
        times = each.times + (before.times if before else 0)
        failed[each.action] = replace(each, times=times)
    return replace(
        closing,
        owed=tuple(each for each in closing.owed if each.id not in tried.done),
        done=tuple(sorted({*closing.done, *(tried.done & known.keys())})),
        failed=tuple(failed[action] for action in sorted(failed)),
    )


def plan_owed(fold: Fold, *, registers: bool, waits: Waits = nobody_waits) -> tuple[Owed, ...]:
    """Return what the unclosed entry owes.

    Arguments:
        fold: of the slice's log.
        registers: whether a catalog wants to know of a partition as soon as it has a file.
        waits: the tables of which it wants to know with their seal only.

    """
    if fold.unclosed is None:
        return ()
    body = fold.unclosed.body
    if isinstance(body, Seal):
        owed = _of_seal(body)
    elif registers and isinstance(body, Prepare | Reland):
        owed = _of_files(fold, body, waits)
    else:
        owed = {}
    return tuple(owed[key] for key in sorted(owed) if key not in fold.owed)


def registers_all(fold: Fold, *, registers: bool, waits: Waits = nobody_waits) -> bool:
    """Tell whether all partitions of the unclosed entry are registered, those owed aside."""
    body = fold.unclosed.body if fold.unclosed else None
    if isinstance(body, Prepare | Reland):
        return registers and not any(waits(target.table) for target in body.targets)
    return isinstance(body, Seal) and Action.REGISTER in body.actions


def _of_files(fold: Fold, body: Prepare | Reland, waits: Waits) -> dict[str, Owed]:
    owed = {}
    for target in body.targets:
        state = fold.partitions.get(target.key)
        if target.partition and not waits(target.table) and not (state and state.registered):
            key = f"{Action.REGISTER}:{target.table}:{target.partition}"
            owed[key] = Owed(key, Action.REGISTER, target.table, target.partition)
    return owed


def _of_seal(body: Seal) -> dict[str, Owed]:
    owed = {}
    for sealed in body.partitions:
        for action in body.actions:
            key = f"{action}:{sealed.table}:{sealed.partition}:{sealed.version}"
            owed[key] = Owed(
                key, action, sealed.table, sealed.partition, sealed.version, sealed.rows
            )
    return owed
