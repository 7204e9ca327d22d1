"""A savepoint of each query of a job: of one that has stopped, so that they fit together.

What it promises: a query that has no checkpoint yet is left out, and reported.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.queries.state.savepoints.save import Saved, open_shelf
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.savepoints import take_savepoint
from ashore.topics.loop.job import load_job_file
from ashore.topics.loop.sinks import sinks_of


@dataclass(frozen=True, slots=True)
class SavedQuery:
    """A savepoint of a query."""

    query: str  # the table or topic that it fills
    saved: Saved


def save_each_query(
    job_file: str, to: str, clock: Clock, advance: Advance, report: Callable[[str], None]
) -> list[SavedQuery]:
    """Take a savepoint of each query into the directory `to`. Raises as `take_savepoint`.

    If interrupted: savepoints of some queries are there, each complete or with no manifest.
    """
    shelf = open_shelf(to, clock, links=True)
    saved = []
    for query in sorted(sinks_of(load_job_file(job_file))):
        try:
            checkpoint = find_checkpoint(job_file, query, clock)
        except CheckpointUnfit as error:
            if error.fields.get("why") != "empty_checkpoint":
                raise
            report(error.message)
            continue
        saved.append(SavedQuery(query, take_savepoint(checkpoint, None, shelf, clock, advance)))
    return saved


def require_queries(job_file: str, to: str, clock: Clock) -> None:
    """Raise JobFileInvalid where a job has no query, or `to` can be no directory of savepoints."""
    if not sinks_of(load_job_file(job_file)):
        raise JobFileInvalid(
            f"{job_file} has no query: only SQL keeps a checkpoint",
            hint="omit --savepoint",
        )
    open_shelf(to, clock, links=True)
