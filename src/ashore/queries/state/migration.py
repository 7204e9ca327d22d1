"""A query that continues with other SQL, from a state that was rewritten for it, and back.

What it is: `start_migration` and `start_undo`, which check and take over; `plan_target`, `lay_out`
and `finish`, which write an attempt around the state; `switch_plan` and `switch_back`, which let
the log name it.
What it promises: the entry is the switch. Before it the old job starts as it would have, after it
the new one. What cannot be done is refused before anything is taken over. The checkpoint that was
there is only read.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.log.entries import Begin, Commit, Migrate, MigratedOperator, Plan
from ashore.log.entries.queries import Rollback
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_rollback import Wish
from ashore.log.query import MappingEdit, MigrationState, PlanState
from ashore.log.query_history import find_tables
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_history, read_log
from ashore.plans.matching import NO_EDITS, MappingEdits
from ashore.queries.state import rescaling
from ashore.queries.state.attempts import Attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import (
    UNSAFE_ROW,
    OffsetsFile,
    Settings,
    SourcePath,
    VersionPath,
)
from ashore.queries.state.rollback import RolledBack, plan_entry
from ashore.queries.state.survey import take_survey
from ashore.queries.state.versions import require_migration, require_own
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class TargetPlan:
    """A checkpoint that can be rewritten.

    Arguments:
        batch: the last one: it is done, and its state is rewritten.
        offsets: what is planned, by batch: this one, and the one before.
        state_format: of its state stores: `checkpointFormatVersion`.
        copied: files that are taken as they are: those of sources, and copies of versions.
        size_bytes: of all files of the batch.
        partitions: that the state will have; None: as many as it has.

    """

    batch: int
    offsets: Mapping[int, OffsetsFile]
    state_format: int
    copied: Sequence[CheckpointFile]
    size_bytes: int
    partitions: int | None = None

    def cut(self, offsets: Mapping[int, OffsetsFile]) -> dict[int, OffsetsFile]:
        """Return what is planned, where the batch has the partitions that its state will have."""
        number = self.partitions
        return {
            batch: each
            if number is None or batch < self.batch
            else rescaling.set_partitions(each, number)
            for batch, each in offsets.items()
        }

    def without_sources(self) -> "TargetPlan":
        """Return it without what is written of sources: see `lay_out_sources`."""
        copied = [each for each in self.copied if not isinstance(each.of, SourcePath)]
        return replace(self, offsets={}, copied=copied)


@dataclass(frozen=True, slots=True)
class MigrationWish:
    """How a query is to change.

    Arguments:
        before: the digest of the plan that it continues from.
        plan: that it is to continue with.
        mapping: which operator has the state of which.
        by: who requests it, for the log.
        why: for what reason.
        edits: what a person has said of which operator is which.

    """

    before: str
    plan: PlanState
    mapping: tuple[MigratedOperator, ...]
    by: str
    why: str
    edits: MappingEdits = NO_EDITS


def plan_target(source: Checkpoint, partitions: int | None = None) -> TargetPlan:
    """Return what a rewritten checkpoint takes of another one. Nothing is written.

    Requires: no process writes to the source.

    Arguments:
        source: the other one.
        partitions: that the state is to have; None: as many as it has.

    Raises CheckpointUnfit, StorageError.

    """
    survey = take_survey(source)
    required = survey.required
    number = None if partitions == required.offsets.partitions else partitions
    if number is not None:
        has = rescaling.require_partitions(source, required)
        rescaling.require_number(source, number)
        rescaling.refuse_old_partitions(source, survey, has)
    plan = TargetPlan(
        required.batch,
        rescaling.read_offsets(source, required),
        required.commit.state_format,
        [each for each in required.files if isinstance(each.of, SourcePath | VersionPath)],
        sum(each.size_bytes for each in required.files),
        number,
    )
    return replace(plan, offsets=plan.cut(plan.offsets))


def require_rewritable(checkpoint: Checkpoint, batch: int) -> Settings:
    """Return the settings of a batch whose state can be rewritten: it is where Spark writes stores.

    See decision 0044. Raises CheckpointUnfit, StorageError.
    """
    settings = checkpoint.read_offsets(batch).settings
    if settings is None:
        raise _not_rewritten(checkpoint, "no_settings", "its last batch does not name its settings")
    if settings.provider != rescaling.ROCKSDB:
        there = settings.provider or "unknown"
        text = f"its state is in {there}: only that of {rescaling.ROCKSDB} is rewritten"
        raise _not_rewritten(checkpoint, "provider", text)
    if settings.encoding != UNSAFE_ROW:
        text = f"its rows are encoded as {settings.encoding}: only {UNSAFE_ROW} is rewritten"
        raise _not_rewritten(checkpoint, "encoding", text)
    return settings


def lay_out(source: Checkpoint, target: Checkpoint, plan: TargetPlan) -> None:
    """Write what is there before the state is written.

    Requires: nothing is at the target. If interrupted: a part of it is there.
    Raises StorageError; CheckpointUnfit where a file is not as it was when the plan was made.
    """
    rescaling.copy_files(source, target, plan.copied)
    for batch, offsets in plan.offsets.items():
        target.plan(batch, offsets)


def write_released(source: Checkpoint, target: Checkpoint, epoch: int) -> None:
    """Write the checkpoint of a query that was dropped: how far it had come, and no state.

    Requires and raises as `lay_out` and `finish`.
    """
    plan = plan_target(source)
    lay_out(source, target, plan)
    before = source.read_commit(plan.batch)
    after = replace(before, store_ids=None if before.store_ids is None else {})
    target.commit(plan.batch, after)
    finish(source, target, epoch)


def finish(source: Checkpoint, target: Checkpoint, epoch: int) -> None:
    """Make the target a checkpoint of the source's query, with the mark of its migration.

    Requires: its batch is committed. If interrupted: Spark starts no query there.
    Raises StorageError; CheckpointUnfit where a file that its batch needs is not there.
    """
    target.mark_migration(epoch)
    rescaling.finish(source, target)
    take_survey(target)


def require_done(name: SliceName, fold: Fold, newest: Checkpoint | None) -> Checkpoint:
    """Return the checkpoint that a query can be migrated from.

    Raises CheckpointUnfit where it is not that of the log, or its last batch is not done.
    """
    known = fold.query
    if newest is None or known is None:
        raise _unfit(name, "empty_checkpoint", "there is no checkpoint of it yet", "run the job")
    require_own(name, newest)
    require_migration(name, fold, newest.read_migration())
    found = newest.read_position()
    if found.query_id != known.query_id:
        text = f"the checkpoint is of query {found.query_id}, the log of query {known.query_id}"
        raise _unfit(name, "other_query", text, "restore the checkpoint of the log's query")
    if not found.planned == found.committed == known.batch_id:
        text = (
            f"its checkpoint has planned batch {found.planned} and finished {found.committed}, "
            f"its log has batch {known.batch_id}"
        )
        raise _unfit(name, "not_done", text, "run the job with the previous SQL, and stop it")
    return newest


def start_migration(committer: Committer, attempts: Attempts, wish: MigrationWish) -> Checkpoint:
    """Take the slice of a query over, and return the checkpoint that it is migrated from.

    What cannot be done is refused before anything is taken over. If interrupted: the old job
    starts.

    Raises CheckpointUnfit, QueryRefused, LogDamaged, FilesLost, FileConflict, Fenced, StorageError.
    """
    log = committer.log
    fold = read_log(committer.storage, log.name)
    _require_before(log.name, fold, wish)
    require_done(log.name, fold, attempts.newest())
    committer.take_over()
    _require_before(log.name, log.fold, wish)
    return require_done(log.name, log.fold, attempts.newest())


def switch_plan(
    committer: Committer, attempts: Attempts, wish: MigrationWish, savepoint: str
) -> Fold:
    """Let the next start of a query continue with other SQL. Return the log's fold with the entry.

    Requires: the slice was taken over, and the attempt of its epoch is complete.
    If interrupted: the old job starts, or the new one.

    Arguments:
        committer: of the query's slice: that of `start_migration`.
        attempts: of the query.
        wish: how it is to change.
        savepoint: the place of the state from before.

    Raises LogDamaged, Fenced, StorageError.

    """
    log, fold = committer.log, committer.log.fold
    log.append(
        Migrate(
            digest=wish.plan.digest,
            document=wish.plan.document,
            before=wish.before,
            batch=fold.query.batch_id if fold.query else 0,
            attempt=fold.epoch,
            savepoint=savepoint,
            mapping=wish.mapping,
            by=wish.by,
            why=wish.why,
            pinned=_kept(wish.edits.pinned),
            forbidden=_kept(wish.edits.forbidden),
        ),
        None,
    )
    attempts.release(fold.epoch)
    return log.fold


def _kept(pairs: Iterable[tuple[str, str]]) -> tuple[MappingEdit, ...]:
    return tuple(MappingEdit(old, new) for old, new in pairs)


@dataclass(frozen=True, slots=True)
class UndonePlan:
    """What an undo would do.

    Arguments:
        migration: that is undone.
        plan: that the query continues with.
        rolled: what was landed since, and is taken back.
        rollback: the entry that takes it back; None: nothing was landed since.

    """

    migration: MigrationState
    plan: PlanState
    rolled: RolledBack
    rollback: Rollback | None = None


def preview_undo(storage: Storage, name: SliceName, *, rolls_back: bool) -> UndonePlan:
    """Return what an undo would do. Appends nothing. Raises as `start_undo`."""
    return _plan_undo(storage, name, read_log(storage, name), rolls_back=rolls_back)


def start_undo(committer: Committer, *, rolls_back: bool) -> UndonePlan:
    """Take the slice of a query over, and return what the undo of its last migration does.

    `rolls_back`: whether what was landed since is taken back. If interrupted: the new job starts.

    Raises QueryRefused where there is nothing to undo, or something was landed since that is not,
    or cannot be, taken back; LogDamaged, FilesLost, FileConflict, Fenced, StorageError.
    """
    storage, name = committer.storage, committer.log.name
    preview_undo(storage, name, rolls_back=rolls_back)
    committer.take_over()
    return _plan_undo(storage, name, committer.log.fold, rolls_back=rolls_back)


def switch_back(committer: Committer, attempts: Attempts, wish: Wish, found: UndonePlan) -> None:
    """Let the next start of a query continue with the SQL of before.

    Requires: the attempt of the slice's epoch is complete, with the savepoint of the migration.
    If interrupted: the new job starts, or the old one.

    Arguments:
        committer: of the query's slice: that of `start_undo`.
        attempts: of the query.
        wish: who requests it, and why; its batch is not looked at.
        found: what `start_undo` has returned.

    Raises LogDamaged, FilesLost, FileConflict, Fenced, StorageError.

    """
    log, fold = committer.log, committer.log.fold
    body = Migrate(
        digest=found.plan.digest,
        document=found.plan.document,
        before=fold.plan.digest if fold.plan else "",
        batch=found.migration.batch,
        attempt=fold.epoch,
        savepoint=found.migration.savepoint,
        mapping=(),
        by=wish.by,
        why=wish.why,
        undoes=found.migration.entry,
        tables=find_tables(
            read_history(committer.storage, log.name), found.migration.entry, fold.tables
        ),
    )
    if found.rollback is None:
        log.append(body, None)
    else:
        rollback = replace(found.rollback, by=wish.by, why=wish.why, tables=(), undo=body)
        log.append(rollback, None)
        log.append(Commit("recovery"), committer.finish())
    attempts.release(fold.epoch)


def find_plan(storage: Storage, name: SliceName, migration: MigrationState) -> PlanState | None:
    """Return the plan from before a migration, from the log. Raises LogDamaged."""
    found: PlanState | None = None
    for entry in read_history(storage, name):
        if entry.number >= migration.entry:
            break
        match entry.body:
            case Plan(digest, document) if digest == migration.before:
                found = PlanState(digest, document)
            case (Migrate() | Begin()) as body if body.digest == migration.before:
                found = PlanState(body.digest, body.document)
            case Rollback(undo=Migrate() as body) if body.digest == migration.before:
                found = PlanState(body.digest, body.document)
    return found


def _plan_undo(storage: Storage, name: SliceName, fold: Fold, *, rolls_back: bool) -> UndonePlan:
    if not fold.migrations or fold.query is None:
        raise QueryRefused(
            f"{name}: no migration is in force; nothing was changed",
            hint="`ashore versions list JOB.yaml` lists what the job was",
        )
    last = fold.migrations[-1]
    plan = find_plan(storage, name, last)
    if plan is None:
        raise QueryRefused(f"{name}: the log does not have the plan before entry {last.entry}")
    at = fold.query.batch_id
    if at == last.batch:
        return UndonePlan(last, plan, RolledBack(at, at, 0, 0))
    back = plan_entry(storage, name, fold, Wish(last.batch, "", ""))
    files = back.files if back else ()
    rows = sum(each.file.rows for each in files)
    if not rolls_back:
        raise QueryRefused(
            f"{name} has landed {rows:,} rows in {at - last.batch:,} batches, {last.batch + 1} to "
            f"{at}, since the migration; nothing was changed",
            hint="`--output roll-back` moves their files aside, and the previous SQL reads their "
            "offsets again",
        )
    return UndonePlan(last, plan, RolledBack(at, last.batch, len(files), rows), back)


def require_restored(
    name: SliceName, fold: Fold, migration: MigrationState, target: Checkpoint
) -> None:
    """Raise CheckpointUnfit where a savepoint is not that of the state from before a migration."""
    before = replace(fold, migrations=fold.migrations[:-1])
    require_migration(name, before, target.read_migration())
    found = target.read_position()
    is_it = fold.query is not None and found.query_id == fold.query.query_id
    if not is_it or found.committed != migration.batch:
        text = f"the savepoint {migration.savepoint} is not that of batch {migration.batch}"
        raise _unfit(name, "other_savepoint", text, "restore the savepoint to that directory")


def _require_before(name: SliceName, fold: Fold, wish: MigrationWish) -> None:
    if fold.plan is None or fold.plan.digest != wish.before:
        raise QueryRefused(
            f"{name}: another SQL was started, or another migration applied, in the meantime",
            hint="run the command again",
        )


def _not_rewritten(checkpoint: Checkpoint, why: str, text: str) -> CheckpointUnfit:
    hint = (
        "its SQL cannot change while its state is kept: let the new SQL fill a new table or topic"
    )
    place = checkpoint.place
    return CheckpointUnfit(f"{place}: {text}; nothing was changed", hint=hint, why=why)


def _unfit(name: SliceName, why: str, text: str, hint: str) -> CheckpointUnfit:
    return CheckpointUnfit(f"{name}: {text}; nothing was changed", hint=hint, why=why)
