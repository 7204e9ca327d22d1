"""A query of a job that does not run, found for a command that changes it.

What it is: `StoppedQuery`, its log and its attempts; `find_query`, and `take_over` of its log.
What it promises: finding reads only. A query that runs is refused, unless the caller takes over.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ashore.jobs.file import Table
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.queries.state.attempts import Attempts, open_attempts
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


def take_over(opened: OpenJob, query: StoppedQuery, *, takes_over: bool) -> int:
    """Open the log of a query that does not run, finish what is unclosed; return the epoch."""
    require_stopped(opened, takes_over=takes_over)
    committer = opened.committer(query.name)
    committer.take_over()
    return committer.log.fold.epoch
