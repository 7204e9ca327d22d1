"""The versions of a job's queries, from its logs and without Spark.

What it is: the use cases behind `versions`: the list, and what differs between two.
What it promises: reads only.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NoReturn

from ashore.base.codec import Malformed
from ashore.errors import LogDamaged, QueryRefused
from ashore.jobs.file import Table
from ashore.log.entries import Version
from ashore.log.names import SliceName, entry_path
from ashore.log.query import EditsState
from ashore.log.store.reader import read_history, read_log
from ashore.plans.version import JobVersion, read_version
from ashore.plans.version_changes import VersionDiff, compare_versions
from ashore.storage.base import Storage
from ashore.topics.loop.sinks import find_sink, require_log_of, sink_slice, sinks_of
from ashore.topics.open_job import OpenJob


@dataclass(frozen=True, slots=True)
class RecordedVersion:
    """A version, with when it was written down and which batch came next."""

    version: int
    entry: int
    batch: int
    written_ms: int
    digest: str
    content: JobVersion


def read_versions(storage: Storage, name: SliceName) -> Iterator[RecordedVersion]:
    """Yield the versions of a query, newest first. Raises LogDamaged, StorageError."""
    known = read_log(storage, name).version
    entry = known.entry if known else None
    while entry is not None:
        found = next(read_history(storage, name, entry))
        if not isinstance(found.body, Version):
            _damaged(name, entry, f"it is a `{found.kind}`, and is named as a version")
        body = found.body
        try:
            content = read_version(body.document)
        except Malformed as error:
            _damaged(name, entry, f"its version cannot be read: {error}")
        yield RecordedVersion(
            body.version, entry, body.batch, found.written_ms, body.digest, content
        )
        entry = body.before


def _damaged(name: SliceName, entry: int, reason: str) -> NoReturn:
    raise LogDamaged(
        f"{entry_path(name, entry)}: {reason}",
        hint="did a later release write the log? read it with that one",
        entry=entry,
    )


@dataclass(frozen=True, slots=True)
class QueryVersions:
    """The versions of a query, oldest first."""

    query: str  # the table or topic that it fills
    name: SliceName
    versions: tuple[RecordedVersion, ...]
    edits: EditsState | None = None  # what a person has said of its operators at a migration


@dataclass(frozen=True, slots=True)
class ComparedVersions:
    """Two versions of a query, and what differs."""

    query: str
    before: RecordedVersion
    after: RecordedVersion
    diff: VersionDiff


def list_versions(opened: OpenJob, query: str | None = None) -> tuple[QueryVersions, ...]:
    """Return the versions of each query of a job, or of the one that fills a table or topic.

    Raises JobFileInvalid, CheckpointUnfit, LogDamaged, StorageError.
    """
    job = opened.job
    sinks = sinks_of(job) if query is None else {query: find_sink(job, query)}
    found = []
    for filled, sink in sinks.items():
        name = sink_slice(job.job, sink)
        is_table = isinstance(sink, Table)
        fold = opened.fold(name)
        require_log_of(fold, name, filled if is_table else "")
        newest_first = tuple(read_versions(opened.storage, name))
        found.append(QueryVersions(filled, name, newest_first[::-1], fold.edits))
    return tuple(found)


def compare(
    opened: OpenJob, before: int | None, after: int | None, query: str | None
) -> ComparedVersions:
    """Return what differs between two versions of a query; without numbers, the last two.

    Raises QueryRefused where a version is not there, or the job has several queries and none is
    named; and as `list_versions`.
    """
    queries = list_versions(opened, query)
    if len(queries) != 1:
        names = ", ".join(each.query for each in queries)
        raise QueryRefused(
            f"{opened.job.path} has {len(queries)} queries{f': {names}' if names else ''}",
            hint="name one with --query" if queries else "only a job with SQL has versions",
        )
    (only,) = queries
    known = {each.version: each for each in only.versions}
    newest = max(known, default=0)
    numbers = (newest - 1 if before is None else before, newest if after is None else after)
    old, new = (_find(only, known, number) for number in numbers)
    return ComparedVersions(only.query, old, new, compare_versions(old.content, new.content))


def _find(
    query: QueryVersions, known: Mapping[int, RecordedVersion], number: int
) -> RecordedVersion:
    if number in known:
        return known[number]
    there = f"1 to {max(known)}" if len(known) > 1 else "1" if known else "none"
    raise QueryRefused(
        f"{query.query} has no version {number}; there is {there}",
        hint="`ashore versions list JOB.yaml` lists them; the first start of a release that writes "
        "versions writes one",
    )
