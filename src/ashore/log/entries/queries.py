"""Entries that only the slice of a query has: what it computes, from which state, and its way back.

What `plan` promises: a plan stands in the log before Spark continues with a state under it, so that
the next one can be compared with the plan that the state came from.
What `version` promises: nothing is decided by it: it is there to be read. Versions are numbered
from 1, each names the entry of the one before, and the batch that comes next; a rollback does not
take one back. The fold has the last one without its document.
What `leave_out` promises: it stands in the log before a batch is run without the records that SQL
cannot compute, so that each run of that batch leaves out the same, also one for the state alone.
Only records that no batch of the log has read are named, each once. They are dead letters of the
batch that reads them (`prepare`). Another plan may compute them: it takes back those that are not
read yet.
What `begin` promises: the log of a query begins after a batch that another table has. It is the
first entry about a query in its slice, and at most one: before it nothing was joined, planned or
landed there. What follows continues from the batch that it names: its offsets, its lineage, the SQL
that made its state. Nothing up to that batch is said to be in this slice's table.
What `migrate` promises: it is the switch to other SQL: what was written before it has no effect,
and with it plan and state change together. It names the attempt whose state was rewritten, which
the writer that appends it has made; all attempts before that one count no more. An undo is the same
entry the other way round, with the plan and the tables of before. What a person has said of which
operator is which is kept until another migration says something else.
What `rollback` promises: a query's table returns to the end of an earlier batch. Offsets are given
back from the end of what was read, and are read again (I1); the files of the batches that come to
nothing leave the table, but those of sealed partitions, which others have read. The lineage
continues from that batch. The table is defined again as it was then: no file of the later ones is
in it.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.entries.slices import Join, Joined, fold_join, merge_definitions
from ashore.log.files import DataFile, PartitionKey, Target
from ashore.log.fold import (
    Changes,
    Fold,
    HasEffects,
    PartitionState,
    Refused,
    check_entry_files,
    keep_read,
    require,
    rows_by_partition,
)
from ashore.log.positions import ShardKey, ShardRange
from ashore.log.query import (
    EditsState,
    Letter,
    MappingEdit,
    MigrationState,
    PlanState,
    Query,
    QueryState,
    VersionState,
    merge_letters,
)
from ashore.log.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Plan:
    """What a query computes from here on."""

    kind: ClassVar[str] = "plan"
    digest: str  # of the statements and the views that they read
    document: str  # the plan, as JSON


def fold_plan(fold: Fold, body: Plan) -> Changes:
    """Return what a `plan` changes in the fold. Raises Refused."""
    is_of_query = fold.query is not None or fold.next_batch == 0
    require(is_of_query, "a plan in a slice that landed topics")
    require(bool(body.digest and body.document), "the plan is empty")
    left_out = fold.left_out
    if fold.plan is not None and fold.plan.digest != body.digest:
        left_out = keep_read(left_out, fold.shards)
    return {"plan": PlanState(body.digest, body.document), "left_out": left_out}


@dataclass(frozen=True, slots=True)
class Version:
    """What a job was from here on."""

    kind: ClassVar[str] = "version"
    version: int  # 1, 2, 3 ...
    before: int | None  # the entry of the version before
    batch: int  # of the query, which comes next
    digest: str  # of what makes one version differ from another
    document: str  # the version, as JSON


def fold_version(fold: Fold, body: Version, number: int) -> Changes:
    """Return what a `version` changes in the fold. Raises Refused."""
    is_of_query = fold.query is not None or fold.next_batch == 0
    require(is_of_query, "a version in a slice that landed topics")
    require(bool(body.digest and body.document), "the version is empty")
    expected = next_version(fold, body.digest, body.document)
    require(body.version == expected.version, f"version {body.version}, not {expected.version}")
    require(body.before == expected.before, "it names another version before")
    require(body.batch == expected.batch, f"batch {body.batch} does not come next")
    return {"version": VersionState(body.version, number, body.digest)}


def next_version(fold: Fold, digest: str, document: str) -> Version:
    """Return the version that follows those of a fold."""
    known = fold.version
    return Version(
        version=known.version + 1 if known else 1,
        before=known.entry if known else None,
        batch=fold.query.batch_id + 1 if fold.query else 0,
        digest=digest,
        document=document,
    )


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """Records that a query leaves out from here on."""

    kind: ClassVar[str] = "leave_out"
    records: tuple[Letter, ...]


def fold_leave_out(fold: Fold, body: LeaveOut) -> Changes:
    """Return what a `leave_out` changes in the fold. Raises Refused."""
    require(fold.plan is not None, "records are left out in a slice without a plan")
    require(bool(body.records), "it leaves out nothing")
    current = fold.current()
    known = {(each.key, each.offset) for each in fold.left_out}
    for each in body.records:
        state = current.get(each.key)
        if state is None or each.offset < state.next:
            raise Refused(f"{each.key} offset {each.offset} is left out, and is not to be read")
        if (each.key, each.offset) in known:
            raise Refused(f"{each.key} offset {each.offset} is left out twice")
        known.add((each.key, each.offset))
    return {"left_out": tuple(sorted((*fold.left_out, *body.records)))}


@dataclass(frozen=True, slots=True)
class Begin:
    """The log of a query begins after a batch that another table has."""

    kind: ClassVar[str] = "begin"
    query: Query  # the batch that it continues from
    shards: tuple[Joined, ...]  # where its ranges ended: reading continues there
    digest: str  # of the SQL that made the state; empty: not known
    document: str  # that plan, as JSON; empty: not known
    owner: str  # the job and slice that the savepoint is of; empty: it does not say
    savepoint: str  # where it was
    by: str
    why: str


def fold_begin(fold: Fold, body: Begin, written_ms: int) -> Changes:
    """Return what a `begin` changes in the fold. Raises Refused. `written_ms`: of its entry."""
    require(is_empty(fold), "the slice has landed or read something before")
    require(body.query.batch_id >= 0, f"it continues from batch {body.query.batch_id}")
    require(bool(body.query.query_id and body.query.lineage), "it does not say of which query")
    require(bool(body.digest) == bool(body.document), "it has half a plan")
    state = QueryState(
        query_id=body.query.query_id,
        batch_id=body.query.batch_id,
        lineage=body.query.lineage,
        before="",
        first=body.query.batch_id + 1,
        since=body.query.lineage,
    )
    plan = PlanState(body.digest, body.document) if body.digest else None
    return {**fold_join(fold, Join(body.shards), written_ms), "query": state, "plan": plan}


def is_empty(fold: Fold) -> bool:
    """Return whether a slice may begin after a batch of a query: its log has nothing of its own."""
    is_new = fold.query is None and fold.plan is None and fold.version is None
    return is_new and fold.next_batch == 0 and not fold.shards and not fold.partitions


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
