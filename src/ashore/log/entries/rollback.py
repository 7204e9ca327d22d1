"""`rollback`: a return of a query's table to the end of an earlier batch.

What it promises: offsets are given back from the end of what was read, and are read again (I1); the
files of the batches that come to nothing leave the table, but those of sealed partitions, which
others have read. The lineage continues from that batch. The table is defined again as it was then:
no file of the later ones is in it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.effects import HasEffects
from ashore.log.entries.define import merge_definitions
from ashore.log.entries.migrate import Migrate, fold_migrate
from ashore.log.files import DataFile, PartitionKey, Target
from ashore.log.fold import Changes, Fold, PartitionState
from ashore.log.positions import ShardKey, ShardRange
from ashore.log.query import Letter, Query, QueryState, merge_letters
from ashore.log.rules import Refused, check_entry_files, require, rows_by_partition
from ashore.log.tables import TableDefinition


@codec.positional
@dataclass(frozen=True, slots=True)
class Withdrawn:
    """A final file that is no part of its table any more."""

    epoch: int  # of the `prepare` that listed it
    batch: int  # of that entry
    file: DataFile  # its target is an index into the targets of the entry


@dataclass(frozen=True, slots=True)
class Rollback(HasEffects):
    """The table of a query is rolled back to the end of an earlier batch of it.

    Later batches come to nothing: their offsets are read again, and their files go aside.
    """

    kind: ClassVar[str] = "rollback"
    entry: int  # the `prepare` of the batch that the table is rolled back to
    query: Query  # that batch
    before: str  # the lineage of the batch before it; empty for batch 0
    shards: tuple[ShardRange, ...]  # offsets given back: from the end of that batch on
    targets: tuple[Target, ...]
    files: tuple[Withdrawn, ...]
    by: str
    why: str
    # Of the leaders that had what comes before `shards`, as `ShardRead.leader_epoch`.
    leader_epochs: tuple[tuple[ShardKey, int], ...] = codec.added(())
    # Of that batch and of the later ones: they are left out again.
    left_out: tuple[Letter, ...] = codec.added(())
    # Dead letters of the later batches, whose files go aside with the others.
    dead: tuple[tuple[ShardKey, int], ...] = codec.added(())
    # Of a migration that is undone with it: no start sees the one without the other.
    undo: Migrate | None = codec.added(None)  # noqa: RUF009 - it makes a field
    # Those that differ by now, as they were when that batch was landed.
    tables: tuple[TableDefinition, ...] = codec.added(())


def fold_rollback(fold: Fold, body: Rollback, number: int) -> Changes:
    """Return what a rollback changes in the fold. Raises Refused. `number`: of its entry."""
    require(0 <= body.entry < number, f"it rolls back to entry {body.entry}")
    shards, leader_epochs, dead = dict(fold.shards), dict(body.leader_epochs), dict(body.dead)
    for each in body.shards:
        state = shards.get(each.key)
        if state is None or each.offsets.end != state.next or each.offsets.start < state.first:
            raise Refused(f"{each} is given back, which is not the end of what was read")
        undone = dead.pop(each.key, 0)
        require(0 <= undone <= state.dead, f"{undone} dead letters of {each.key} are undone")
        shards[each.key] = replace(
            state,
            next=each.offsets.start,
            fetched=state.fetched - undone,
            dead=state.dead - undone,
            leader_epoch=leader_epochs.get(each.key),
        )
    require(not dead, "dead letters are undone of shards that give no offsets back")
    changes: Changes = {
        "shards": shards,
        "watermarks": {},  # the batch that is run next has the one of its checkpoint
        "partitions": _withdraw(fold, body, number),
        "query": _roll_back(fold.query, body),
        "left_out": merge_letters(body.left_out, fold.left_out),
        "tables": merge_definitions(fold.tables, body.tables),
    }
    if body.undo is not None:
        require(body.undo.undoes is not None, "it migrates the query, and undoes nothing")
        return {**changes, **fold_migrate(replace(fold, **changes), body.undo, number)}
    is_after = not fold.migrations or body.query.batch_id >= fold.migrations[-1].batch
    require(is_after, "it rolls back to a batch before the last migration")
    return changes


def _withdraw(fold: Fold, body: Rollback, number: int) -> dict[PartitionKey, PartitionState]:
    files = tuple(each.file for each in body.files)
    check_entry_files(files, body.targets, 0, has_spans=False)
    partitions = dict(fold.partitions)
    for key, (rows, count) in rows_by_partition(files, body.targets).items():
        left = partitions.get(key)
        if left is None:
            continue  # retired, or sealed long ago and forgotten
        require(not left.sealed_version, f"{key[1]} is sealed")
        require(left.rows >= rows and left.files >= count, f"{key[1]} has no such files")
        partitions[key] = replace(
            left, rows=left.rows - rows, files=left.files - count, entry=number
        )
    return partitions


def _roll_back(known: QueryState | None, body: Rollback) -> QueryState:
    batch = body.query
    if known is None or batch.query_id != known.query_id:
        raise Refused(f"query {batch.query_id} is rolled back in a slice that is not its own")
    is_earlier = known.first <= batch.batch_id < known.batch_id
    require(is_earlier, f"it rolls back from batch {known.batch_id} to {batch.batch_id}")
    return replace(known, batch_id=batch.batch_id, lineage=batch.lineage, before=body.before)
