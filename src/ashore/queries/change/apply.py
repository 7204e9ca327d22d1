"""SQL of a job that changes while its state is kept, from the words of a person.

What it is: `plan_change`, what is to be done for verdicts that a person accepts, and
`apply_change`, which does it: the use case behind `ashore migrate apply`.
What it promises: a query that is refused, or loses more than was accepted, is named before the
first one is changed. The checkpoint that was there is only read, and a savepoint of it is kept. The
entry in the log is the switch: before it the old job starts, after it the new one.
"""

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from ashore.base.operator import operator
from ashore.base.unique import unique
from ashore.errors import (
    AshoreError,
    CheckpointUnfit,
    QueryRefused,
    StateNotAccepted,
    StorageError,
)
from ashore.jobs.events import StateMigrated, StateProgress, StateStep
from ashore.jobs.requests import CheckpointAddress, MigrateRequest
from ashore.log import names
from ashore.log.entries import MigratedOperator
from ashore.log.names import SliceName
from ashore.log.query import PlanState
from ashore.log.store.reader import read_log
from ashore.plans.change.backfill import is_filled, plan_backfill
from ashore.plans.change.rewriting import StateRewrite, move_kept, plan_rewrite
from ashore.plans.change.sources import moves_offsets
from ashore.plans.change.verdicts import SourceVerdict, StateVerdict, worst
from ashore.plans.log_form import read_stored, write_stored
from ashore.plans.query import PlannedQuery
from ashore.queries.change.check import JudgedChange, JudgedQuery
from ashore.queries.change.first_offsets import find_firsts, read_begins, require_used
from ashore.queries.change.insert_changes import (
    PlannedBeginning,
    Successor,
    begin_new,
    begin_successor,
    drop_query,
    find_empty,
    plan_beginnings,
)
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.migration import (
    MigrationWish,
    finish,
    lay_out,
    migrate_query,
    plan_target,
    require_done,
    require_rewritable,
)
from ashore.queries.state.savepoints.save import Shelf, save
from ashore.queries.state.savepoints.shelf import open_shelf
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.sweep import remove_savepoint
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.state.source_changes import Firsts, lay_out_sources, plan_sources
from ashore.queries.tools.rollback import StoppedQuery, find_query
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped

Rewrite = Callable[[MigrateRequest, Callable[[StateStep | StateProgress], None]], StateMigrated]


@dataclass(frozen=True, slots=True)
class ApplyAsked:
    """What a person has typed.

    Arguments:
        accepted: the worst verdict that is agreed to, a `StateVerdict`.
        begins: where topics begin that are new to a query: see `read_begins`.
        why: for what reason, for the log.
        partitions: that each state which is rewritten is to have; None: as many as it has.

    """

    accepted: str
    begins: tuple[str, ...]
    why: str
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class PlannedMigration:
    """A query whose state is to be rewritten.

    Arguments:
        query: with its checkpoint.
        wish: what becomes of the query.
        rewrite: what becomes of its state.
        sources: what becomes of what it reads; none: its offsets stay as they are.
        firsts: where topics begin that are new to its log.
        batch: the last one, whose state it is.
        size_bytes: of the files that its last batch needs.
        into: the query that goes on in its place and fills something else; None: it does itself.
        partitions: that its state gets; None: as many as it has.

    """

    query: StoppedQuery
    wish: MigrationWish
    rewrite: StateRewrite
    sources: tuple[SourceVerdict, ...]
    firsts: Firsts
    batch: int
    size_bytes: int
    into: StoppedQuery | None = None
    partitions: int | None = None


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A query that goes on with other SQL at its next start.

    Arguments:
        query: the table or topic that it fills.
        batch: the last one of the old SQL.
        savepoint: the place of the state of before.
        state: what was rewritten.
        took_s: how long it took.
        into: what its INSERT fills from now on, where that is something else.

    """

    query: str
    batch: int
    savepoint: str
    state: StateMigrated
    took_s: float
    into: str = ""


@dataclass(frozen=True, slots=True)
class PlannedDrop:
    """A query that the job has no more.

    Arguments:
        query: with its checkpoint.
        wish: who wants it.
        batch: the last one.
        size_bytes: of the files that its last batch needs: they stay in the savepoint.

    """

    query: StoppedQuery
    wish: MigrationWish
    batch: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """What is done for other SQL: queries that go on, those that go, and those that begin."""

    migrations: tuple[PlannedMigration, ...] = ()
    drops: tuple[PlannedDrop, ...] = ()
    beginnings: tuple[PlannedBeginning, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is to be done."""
        return not (self.migrations or self.drops or self.beginnings)


