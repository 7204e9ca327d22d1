"""Where a checkpoint is: the place that a person names, turned into a checkpoint.

What it is: `find_checkpoint`; `find_attempts`, all attempts of a job's query.
What it promises: a job file gives the newest attempt of its query; any other place is the directory
of a checkpoint or a savepoint, on this machine or on HDFS, of any writer. Job files are read
only where one is named.
"""

from collections.abc import Collection
from pathlib import Path
from typing import TYPE_CHECKING

from ashore.base.clock import Clock
from ashore.base.suggest import suggest
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.queries.state.checkpoint import Checkpoint, open_directory
from ashore.queries.state.savepoints.store import Savepoint

if TYPE_CHECKING:
    from ashore.queries.state.attempts import Attempts

_REMOTE = ("file://", "hdfs://", "s3://")


def find_checkpoint(where: str, query: str | None, clock: Clock) -> Checkpoint:
    """Return the checkpoint that a person names.

    Arguments:
        where: a job file, or the directory of a checkpoint: a path, `file://...`, `hdfs://...` or
            `s3://...`.
        query: the table or topic that the query of the job file fills; None where it has only one.
        clock: of the storage.

    Raises JobFileInvalid, CheckpointUnfit, NotInstalled, StorageError.

    """
    if is_job_file(where):
        fills, attempts = find_attempts(where, query, clock)
        return require_newest(attempts, fills)
    if query is not None:
        raise JobFileInvalid(
            f"{where} is not a job file, so it has no query {query}",
            hint="omit --query, or name the job file",
        )
    named = open_directory(where, clock)
    savepoint = Savepoint(named.storage, named.path, named.uri)
    if savepoint.has_references():
        raise CheckpointUnfit(
            f"{savepoint.place} is a shared savepoint: its files are in the pool beside it",
            hint="restore it first: `ashore checkpoint restore SAVEPOINT --to DIR`",
            why="shared_savepoint",
        )
    if savepoint.is_taken():
        return savepoint.checkpoint
    return named


def is_job_file(where: str) -> bool:
    """Return whether a person names a job file, and not the directory of a checkpoint."""
    return not where.startswith(_REMOTE) and Path(where).is_file()


def choose_query(where: str, queries: Collection[str], query: str | None) -> str:
    """Return the table or topic whose query is meant. Raises JobFileInvalid.

    Arguments:
        where: the job file, for messages.
        queries: what its queries fill.
        query: what a person has named; None where there is only one.

    """
    if not queries:
        raise JobFileInvalid(
            f"{where} has no query: only SQL keeps a checkpoint",
            hint="name the job file of a query, or the directory of a checkpoint",
        )
    if query is None and len(queries) > 1:
        raise JobFileInvalid(
            f"{where} has {len(queries)} queries: {', '.join(sorted(queries))}",
            hint=f"choose one, as in --query {min(queries)}",
        )
    chosen = query if query is not None else next(iter(queries))
    if chosen not in queries:
        raise JobFileInvalid(
            f"no query of {where} fills {chosen}",
            hint=suggest(chosen, queries, "name a table or topic that an INSERT of the job fills"),
        )
    return chosen


def find_attempts(where: str, query: str | None, clock: Clock) -> tuple[str, "Attempts"]:
    """Return what the query of a job file fills, and its attempts. Raises as `find_checkpoint`."""
    # What reads a job file takes longer to import than a checkpoint to be looked at.
    from ashore.queries.state.attempts import open_attempts  # noqa: PLC0415 - as said above
    from ashore.topics.loop.job import lake_of, load_job_file  # noqa: PLC0415 - as said above
    from ashore.topics.loop.sinks import sink_slice, sinks_of  # noqa: PLC0415 - as said above

    job = load_job_file(where)
    sinks = sinks_of(job)
    chosen = choose_query(where, sinks, query)
    name = sink_slice(job.job, sinks[chosen])
    lake = lake_of(job)
    return chosen, open_attempts(job, name, lake, lake.open(clock), clock)


def require_newest(attempts: "Attempts", query: str) -> Checkpoint:
    """Return the newest attempt of the query that fills `query`.

    Raises CheckpointUnfit where there is none; StorageError.
    """
    newest = attempts.newest()
    if newest is None:
        raise CheckpointUnfit(
            f"the query that fills {query} has no checkpoint yet",
            hint="run the job first",
            why="empty_checkpoint",
        )
    return newest
