"""What a job over Spark can be asked while it runs, beside to stop.

What it is: `verbs_of`.
What it promises: a savepoint is that of the batch under way, once it is over, or of a later one.
The next batch waits for that batch to be committed, and for no file: files of a batch that is done
do not change while they are copied.
"""

from collections.abc import Mapping

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit, NotDone
from ashore.jobs.listener import Verb
from ashore.jobs.requests import (
    TAKE_SAVEPOINT,
    SavepointDone,
    SavepointRequest,
    read_asked,
    write_request,
)
from ashore.queries.spark.assembly import SparkJob
from ashore.queries.spark.sql.query import SqlQuery
from ashore.queries.state.savepoints.save import save
from ashore.queries.state.savepoints.shelf import open_shelf
from ashore.topics.loop.job_loop import JobLoop


def verbs_of(_job: SparkJob, loop: JobLoop) -> Mapping[str, Verb]:
    """Return what a job can be asked; see `run_process`."""
    queries = {each.name.slice: each for each in loop.queries if isinstance(each, SqlQuery)}

    def take_savepoint(text: str) -> str:
        request = read_asked(SavepointRequest, text)
        if request.slice not in queries:
            raise NotDone(
                f"the job process runs no query {request.slice}",
                hint="the job file was changed since it was started: start it again",
            )
        return write_request(_save(queries[request.slice], request))

    return {TAKE_SAVEPOINT: Verb(take_savepoint)}


def _save(query: SqlQuery, request: SavepointRequest) -> SavepointDone:
    """Take a savepoint. Raises JobFileInvalid, NotInstalled, CheckpointUnfit, StorageError."""
    clock = SystemClock()
    shelf = open_shelf(request.to, clock, links=request.links, is_shared=request.is_shared)
    checkpoint = query.between_batches(lambda _checkpoint: query.plan.attempts.newest())
    if checkpoint is None:
        raise CheckpointUnfit(
            f"{query.name}: there is no checkpoint yet",
            hint="ask again once it has run a batch",
            why="empty_checkpoint",
        )
    saved = save(checkpoint, None, shelf, clock, lambda _done, _total: None)
    return SavepointDone(saved.savepoint.place, saved.linked, round(1000 * saved.seconds))
