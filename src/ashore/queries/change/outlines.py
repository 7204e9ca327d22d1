"""What Spark compares with a query before it starts one, copied out of a job's checkpoints.

What it is: `copied_outlines`: directories of this machine that are deleted at the end.
What it promises: checkpoints are only read, also beside a job that runs. Where one cannot be
copied, that is said, and nothing is raised: a verdict does not need it.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import AshoreError, PathMissing
from ashore.jobs.requests import Outline
from ashore.plans.query import PlannedQuery, StateCheck
from ashore.queries.state.attempts import open_attempts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.directories import open_directory
from ashore.queries.state.outline import copy_outline
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import find_sink, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob

T = TypeVar("T")
TRIES = 3  # beside a running Spark, which deletes old files


@dataclass(frozen=True, slots=True)
class Outlines:
    """What could be copied, and why something could not, by the slice of the query."""

    copies: tuple[Outline, ...]
    unknown: Mapping[str, str]

    def explain(self, planned: PlannedQuery) -> PlannedQuery:
        """Return a query with why Spark was not asked of its state, where it was to be."""
        why = self.unknown.get(planned.slice)
        return planned if why is None else replace(planned, spark=StateCheck(unknown=why))


NO_OUTLINES = Outlines((), MappingProxyType({}))


@contextmanager
def copied_outlines(opened: OpenJob, query: str | None = None) -> Iterator[Outlines]:
    """Copy the outlines of the newest checkpoints of a job's queries, and delete them at the end.

    `query`: the table or topic of the only one that is wanted.

    Raises JobFileInvalid.
    """
    job, lake = opened.job, lake_of(opened.job)
    sinks = sinks_of(job) if query is None else {query: find_sink(job, query)}
    copies, unknown = [], {}
    with tempfile.TemporaryDirectory(prefix="ashore-migrate-") as directory:
        for sink in sinks.values():
            name = sink_slice(job.job, sink)
            path = f"{directory}/{name.slice}"
            attempts = open_attempts(job, name, lake, opened.storage, opened.clock)
            try:
                newest = attempts.newest()
                if newest is None:
                    unknown[name.slice] = "there is no checkpoint"
                    continue
                copy = partial(_copy, newest, path, opened.clock)
                copies.append(Outline(name.slice, try_beside_spark(copy)))
            except AshoreError as error:
                unknown[name.slice] = error.message
        yield Outlines(tuple(copies), unknown)


def try_beside_spark(look: Callable[[int], T]) -> T:
    """Return what `look` returns for the number of a try: Spark may delete old files meanwhile."""
    for number in range(1, TRIES):
        with contextlib.suppress(PathMissing):
            return look(number)
    return look(TRIES)


def _copy(newest: Checkpoint, path: str, clock: Clock, number: int) -> str:
    """Copy the outline of a checkpoint to a new directory, and return which it is.

    A try that has failed has left files: the next one has a directory of its own.
    """
    place = f"{path}.{number}"
    copy_outline(newest, open_directory(place, clock))
    return place