@dataclass(frozen=True, slots=True)
class AppliedDrop:
    """A query that was dropped after a batch. `savepoint`: the place of its state."""

    query: str
    batch: int
    savepoint: str


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """What was done."""

    migrations: tuple[AppliedMigration, ...] = ()
    drops: tuple[AppliedDrop, ...] = ()
    beginnings: tuple[PlannedBeginning, ...] = ()


@dataclass(frozen=True, slots=True)
class Migrator:
    """What migrations work with.

    Arguments:
        other: the job file with the new SQL, opened.
        savepoints: the directory where savepoints go; None: beside the job's logs.
        takes_over: even if the job runs.
        rewrite: has Spark write a state, for the plans that were judged.
        advance: called as files of a savepoint are done.
        report: called with the query, each step of its rewriting, and how far that is.

    """

    other: OpenJob
    savepoints: str | None
    takes_over: bool
    rewrite: Rewrite
    advance: Advance
    report: Callable[[str, StateStep | StateProgress], None]


def require_partitions_free(other: OpenJob, asked: ApplyAsked) -> None:
    """Refuse other partitions where the new job file names a number itself.

    What it names has to be what the state has: the old number before the migration, and the new one
    after it. Raises QueryRefused.
    """
    written = other.job.sql.state_partitions if other.job.sql else None
    if asked.partitions is not None and written is not None:
        raise QueryRefused(
            f"the new job file has `state_partitions: {written}`; nothing was changed",
            hint="remove the key there: the job continues with as many partitions as its state has",
        )


def plan_change(
    opened: OpenJob, other: OpenJob, change: JudgedChange, asked: ApplyAsked
) -> PlannedChange:
    """Return what is to be done, and how. Nothing is written.

    Arguments:
        opened: the job as it is.
        other: with the new SQL.
        change: the verdict on each query, and what the new ones would do.
        asked: what a person has agreed to.

    Raises QueryRefused with what cannot be rewritten; StateNotAccepted where a verdict is worse
    than what is accepted; CheckpointUnfit where a checkpoint is not done, or a table that a query
    is to fill is not empty; JobFileInvalid where a `--begin` does not fit; TableOwned,
    SourceError, LogDamaged, StorageError.

    """
    begins = read_begins(asked.begins)
    new = {each.query: each for each in change.planned}
    changed = [each for each in change.queries if each.verdict.verdict is not StateVerdict.FULL]
    migrations = [
        _plan_query(opened, other, each, new, asked) for each in changed if _is(each, new)
    ]
    drops = [_plan_drop(opened, each, asked) for each in changed if not _is(each, new)]
    for each in changed:
        require_accepted(each, asked)
    _require_partitions(asked.partitions, migrations)
    placed = tuple(
        replace(each, firsts=find_firsts(other.source, _new_topics(opened, each), begins))
        for each in migrations
    )
    known = {each.into or each.query for each in changed}
    judged = {each.query for each in change.queries}
    come = [new[name] for name in new if name in judged - known]
    beginnings = plan_beginnings(other, come, begins)
    places = [*(each.firsts for each in placed), *(each.firsts for each in beginnings)]
    require_used(begins, {topic for firsts in places for topic in firsts})
    return PlannedChange(placed, tuple(drops), beginnings)


def _require_partitions(partitions: int | None, migrations: list[PlannedMigration]) -> None:
    """Refuse a number of partitions that no state gets."""
    if partitions is not None and not any(each.rewrite.operators for each in migrations):
        raise QueryRefused(
            "no state has to be rewritten, so none gets other partitions; nothing was changed",
            hint="`ashore checkpoint rescale` changes the number of state partitions",
        )


