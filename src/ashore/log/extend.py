"""One more entry: the chain, the closing, and the change that each kind of entry makes.

What it is: `extend(fold, entry)`.
What it promises: pure and total (I6): any prefix of a log folds; an entry that does not follow is
named and raises LogDamaged, with every rule of the protocol checked again on reading. The
invariants stand at the head of `ashore.log.fold`.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import NoReturn

from ashore.errors import LogDamaged
from ashore.log.entries.batch import Commit, Prepare, fold_commit, fold_prepare
from ashore.log.entries.compaction import Compact, check_compact, fold_compacted
from ashore.log.entries.frame import Entry
from ashore.log.entries.losses import Reland, Skip, fold_reland, fold_skip
from ashore.log.entries.partitions import Retire, Seal, fold_retire, fold_seal
from ashore.log.entries.queries import (
    Begin,
    LeaveOut,
    Migrate,
    Plan,
    Rollback,
    Version,
    fold_begin,
    fold_leave_out,
    fold_migrate,
    fold_plan,
    fold_rollback,
    fold_version,
)
from ashore.log.entries.slices import (
    Define,
    Join,
    Open,
    ResetClock,
    fold_define,
    fold_join,
    fold_open,
    fold_reset_clock,
)
from ashore.log.files import PartitionKey
from ashore.log.fold import (
    Action,
    Changes,
    Closing,
    DeferredAction,
    Failing,
    Fold,
    HasEffects,
    PartitionState,
    Refused,
    Unclosed,
    require,
)


def extend(fold: Fold, entry: Entry) -> Fold:
    """Return the fold with one more entry. Raises LogDamaged where `entry` does not follow."""
    try:
        _check_chain(fold, entry)
        if isinstance(entry.body, Open):  # it closes nothing: what is unclosed stays so
            closed, unclosed = fold, fold.unclosed
        else:
            closed, unclosed = _close(fold, entry.closing), _unclosed(entry)
        changes = _change(closed, entry, fold.unclosed)
    except Refused as refused:
        _damaged(entry, str(refused))
    return replace(
        closed,
        end=entry.number,
        last=entry.checksum,
        written_ms=entry.written_ms,
        unclosed=unclosed,
        **changes,
    )


def _damaged(entry: Entry, reason: str) -> NoReturn:
    raise LogDamaged(
        f"entry {entry.number} ({entry.kind}) does not follow: {reason}",
        hint="keep everything as it is; compare the log directory with a backup or its archives",
        entry=entry.number,
    )


def _check_chain(fold: Fold, entry: Entry) -> None:
    if entry.number != fold.end + 1:
        raise Refused(f"number {entry.number} after {fold.end}")
    if entry.previous != fold.last:
        raise Refused("it has another predecessor")
    if not isinstance(entry.body, Open) and entry.epoch != fold.epoch:
        raise Refused(f"epoch {entry.epoch} wrote while epoch {fold.epoch} owned the slice")


def _unclosed(entry: Entry) -> Unclosed | None:
    """Return an entry as it stands in the fold until the next one closes it."""
    if not isinstance(entry.body, HasEffects):
        return None
    return Unclosed(entry.number, entry.epoch, entry.written_ms, entry.body)


def _change(fold: Fold, entry: Entry, closed: Unclosed | None) -> Changes:
    """Return what an entry changes in the fold besides having `closed` the one before."""
    number, body = entry.number, entry.body
    match body:
        case Open():
            return fold_open(fold, entry.epoch, entry.closing)
        case Join():
            return fold_join(fold, body, entry.written_ms)
        case Prepare():
            return fold_prepare(fold, body, number)
        case Commit():
            return fold_commit(entry.closing)
        case Reland():
            return fold_reland(fold, body, number, closed)
        case Seal():
            return fold_seal(fold, body, number)
        case Skip():
            return fold_skip(fold, body, closed)
        case Retire() | Define() | ResetClock() | Compact():
            return _change_beside_batches(fold, body, number)
        case Begin() | Rollback() | Plan() | Version() | LeaveOut() | Migrate():
            return _change_of_query(fold, body, entry)


def _change_beside_batches(
    fold: Fold, body: Retire | Define | ResetClock | Compact, number: int
) -> Changes:
    match body:
        case Compact():
            return check_compact(fold, body, number)
        case Retire():
            return fold_retire(fold, body)
        case Define():
            return fold_define(fold, body)
        case ResetClock():
            return fold_reset_clock(fold, body)


def _change_of_query(
    fold: Fold, body: Begin | Rollback | Plan | Version | LeaveOut | Migrate, entry: Entry
) -> Changes:
    number = entry.number
    match body:
        case Begin():
            return fold_begin(fold, body, entry.written_ms)
        case Rollback():
            return fold_rollback(fold, body, number)
        case Plan():
            return fold_plan(fold, body)
        case Version():
            return fold_version(fold, body, number)
        case LeaveOut():
            return fold_leave_out(fold, body)
        case Migrate():
            return fold_migrate(fold, body, number)


# ---- closing


def _close(fold: Fold, closing: Closing | None) -> Fold:
    """Return the fold after the effects of the unclosed entry, as the next one reports them."""
    unclosed = fold.unclosed
    expected, found = unclosed.number if unclosed else None, closing.entry if closing else None
    if found != expected:
        raise Refused(f"it closes entry {found}, unclosed is {expected}")
    if closing is None:
        return fold
    reports = closing.deferred or closing.moved or closing.already_moved
    require(
        closing.entry is not None or not reports, "it reports effects of an entry that is not there"
    )
    for done in closing.done:
        require(done in fold.deferred, f"{done} is done but was never deferred")
    kept = {key: value for key, value in fold.deferred.items() if key not in closing.done}
    deferred = kept | {deferred.id: deferred for deferred in closing.deferred}
    body = unclosed.body if unclosed else None
    closed = replace(
        fold,
        unclosed=None,
        deferred=deferred,
        failing=_fail(fold.failing, closing, {each.action for each in deferred.values()}),
        partitions=_register(fold, closing, unclosed, deferred),
    )
    if closing.abandoned:
        require(isinstance(body, Compact), "it abandons what is no compaction")
    elif isinstance(body, Compact) and unclosed is not None:
        return replace(closed, **fold_compacted(closed, body, unclosed.number))
    return closed


def _fail(
    before: Mapping[str, Failing], closing: Closing, deferred: set[str]
) -> Mapping[str, Failing]:
    """Return what has been tried in vain. `deferred`: the actions of which something still is."""
    failing = {action: each for action, each in before.items() if action in deferred}
    for failed in closing.failed:
        require(failed.action in deferred, f"{failed.action} failed, and nothing of it is deferred")
        require(failed.times > 0, f"{failed.action} failed {failed.times} times")
        known = failing.get(failed.action) or Failing(failed.action, failed.last_ms, 0, 0, "")
        failing[failed.action] = replace(
            known, times=known.times + failed.times, last_ms=failed.last_ms, error=failed.error
        )
    return failing


def _register(
    fold: Fold,
    closing: Closing,
    unclosed: Unclosed | None,
    still_deferred: Mapping[str, DeferredAction],
) -> Mapping[PartitionKey, PartitionState]:
    """Mark partitions registered: those of the closed entry that are not deferred, and those done.

    Not deferred by this entry nor by one before it: a batch does not defer what is deferred
    already.
    """
    registered = {
        (deferred.table, deferred.partition)
        for done in closing.done
        if (deferred := fold.deferred[done]).action == Action.REGISTER
    }
    if closing.registered and unclosed:
        registered |= _partitions_of(unclosed.body)
    registered -= {
        (deferred.table, deferred.partition)
        for deferred in still_deferred.values()
        if deferred.action == Action.REGISTER
    }
    changed = {
        key: replace(fold.partitions[key], registered=True)
        for key in registered
        if key in fold.partitions and not fold.partitions[key].registered
    }
    return {**fold.partitions, **changed} if changed else fold.partitions


def _partitions_of(body: HasEffects) -> set[PartitionKey]:
    """Return the partitions that an entry has registered, if anything was."""
    match body:
        case Prepare() | Reland():
            return {target.key for target in body.targets}
        case Seal() if Action.REGISTER in body.actions:
            return {(each.table, each.partition) for each in body.partitions}
        case _:
            return set()
