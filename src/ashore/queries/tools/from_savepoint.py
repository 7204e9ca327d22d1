"""A job that continues from a savepoint, from the options of a person and without Spark.

What it is: `resume_from`, the use case behind `ashore run --from`.
What it promises: the savepoint names its query of the job. One of another job or query is refused;
so is one after which something was landed, unless an option covers it.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ashore.base.operator import operator
from ashore.errors import CheckpointUnfit
from ashore.log.names import SliceName
from ashore.log.plan_query import CheckpointPosition
from ashore.queries.state.later_batches import LandedSince, OutputSince
from ashore.queries.state.layout import find_migration
from ashore.queries.state.resume import Place, Resume, preview_resume, read_places, resume
from ashore.queries.state.savepoints.manifest import Manifest
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.store import Savepoint
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.state.versions import read_checkpoint_owner
from ashore.queries.tools.addresses import choose_query
from ashore.queries.tools.savepoints import find_savepoint
from ashore.queries.tools.stopped_query import StoppedQuery, find_query
from ashore.topics.loop.sinks import sink_slice, sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped


@dataclass(frozen=True, slots=True)
class ResumeOptions:
    """What a person has typed.

    Arguments:
        savepoints: to continue from, at most one of each query of the job.
        output: how what was landed since is treated; None: there must be nothing.
        takes_over: even if the job runs.

    """

    savepoints: tuple[str, ...]
    output: OutputSince | None = None
    takes_over: bool = False


@dataclass(frozen=True, slots=True)
class ResumedQuery:
    """A query that continues from a savepoint at its next start."""

    query: str  # the table or topic that it fills
    place: str  # of the savepoint
    since: LandedSince


@dataclass(frozen=True, slots=True)
class _Chosen:
    query: str
    savepoint: Savepoint
    manifest: Manifest

    def resume(self, name: SliceName, output: OutputSince | None) -> Resume:
        """Return how the query of a slice is to continue from it."""
        found, why = self.manifest, f"ashore run --from {self.savepoint.place}"
        position = CheckpointPosition(found.query_id, found.planned, found.batch)
        checkpoint = self.savepoint.checkpoint

        def ends() -> dict[Place, int]:
            return read_places(name, checkpoint.read_ends(found.batch))

        migration = find_migration(each.path for each in found.files)
        return Resume(position, ends, output, operator(), why, migration)


def resume_from(
    opened: OpenJob,
    request: ResumeOptions,
    advance: Advance,
    report: Callable[[ResumedQuery], None],
) -> None:
    """Put savepoints in the place of the checkpoints of a job's queries.

    If interrupted: each query has its savepoint, or what it had before; call it again.

    Arguments:
        opened: the job.
        request: the savepoints.
        advance: called as files are done.
        report: called with each query that continues from a savepoint.

    Raises as `resume`; JobFileInvalid; LogGrows where the job runs, unless it `takes_over`. What
    can be refused is refused before the first query is changed.

    """
    chosen = [_choose(opened, each) for each in request.savepoints]
    twice = {each.query for each in chosen if sum(one.query == each.query for one in chosen) > 1}
    if twice:
        raise CheckpointUnfit(
            f"{min(twice)} has more than one savepoint to continue from",
            hint="name one savepoint of each query",
            why="twice",
        )
    queries = [find_query(opened, each.query) for each in chosen]
    for each, query in zip(chosen, queries, strict=True):
        preview_resume(opened.storage, query.name, each.resume(query.name, request.output))
    require_stopped(opened, takes_over=request.takes_over)
    for each, query in zip(chosen, queries, strict=True):
        since = _resume(opened, query, each, request.output, advance)
        report(ResumedQuery(each.query, each.savepoint.place, since))


def _choose(opened: OpenJob, where: str) -> _Chosen:
    """Return which query of a job a savepoint is of. Raises CheckpointUnfit, JobFileInvalid."""
    job = opened.job
    savepoint = find_savepoint(where, opened.clock)
    manifest = savepoint.read_manifest()
    owner, sinks = read_checkpoint_owner(savepoint.checkpoint), sinks_of(job)
    queries = {sink_slice(job.job, sink): name for name, sink in sinks.items()}
    if owner is None:  # of an earlier release: where the job has several queries it is unknown
        return _Chosen(choose_query(str(job.path), sinks, None), savepoint, manifest)
    if owner not in queries:
        flag = "" if owner.job == job.job else " --of-another-job"
        raise CheckpointUnfit(
            f"the savepoint {savepoint.place} is of {owner}, which is no query of {job.path}; "
            "nothing was changed",
            hint="name a savepoint of this job, or the job file that it is of; to continue from "
            f"it in an empty table: `--output another-table{flag}`",
            why="other_job",
        )
    return _Chosen(queries[owner], savepoint, manifest)


def _resume(
    opened: OpenJob,
    query: StoppedQuery,
    chosen: _Chosen,
    output: OutputSince | None,
    advance: Advance,
) -> LandedSince:
    plan = chosen.resume(query.name, output)
    with resume(opened.committer(query.name), query.attempts, plan) as (target, since):
        restore(chosen.savepoint, target, opened.clock, advance)
    return since