def _is(judged: JudgedQuery, new: Mapping[str, PlannedQuery]) -> bool:
    """Return whether a query goes on, be it as another one."""
    return (judged.into or judged.query) in new


def apply_change(opened: OpenJob, planned: PlannedChange, migrator: Migrator) -> AppliedChange:
    """Do what was planned, query by query; the next start has the new SQL.

    If interrupted: each query starts with the old SQL, or with the new one; call it again. Where it
    fails, what was written for that query is deleted, its savepoint too.

    Raises as `migrate_query`, `begin` and `Migrator.rewrite`;
    LogGrows where the job runs, unless it `takes_over`.
    """
    require_stopped(opened, takes_over=migrator.takes_over)
    done = tuple(_apply(opened, each, migrator) for each in planned.migrations)
    dropped = tuple(_drop(opened, each, migrator) for each in planned.drops)
    for each in planned.beginnings:
        begin_new(migrator.other, each)
    return AppliedChange(done, dropped, planned.beginnings)


def _plan_drop(opened: OpenJob, judged: JudgedQuery, asked: ApplyAsked) -> PlannedDrop:
    query = find_query(opened, judged.query)
    fold = read_log(opened.storage, query.name)
    if fold.plan is None:
        raise QueryRefused(f"{query.name}: its log has no plan; nothing was changed")
    target = plan_target(require_done(query.name, fold, query.attempts.newest()))
    wish = MigrationWish(fold.plan.digest, fold.plan, (), operator(), asked.why)
    return PlannedDrop(query, wish, target.batch, target.size_bytes)


def _drop(opened: OpenJob, planned: PlannedDrop, migrator: Migrator) -> AppliedDrop:
    query, saved = planned.query, [""]
    shelf = open_savepoints(opened, query.name, migrator.savepoints)

    def keep(source: Checkpoint) -> str:
        saved[0] = save(source, None, shelf, opened.clock, migrator.advance).savepoint.place
        return saved[0]

    drop_query(opened, query, planned.wish, keep)
    return AppliedDrop(query.fills, planned.batch, saved[0])


def _apply(opened: OpenJob, planned: PlannedMigration, migrator: Migrator) -> AppliedMigration:
    query, began_s = planned.query, opened.clock.monotonic_s()
    shelf = open_savepoints(opened, planned.query.name, migrator.savepoints)
    saved: list[Savepoint] = []
    done: list[StateMigrated] = []

    def keep(source: Checkpoint) -> str:
        saved.append(save(source, None, shelf, opened.clock, migrator.advance).savepoint)
        return saved[0].place

    def fill(source: Checkpoint, target: Checkpoint, epoch: int) -> None:
        try:
            state_format = _lay_out(opened, planned, source, target)
            done.append(_rewrite(planned, migrator, source, target, state_format))
            finish(source, target, epoch)
        except AshoreError:  # no entry names the savepoint, and none will
            with suppress(StorageError, CheckpointUnfit):
                remove_savepoint(saved[0], unique)
            raise

    def move(into: StoppedQuery, source: Checkpoint) -> str:
        """Let the other query begin: this one is dropped after it."""
        place = keep(source)
        wish = planned.wish
        successor = Successor(
            query, into, wish.plan, planned.sources, planned.firsts, wish.by, wish.why
        )
        begin_successor(
            opened, migrator.other, successor, place, lambda target: fill(source, target, 1)
        )
        return place

    if planned.into is None:
        migrate_query(opened.committer(query.name), query.attempts, planned.wish, keep, fill)
    else:
        drop_query(opened, query, planned.wish, partial(move, planned.into))
    took_s = opened.clock.monotonic_s() - began_s
    into = planned.into.fills if planned.into else ""
    return AppliedMigration(query.fills, planned.batch, saved[0].place, done[0], took_s, into)


