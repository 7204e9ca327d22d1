"""Step 5 of a batch, and what a seal brings about: others learn of partitions, perhaps later.

What it is: `plan_publish`, from the unclosed entry of a fold to the step `Publish`; `find_due` and
`complete_deferred`, for the effects that are deferred, by this entry and by earlier ones.
What it promises: pure; from the log alone, so that any writer of the slice defers the same
actions. An action that is deferred already is not deferred twice.
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from ashore.log.entries import Closing, DeferredAction, FailedTries, Prepare, Reland, Seal
from ashore.log.files import PartitionKey
from ashore.log.fold import Action, Fold

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
