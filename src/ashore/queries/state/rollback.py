"""Rollback: a query's checkpoint and its table return to the end of an earlier batch.

What it is: `preview_rollback`, which looks, and `roll_back`, which does it.
What it promises: first an attempt is made that ends with that batch, then the log says that later
ones come to nothing, then their files go aside. Where this is cut short in between, the attempt is
behind the table, and a start catches it up; or the log has the entry, and its next writer moves
the rest. A checkpoint or a table that cannot be rolled back is refused before anything is appended.
"""

from dataclasses import dataclass, replace

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.log.entries import Commit, Rollback
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_query import NO_BATCH, Refusal
from ashore.log.plan_rollback import NoRollback, Wish, plan_rollback
from ashore.log.query_history import find_tables, read_landed_batches
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.versions import require_migration
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class RolledBack:
    """What is rolled back, or would be."""

    from_batch: int
    to_batch: int
    files: int  # that leave the table
    rows: int  # in these files


def preview_rollback(
    storage: Storage, name: SliceName, attempts: Attempts, wish: Wish
) -> RolledBack:
    """Return what `roll_back` would do. Appends nothing.

    Raises QueryRefused, CheckpointUnfit, LogDamaged, StorageError.
    """
    fold = read_log(storage, name)
    _require_kept(name, attempts.newest(), fold, wish.batch_id)
    return _report(fold, plan_entry(storage, name, fold, wish), wish)


def is_there(storage: Storage, name: SliceName, batch: int) -> bool:
    """Return whether a table is at a batch, and nothing of the way there is left to do."""
    fold = read_log(storage, name)
    return fold.unclosed is None and fold.query is not None and fold.query.batch_id == batch


def roll_back(committer: Committer, attempts: Attempts, wish: Wish) -> RolledBack:
    """Roll a query back. Takes its slice over.

    If interrupted: call it again, with the same batch; or run the job, which resumes from whichever
    of the two the log says.
    Raises as `preview_rollback`; FilesLost, FileConflict, Fenced.
    """
    log, storage = committer.log, committer.storage
    preview_rollback(storage, log.name, attempts, wish)
    log.open()
    closing = committer.finish()
    fold = log.fold
    body = plan_entry(storage, log.name, fold, wish)
    if body is None:
        if closing is not None:
            log.append(Commit("recovery"), closing)
    else:
        attempts.cut(fold.epoch, wish.batch_id)
        log.append(body, closing)
        log.append(Commit("recovery"), committer.finish())
    return _report(fold, body, wish)


def plan_entry(storage: Storage, name: SliceName, fold: Fold, wish: Wish) -> Rollback | None:
    """Return the entry that rolls a table back; None where it is at that batch.

    Raises QueryRefused where it cannot be, LogDamaged, StorageError.
    """
    if fold.query is not None and fold.query.batch_id == wish.batch_id:
        return None
    batches = read_landed_batches(read_history(storage, name), wish.batch_id - 1)
    body = plan_rollback(fold, batches, wish)
    if isinstance(body, NoRollback):
        raise QueryRefused(f"{name}: {body.text}; nothing was changed", hint=body.hint)
    return replace(body, tables=find_tables(read_history(storage, name), body.entry, fold.tables))


def _require_kept(name: SliceName, newest: Checkpoint | None, fold: Fold, batch: int) -> None:
    """Raise CheckpointUnfit where the newest attempt cannot be cut after a batch."""
    query_id = newest.read_query_id() if newest else None
    if newest is None or query_id is None:
        raise _unfit(name, Refusal.EMPTY_CHECKPOINT, "there is no checkpoint")
    if fold.query is not None and fold.query.query_id != query_id:
        text = (
            f"the checkpoint belongs to query {query_id}, but the table to query "
            f"{fold.query.query_id}"
        )
        raise _unfit(name, Refusal.OTHER_QUERY, text)
    require_migration(name, fold, newest.read_migration())
    kept = newest.list_finished()
    if batch not in kept:
        found = f"batches {kept[0]} to {kept[-1]}" if kept else "no batch"
        raise _unfit(name, Refusal.FORGOTTEN, f"the checkpoint has {found}, not batch {batch}")


def _unfit(name: SliceName, why: Refusal, text: str) -> CheckpointUnfit:
    hint = (
        "restore a checkpoint that has the batch: `sql.keep` sets how long they are kept; after a "
        "crash on HDFS the attempt before this one, beside it, has them"
    )
    return CheckpointUnfit(f"{name}: {text}; nothing was changed", hint=hint, why=why.value)


def _report(fold: Fold, body: Rollback | None, wish: Wish) -> RolledBack:
    at = fold.query.batch_id if fold.query else NO_BATCH
    files = body.files if body else ()
    return RolledBack(at, wish.batch_id, len(files), sum(each.file.rows for each in files))
