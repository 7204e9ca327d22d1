"""Taking one query of a job back to an earlier batch, from a job file and without Spark.

What it is: the use case behind `roll-back`.
What it promises: what `plan` shows is what `apply` does, unless the job has gone on in between.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore.base.operator import operator
from ashore.errors import CheckpointUnfit
from ashore.jobs.file import Table
from ashore.log.names import SliceName
from ashore.log.plan_query import Refusal
from ashore.log.plan_rollback import Wish
from ashore.log.store.reader import read_log
from ashore.queries.state.attempts import Attempts, open_attempts
from ashore.queries.state.rollback import RolledBack, is_there, preview_rollback, roll_back
from ashore.queries.tools.addresses import choose_query
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import find_sink, require_log_of, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.use.requirements import require_stopped


@dataclass(frozen=True, slots=True)
class StoppedQuery:
    """A query of a job, and where its checkpoint is."""

    name: SliceName
    attempts: Attempts
    fills: str  # the table or topic


def find_query(opened: OpenJob, table: str) -> StoppedQuery:
    """Return the query that fills a table, or a topic. Raises JobFileInvalid, CheckpointUnfit."""
    job = opened.job
    sink = find_sink(job, table)
    name = sink_slice(job.job, sink)
    is_table = isinstance(sink, Table)
    require_log_of(read_log(opened.storage, name), name, table if is_table else "")
    attempts = open_attempts(job, name, lake_of(job), opened.storage, opened.clock)
    return StoppedQuery(name, attempts, table)


@contextmanager
def open_query_of_table(where: str, fills: str | None) -> Iterator[tuple[OpenJob, StoppedQuery]]:
    """Open the job of a job file, and find the query that fills a table or a topic.

    `fills`: None where the job has one query.
    Raises as `open_job`, `choose_query` and `find_query`.
    """
    with open_job(Path(where)) as opened:
        yield opened, find_query(opened, choose_query(where, sinks_of(opened.job), fills))


def choose_batch(query: StoppedQuery, to_batch: int | None) -> int:
    """Return the batch that is wanted: without a wish, the last one that the checkpoint calls done.

    Raises CheckpointUnfit, StorageError.
    """
    if to_batch is not None:
        return to_batch
    newest = query.attempts.newest()
    finished = newest.list_finished() if newest else []
    if not finished:
        raise CheckpointUnfit(
            f"{query.name}: there is no checkpoint with a finished batch",
            hint="restore a checkpoint first",
            why=Refusal.EMPTY_CHECKPOINT.value,
        )
    return finished[-1]


def plan(opened: OpenJob, query: StoppedQuery, batch: int) -> RolledBack:
    """Return what `apply` would do. Raises QueryRefused, CheckpointUnfit, LogDamaged."""
    return preview_rollback(opened.storage, query.name, query.attempts, _wish(batch, ""))


def apply(
    opened: OpenJob, query: StoppedQuery, batch: int, why: str, *, takes_over: bool
) -> RolledBack:
    """Roll checkpoint and table back, with an entry that says who and why.

    Where the table is at that batch nothing is done, and a job that runs is left alone. Raises
    LogGrows where the job runs, unless it `takes_over`; and as `plan`.
    """
    if is_there(opened.storage, query.name, batch):
        return plan(opened, query, batch)
    require_stopped(opened, takes_over=takes_over)
    return roll_back(opened.committer(query.name), query.attempts, _wish(batch, why))


def _wish(batch: int, why: str) -> Wish:
    return Wish(batch, operator(), why)


def take_over(opened: OpenJob, query: StoppedQuery, *, takes_over: bool) -> int:
    """Open the log of a query that does not run, finish what is unclosed; return the epoch."""
    require_stopped(opened, takes_over=takes_over)
    committer = opened.committer(query.name)
    committer.take_over()
    return committer.log.fold.epoch
