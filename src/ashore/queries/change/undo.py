"""A migration of a query taken back, from the words of a person and without Spark.

What it is: `find_migrated`, which query that is; `plan_undo` and `undo`, the use case behind
`ashore migrate undo`.
What it promises: what a plan shows is what is done, unless the job has gone on in between. The
savepoint that the migration kept is only read.
"""

from dataclasses import dataclass

from ashore.base.operator import operator
from ashore.errors import CheckpointUnfit, JobFileInvalid, QueryRefused
from ashore.log.plan_rollback import Wish
from ashore.log.query import MigrationState
from ashore.log.store.reader import read_log
from ashore.queries.state.migration import (
    UndonePlan,
    preview_undo,
    require_restored,
    start_undo,
    switch_back,
)
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.tools.savepoints import find_savepoint
from ashore.queries.tools.stopped_query import StoppedQuery, find_query
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import sink_slice, sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped


@dataclass(frozen=True, slots=True)
class UndoOptions:
    """What a person has typed."""

    why: str  # for what reason, for the log
    rolls_back: bool  # whether output that was landed since the migration is taken back
    takes_over: bool  # even if the job runs


def list_migrated(opened: OpenJob) -> list[str]:
    """Return what the queries fill that have a migration in force. Raises as `read_log`."""
    job = opened.job
    return [
        name
        for name, sink in sinks_of(job).items()
        if read_log(opened.storage, sink_slice(job.job, sink)).migrations
    ]


def find_migrated(opened: OpenJob, query: str | None) -> StoppedQuery:
    """Return the query whose last migration is to be undone.

    `query`: what it fills; None: the only one with a migration in force.
    Raises QueryRefused where there is none; JobFileInvalid where there are several.
    """
    if query is not None:
        return find_query(opened, query)
    job, migrated = opened.job, list_migrated(opened)
    if not migrated:
        raise QueryRefused(
            f"no query of {job.path} has a migration in force; nothing was changed",
            hint=f"`ashore versions list {job.path}` lists what the job was",
        )
    if len(migrated) > 1:
        raise JobFileInvalid(
            f"{len(migrated)} queries of {job.path} have a migration in force: "
            f"{', '.join(migrated)}",
            hint="name one with --query",
        )
    return find_query(opened, migrated[0])


def plan_undo(opened: OpenJob, query: StoppedQuery, *, rolls_back: bool) -> UndonePlan:
    """Return what `undo` would do. Raises as `preview_undo`; CheckpointUnfit."""
    found = preview_undo(opened.storage, query.name, rolls_back=rolls_back)
    try:
        _find_savepoint(opened, found.migration).read_manifest()
    except CheckpointUnfit as error:
        raise CheckpointUnfit(
            f"the savepoint of the migration cannot be used: {error.message}; nothing was changed",
            hint="restore the savepoint from a backup, or apply the old job file to the new one: "
            f"`ashore migrate apply {opened.job.path} --to OLD.yaml`",
            why="no_savepoint",
        ) from error
    return found


def undo(
    opened: OpenJob, query: StoppedQuery, request: UndoOptions, advance: Advance
) -> UndonePlan:
    """Let the next start continue with the SQL, the state and the offsets from before a migration.

    If interrupted: the new job starts, or the old one.

    `advance`: called as files are done.
    Raises as `plan_undo`, `start_undo` and `switch_back`; CheckpointUnfit where the savepoint is
    not that of before; LogGrows where the job runs, unless it `takes_over`.
    """
    plan_undo(opened, query, rolls_back=request.rolls_back)
    require_stopped(opened, takes_over=request.takes_over)
    committer = opened.committer(query.name)
    found = start_undo(committer, rolls_back=request.rolls_back)
    fold = committer.log.fold
    with query.attempts.migrate(fold.epoch) as target:
        restore(_find_savepoint(opened, found.migration), target, opened.clock, advance)
        require_restored(query.name, fold, found.migration, target)
    switch_back(committer, query.attempts, Wish(0, operator(), request.why), found)
    return found


def _find_savepoint(opened: OpenJob, migration: MigrationState) -> Savepoint:
    """Return the savepoint of a migration: in the lake as the job reaches it, or elsewhere."""
    place, lake = migration.savepoint, f"{lake_of(opened.job).uri}/"
    if place.startswith(lake):
        return Savepoint(opened.storage, place.removeprefix(lake), place)
    return find_savepoint(place, opened.clock)
