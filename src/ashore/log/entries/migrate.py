"""`migrate`: from here on a query computes something else, from a state that was rewritten for it.

What it promises: it is the switch: what was written before it has no effect, and with it plan
and state change together. It names the attempt whose state was rewritten, which the writer that
appends it has made; all attempts before that one count no more. An undo is the same entry the other
way round, with the plan and the tables of before. What a person has said of which operator is which
is kept until another migration says something else. Only a slice of a query has one.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.base import codec
from ashore.log.entries.define import merge_definitions
from ashore.log.fold import Changes, Fold
from ashore.log.query import EditsState, MappingEdit, MigrationState, PlanState
from ashore.log.rules import Refused, keep_read, require
from ashore.log.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class MigratedOperator:
    """Which operator of the plan before has the state of which operator."""

    old: str  # its id
    new: str
    by: str  # how the pair was found


@dataclass(frozen=True, slots=True)
class Migrate:
    """A query continues with another plan, and with a state that was rewritten for it."""

    kind: ClassVar[str] = "migrate"
    digest: str  # of the statements and the views that they read, as in `plan`
    document: str  # the plan, as JSON
    before: str  # the digest of the plan before
    batch: int  # the last one of the query: whose state was rewritten
    attempt: int  # the epoch of the attempt that has the state
    savepoint: str  # the place of that of the state before; for an undo: that it was restored from
    mapping: tuple[MigratedOperator, ...]
    by: str
    why: str
    undoes: int | None = codec.added(None)  # the entry of the migration that is undone
    pinned: tuple[MappingEdit, ...] = codec.added(())  # pairs that a person has made
    forbidden: tuple[MappingEdit, ...] = codec.added(())  # and those that are none
    # Of an undo: those that differ by now, as they were before the migration.
    tables: tuple[TableDefinition, ...] = codec.added(())


def fold_migrate(fold: Fold, body: Migrate, number: int) -> Changes:
    """Return what a `migrate` changes in the fold. Raises Refused. `number`: of its entry."""
    known = fold.plan
    if known is None or fold.query is None:
        raise Refused("a migration in a slice without a plan, or without a batch")
    require(bool(body.digest and body.document), "the plan is empty")
    require(body.before == known.digest, "it names another plan before")
    require(body.batch == fold.query.batch_id, f"batch {body.batch} is not the last one")
    require(body.attempt == fold.epoch, f"its attempt is of epoch {body.attempt}")
    edits = fold.edits
    if body.pinned or body.forbidden:
        require(body.undoes is None, "an undo pairs no operators")
        edits = EditsState(number, body.before, body.pinned, body.forbidden)
    if body.undoes is None:
        made = MigrationState(number, body.attempt, body.batch, body.before, body.savepoint)
        migrations = (*fold.migrations, made)
        require(not body.tables, "a migration defines no table")
    else:
        require(bool(fold.migrations), "it undoes a migration, and there is none")
        undone, migrations = fold.migrations[-1], fold.migrations[:-1]
        require(body.undoes == undone.entry, f"it undoes entry {body.undoes}")
        is_same = (body.digest, body.batch) == (undone.before, undone.batch)
        require(is_same, "it returns to another plan or batch than the previous one")
    return {
        "plan": PlanState(body.digest, body.document),
        "left_out": keep_read(fold.left_out, fold.shards),
        "migrations": migrations,
        "edits": edits,
        "tables": merge_definitions(fold.tables, body.tables),
        "attempt": body.attempt,
    }