def _plan_query(
    opened: OpenJob,
    other: OpenJob,
    judged: JudgedQuery,
    planned: Mapping[str, PlannedQuery],
    asked: ApplyAsked,
) -> PlannedMigration:
    # One that the job does not have now it had once: the new job file alone names its table.
    home = opened if judged.query in sinks_of(opened.job) else other
    query, new = find_query(home, judged.query), planned[judged.into or judged.query]
    fold = read_log(opened.storage, query.name)
    if fold.plan is None:
        raise QueryRefused(f"{query.name}: {'; '.join(judged.verdict.why)}; nothing was changed")
    rewrite = plan_rewrite(read_stored(fold.plan.document), new.plan, judged.verdict)
    if judged.is_filled:
        rewrite = plan_backfill(new.plan, rewrite, judged.verdict).rewrite
    wanted = asked.partitions if rewrite.operators else None
    source = require_done(query.name, fold, query.attempts.newest())
    target = plan_target(source, wanted)
    require_rewritable(source, target.batch)
    if target.partitions is not None:
        rewrite = move_kept(rewrite)
    mapping = tuple(
        MigratedOperator(each.old, each.new, each.why.name.lower())
        for each in judged.verdict.mapping
    )
    plan = PlanState(new.digest, write_stored(new.plan))
    sources = judged.verdict.sources
    return PlannedMigration(
        query,
        MigrationWish(fold.plan.digest, plan, mapping, operator(), asked.why, judged.edits),
        rewrite,
        sources if any(moves_offsets(each) for each in sources) else (),
        {},
        target.batch,
        target.size_bytes,
        find_empty(other, judged.into) if judged.into else None,
        target.partitions,
    )


def _new_topics(opened: OpenJob, planned: PlannedMigration) -> tuple[str, ...]:
    """Return the topics that a query is to read, and that its log has never read."""
    fold = read_log(opened.storage, planned.query.name)
    known = {key.stream for key in fold.current()}
    read = (
        topic for each in planned.sources if each.new is not None for topic in each.name.split(",")
    )
    return tuple(dict.fromkeys(topic for topic in read if topic not in known))


def require_accepted(judged: JudgedQuery, asked: ApplyAsked) -> None:
    """Raise StateNotAccepted where a query loses more than a person has agreed to."""
    verdict, accepted = judged.verdict.verdict, StateVerdict(asked.accepted)
    if worst((verdict, accepted)) is not accepted:
        raise StateNotAccepted(
            f"{judged.query}: the verdict on its state is {verdict}; nothing was changed",
            hint="`ashore migrate check` names what starts empty or is dropped; to agree, add "
            f"`--accept {verdict}`",
            query=judged.query,
            verdict=verdict.value,
        )


def open_savepoints(opened: OpenJob, name: SliceName, savepoints: str | None) -> Shelf:
    """Return where the savepoint of a query goes. Raises JobFileInvalid, NotInstalled."""
    if savepoints is not None:
        return open_shelf(savepoints, opened.clock, links=True)
    path = names.savepoint_directory(name)
    return Shelf(opened.storage, path, f"{lake_of(opened.job).uri}/{path}", unique)


def _lay_out(
    opened: OpenJob, planned: PlannedMigration, source: Checkpoint, target: Checkpoint
) -> int:
    """Write what the new query finds before its state is there; return the format of the state."""
    plan = plan_target(source, planned.partitions)
    if not planned.sources:
        lay_out(source, target, plan)
        return plan.state_format
    name = planned.query.name
    fold = read_log(opened.storage, name)
    sources = plan_sources(source, name, fold, planned.sources, planned.firsts)
    lay_out(source, target, plan.without_sources())
    lay_out_sources(source, target, replace(sources, offsets=plan.cut(sources.offsets)))
    return plan.state_format


def _rewrite(
    planned: PlannedMigration,
    migrator: Migrator,
    source: Checkpoint,
    target: Checkpoint,
    state_format: int,
) -> StateMigrated:
    """Let Spark write the state. Raises as `Migrator.rewrite`."""
    options = lake_of(migrator.other.job).options
    request = MigrateRequest(
        source=CheckpointAddress(source.uri, options),
        target=CheckpointAddress(target.uri, options),
        batch=planned.batch,
        state_format=state_format,
        query=(planned.into or planned.query).fills,
        rewrite=planned.rewrite,
        log=planned.query.name.slice if is_filled(planned.rewrite.operators) else "",
    )

    def report(event: StateStep | StateProgress) -> None:
        migrator.report(planned.query.fills, event)

    return migrator.rewrite(request, report)
