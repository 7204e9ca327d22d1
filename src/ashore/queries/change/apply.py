"""Apply the plan of a migration: the use case behind `ashore migrate apply`.

What it is: `apply_change`, which executes what `plan_change` has planned for each query.
What it promises: the checkpoint that was there is only read, and a savepoint of it is kept. One
entry in the log is the switch of each query: before it the old SQL starts, after it the new one. A
query is dropped by the entry of a migration to a plan that does nothing, which an undo takes back.
Where a query continues as another one, that one's log begins first, so that at any moment one of
them has the state.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from ashore.base.unique import unique
from ashore.errors import AshoreError, CheckpointUnfit, StorageError, fail
from ashore.jobs.events import StateMigrated, StateProgress, StateStep
from ashore.jobs.requests import CheckpointAddress, MigrateRequest
from ashore.log import names
from ashore.log.entries import Join, Joined
from ashore.log.entries.queries import is_empty
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import CheckpointPosition
from ashore.log.positions import ShardKey
from ashore.plans.change.backfill import is_filled
from ashore.queries.change.plan import (
    PlannedBeginning,
    PlannedChange,
    PlannedDrop,
    PlannedMigration,
)
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import Ends
from ashore.queries.state.migration import (
    finish,
    lay_out,
    plan_target,
    start_migration,
    switch_plan,
    write_released,
)
from ashore.queries.state.resume import Beginning, begin, read_places
from ashore.queries.state.savepoints.save import Shelf, open_shelf, save
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.sweep import remove_savepoint
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.state.source_changes import SourcesPlan, lay_out_sources, plan_sources
from ashore.topics.loop.job import lake_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped

POLICY = "chosen"
Rewrite = Callable[[MigrateRequest, Callable[[StateStep | StateProgress], None]], StateMigrated]


@dataclass(frozen=True, slots=True)
class AppliedMigration:
    """A query that continues with other SQL at its next start."""

    query: str  # the table or topic that it fills
    batch: int  # the last one of the old SQL
    savepoint: str  # the place of the state from before
    state: StateMigrated
    took_s: float
    into: str = ""  # what its INSERT fills from now on, where that is something else


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Migrator:
    """What migrations work with."""

    opened: OpenJob  # the job as it is
    other: OpenJob  # the job file with the new SQL, opened
    savepoints: str | None  # the directory where savepoints go; None: beside the job's logs
    takes_over: bool  # even if the job runs
    rewrite: Rewrite  # has Spark write a state, for the plans that were judged
    advance: Advance  # called as files of a savepoint are done
    # called with the query, each step of its rewriting, and how far that is
    report: Callable[[str, StateStep | StateProgress], None]

    def save(self, name: SliceName, source: Checkpoint) -> Savepoint:
        """Take a savepoint of a query. Raises as `open_savepoints` and `save`."""
        shelf = open_savepoints(self.opened, name, self.savepoints)
        return save(source, None, shelf, self.opened.clock, self.advance).savepoint


def apply_change(planned: PlannedChange, migrator: Migrator) -> AppliedChange:
    """Execute a plan, query by query; the next start has the new SQL.

    If interrupted: each query starts with the old SQL, or with the new one; call it again. Where it
    fails, what was written for that query is deleted, its savepoint too.

    Raises as `start_migration`, `switch_plan`, `begin` and `Migrator.rewrite`;
    LogGrows where the job runs, unless it `takes_over`.
    """
    require_stopped(migrator.opened, takes_over=migrator.takes_over)
    done = tuple(_migrate(each, migrator) for each in planned.migrations)
    dropped = tuple(_drop(each, migrator) for each in planned.drops)
    for each in planned.beginnings:
        begin_new(migrator.other, each)
    return AppliedChange(done, dropped, planned.beginnings)


def _migrate(planned: PlannedMigration, migrator: Migrator) -> AppliedMigration:
    query, into, clock = planned.query, planned.into, migrator.opened.clock
    began_s = clock.monotonic_s()
    committer = migrator.opened.committer(query.name)
    source = start_migration(committer, query.attempts, planned.wish)
    fold = committer.log.fold
    sources = None
    if planned.sources:
        sources = plan_sources(source, query.name, fold, planned.sources, planned.firsts)
    savepoint = migrator.save(query.name, source)
    if into is None:
        attempt = query.attempts.migrate(fold.epoch)
    else:
        beginning = _plan_begin(planned, migrator.other, fold, _read_ends(source, sources))
        beginning = replace(beginning, savepoint=savepoint.place)
        attempt = begin(migrator.other.committer(into.name), into.attempts, beginning)
    with attempt as target, _removed_on_error(savepoint):
        state_format = _lay_out(planned, sources, source, target)
        state = _rewrite(planned, migrator, source, target, state_format)
        finish(source, target, fold.epoch)
    if into is not None:
        with query.attempts.migrate(fold.epoch) as target:
            write_released(source, target, fold.epoch)
    switch_plan(committer, query.attempts, planned.wish, savepoint.place)
    took_s = clock.monotonic_s() - began_s
    return AppliedMigration(
        query.fills, planned.batch, savepoint.place, state, took_s, into.fills if into else ""
    )


def _drop(planned: PlannedDrop, migrator: Migrator) -> AppliedDrop:
    query = planned.query
    committer = migrator.opened.committer(query.name)
    source = start_migration(committer, query.attempts, planned.wish)
    savepoint, epoch = migrator.save(query.name, source), committer.log.fold.epoch
    with query.attempts.migrate(epoch) as target:
        write_released(source, target, epoch)
    switch_plan(committer, query.attempts, planned.wish, savepoint.place)
    return AppliedDrop(query.fills, planned.batch, savepoint.place)


def begin_new(other: OpenJob, planned: PlannedBeginning) -> None:
    """Write where a query begins: the first entry of its log but the one that opens it.

    If interrupted: it begins where the job file says, or where the plan says.
    Raises StreamMissing, SourceError, LogDamaged, Fenced, StorageError.
    """
    name = planned.query.name
    streams = other.source.describe_streams(sorted(planned.firsts))
    shards = tuple(
        Joined(
            ShardKey(query_source(name), topic, 1, shard), streams[topic].stream_id, first, POLICY
        )
        for topic, firsts in sorted(planned.firsts.items())
        for shard, first in sorted(firsts.items())
    )
    committer = other.committer(name)
    committer.log.open()
    if is_empty(committer.log.fold):
        committer.log.append(Join(shards), committer.finish())


def open_savepoints(opened: OpenJob, name: SliceName, savepoints: str | None) -> Shelf:
    """Return where the savepoint of a query goes. Raises JobFileInvalid, NotInstalled."""
    if savepoints is not None:
        return open_shelf(savepoints, opened.clock, links=True)
    path = names.savepoint_directory(name)
    return Shelf(opened.storage, path, f"{lake_of(opened.job).uri}/{path}", unique)


@contextmanager
def _removed_on_error(savepoint: Savepoint) -> Iterator[None]:
    """Remove a savepoint where the block fails: no entry names it, and none will."""
    try:
        yield
    except AshoreError:
        with suppress(StorageError, CheckpointUnfit):
            remove_savepoint(savepoint, unique)
        raise


def _read_ends(source: Checkpoint, sources: SourcesPlan | None) -> Ends:
    """Return where the last batch ends in the topics that the new query reads."""
    if sources is None:
        return source.read_ends(source.read_position().committed)
    return sources.offsets[sources.batch].kafka_ends(source.path)


def _plan_begin(planned: PlannedMigration, other: OpenJob, fold: Fold, ends: Ends) -> Beginning:
    """Return how the log of another query begins where this one is. Its savepoint is not known yet.

    Raises StreamMissing, SourceError.
    """
    into = planned.into or fail("a query is moved into another one")
    known = fold.query or fail("a query that is migrated has a batch")
    stream_ids = {stream: id_ for (_, stream), (_, id_) in fold.generations().items()}
    new = sorted({topic for topics in ends.values() for topic in topics} - stream_ids.keys())
    if new:
        there = other.source.describe_streams(new)
        stream_ids |= {topic: each.stream_id for topic, each in there.items()}
    return Beginning(
        position=CheckpointPosition(known.query_id, known.batch_id, known.batch_id),
        ends=read_places(into.name, ends),
        stream_ids=stream_ids,
        lineage=known.lineage,
        plan=planned.into_plan,
        owner=str(planned.query.name),
        savepoint="",
        by=planned.wish.by,
        why=planned.wish.why,
    )


def _lay_out(
    planned: PlannedMigration, sources: SourcesPlan | None, source: Checkpoint, target: Checkpoint
) -> int:
    """Write what the new query finds before its state is there; return the format of the state."""
    plan = plan_target(source, planned.partitions)
    if sources is None:
        lay_out(source, target, plan)
    else:
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
    return migrator.rewrite(request, partial(migrator.report, planned.query.fills))
