"""What `ashore checkpoint rescale` is asked for, from the words of a person.

What it is: `rescale` and `undo`, of the query of a job file or of the directory of a checkpoint.
What it promises: what `explains` changes nothing.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore.base.clock import Clock
from ashore.errors import JobFileInvalid
from ashore.jobs.requests import SparkRequest
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.directories import open_directory, reach
from ashore.queries.state.rescaling import plan_rescale
from ashore.queries.tools.addresses import (
    choose_query,
    find_checkpoint,
    is_job_file,
    require_newest,
)
from ashore.queries.tools.rescale_process import (
    Report,
    Rescaler,
    RescaleResult,
    Undo,
    plan_undo,
    rescale_copy,
    rescale_job,
    undo_rescale,
)
from ashore.queries.tools.rollback import StoppedQuery, find_query
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import sinks_of
from ashore.topics.open_job import OpenJob, open_job

_MASTER = "local[*]"


@dataclass(frozen=True, slots=True)
class RescaleAsked:
    """What a person has typed.

    Arguments:
        where: a job file, or the directory of a checkpoint.
        query: of the job file; None where it has one.
        to: where the new checkpoint goes; None: it becomes the job's.
        explains: only what would be done is wanted.
        takes_over: even if the job runs.
        debug: what Spark says on stderr is shown.

    """

    where: str
    query: str | None = None
    to: str | None = None
    explains: bool = False
    takes_over: bool = False
    debug: bool = False


def rescale(request: RescaleAsked, partitions: int, clock: Clock, report: Report) -> RescaleResult:
    """Give the state of a query another number of partitions.

    Arguments:
        request: which, and where it goes.
        partitions: how many.
        clock: of storages, and for the time that it takes.
        report: called with each step.

    Raises JobFileInvalid, CheckpointUnfit, StorageError, LogGrows, JobProcessEnded.

    """
    if is_job_file(request.where):
        with _opened(request) as (opened, query):
            rescaler = _rescaler_of(opened, clock, report, debug=request.debug)
            if request.to is None and not request.explains:
                over = request.takes_over
                return rescale_job(opened, query, partitions, rescaler, takes_over=over)
            return _copy(request, require_newest(query.attempts, query.fills), partitions, rescaler)
    if request.to is None and not request.explains:
        raise JobFileInvalid(
            f"{request.where} is a directory: it is rescaled into another one",
            hint="name that one with --to; then start the query with it as its checkpointLocation",
        )
    source = find_checkpoint(request.where, request.query, clock)
    options = reach(source.uri).options
    rescaler = Rescaler(SparkRequest(_MASTER, ()), options, clock, report, request.debug)
    return _copy(request, source, partitions, rescaler)


def undo(request: RescaleAsked) -> Undo:
    """Undo the last rescale of a job.

    Raises JobFileInvalid, CheckpointUnfit, StorageError, LogGrows.
    """
    if not is_job_file(request.where):
        raise JobFileInvalid(
            f"{request.where} is not a job file: there is nothing to undo",
            hint="start the query with the original checkpoint: it was only read",
        )
    with _opened(request) as (opened, query):
        if request.explains:
            return plan_undo(query)
        return undo_rescale(opened, query, takes_over=request.takes_over)


def _copy(
    request: RescaleAsked, source: Checkpoint, partitions: int, rescaler: Rescaler
) -> RescaleResult:
    plan = plan_rescale(source, partitions)
    if request.explains:
        path = request.to or source.place
        return RescaleResult(path, plan.partitions, partitions, plan.batch, (), 0.0, is_done=False)
    target = open_directory(request.to or "", rescaler.clock, dict(rescaler.options))
    return rescale_copy(source, target, partitions, rescaler)


@contextmanager
def _opened(request: RescaleAsked) -> Iterator[tuple[OpenJob, StoppedQuery]]:
    with open_job(Path(request.where)) as opened:
        chosen = choose_query(request.where, sinks_of(opened.job), request.query)
        yield opened, find_query(opened, chosen)


def _rescaler_of(opened: OpenJob, clock: Clock, report: Report, *, debug: bool) -> Rescaler:
    application = opened.job.spark_application
    spark = SparkRequest(application.master, tuple(sorted(application.conf.items())))
    return Rescaler(spark, lake_of(opened.job).options, clock, report, debug)
