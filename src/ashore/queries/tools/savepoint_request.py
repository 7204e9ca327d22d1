"""A savepoint of a job's query: by the job, where it runs on this machine, else of its files.

What it is: `save_query`; `save_each_query`, for a job that has stopped, so that the savepoints of
all its queries fit together.
What it promises: a job that runs takes it, and continues. One that has ended, or died, has left
files to take it of. One that is there and does not answer is an error within seconds: it is unknown
whether it is about to take the savepoint. Of each query: one that has no checkpoint yet is left
out, and reported.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from ashore.base.clock import Clock
from ashore.errors import (
    CheckpointUnfit,
    JobFileInvalid,
    JobNotAnswering,
    JobNotRunning,
    NotDone,
    error_of,
)
from ashore.jobs.ask import Patience, RunningJob
from ashore.jobs.requests import (
    TAKE_SAVEPOINT,
    SavepointDone,
    SavepointRequest,
    read_asked,
    write_request,
)
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.savepoints.manifest import SavepointKind
from ashore.queries.state.savepoints.save import Saved, Shelf, open_shelf
from ashore.queries.state.savepoints.transfer import Advance
from ashore.queries.tools.addresses import choose_query, find_checkpoint
from ashore.queries.tools.savepoints import find_savepoint, take_savepoint
from ashore.topics.loop.job import load_job_file, mailbox_in_lake
from ashore.topics.loop.sinks import sink_slice, sinks_of


@dataclass(frozen=True, slots=True)
class SavepointOptions:
    """A savepoint that a person requests.

    Arguments:
        job_file: of the job.
        query: the table or topic that the query fills; None where the job has one query.
        found: its newest checkpoint.
        shelf: where the savepoint goes.

    """

    job_file: str
    query: str | None
    found: Checkpoint
    shelf: Shelf


def save_query(
    request: SavepointOptions, clock: Clock, advance: Advance, report: Callable[[str], None]
) -> Saved:
    """Take a savepoint of a job's query.

    Arguments:
        request: which, and where it goes.
        clock: of this machine.
        advance: called as files are done, where it is this process that copies them.
        report: called with a sentence for people.

    Raises JobNotAnswering, NotDone; and as `take_savepoint`, of the job process too.
    If interrupted: a job that has accepted the request continues with it.

    """
    job = load_job_file(request.job_file)
    sinks = sinks_of(job)
    name = sink_slice(job.job, sinks[choose_query(request.job_file, sinks, request.query)])
    in_lake = partial(mailbox_in_lake, job)
    running = RunningJob(job.job, str(job.lake), clock, report, in_lake)
    shelf = request.shelf
    is_shared = shelf.kind is SavepointKind.SHARED
    text = write_request(SavepointRequest(name.slice, shelf.uri, shelf.links, is_shared))
    try:
        _, answer = running.ask(TAKE_SAVEPOINT, text, Patience(math.inf))
    except JobNotRunning as error:
        report(f"{error.message}: its savepoint is taken of its files")
        return take_savepoint(request.found, None, request.shelf, clock, advance)
    except (JobNotAnswering, NotDone) as error:
        place = request.found.place
        without = f"to copy its files without asking it, name {place} instead of the job file"
        hint = f"{error.hint}; {without}" if error.hint else without
        raise error_of(error.code, error.message, hint=hint) from error
    done = read_asked(SavepointDone, answer)
    savepoint = find_savepoint(done.place, clock)
    return Saved(savepoint, savepoint.read_manifest(), done.linked, done.took_ms / 1000)


# ---- of each query


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
