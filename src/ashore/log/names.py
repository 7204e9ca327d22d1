"""Every durable name: paths and files of a lake, and what queries are called in logs.

What it is: functions that build and parse them; no other module does.
What it promises: names that begin with `.` or `_` are invisible to Hive, Spark and Trino, all
others are final files. Every name carries 64 bits of its own or a number that is created
exclusively, so that no name is used twice. Paths are relative to the lake root.

    <database>.db/<table>/date=2026-11-21/hour=08/a-main-3-42-0007-<unique>.parquet
    <database>.db/<table>/_aside-<token>/...    what was taken out of the table, with its partition
    <database>.db/<table>/.ashore/owner-<k>.json
    <database>.db/<table>/.ashore/<job>/<slice>/<epoch>/<batch>-<unique>.in-progress
    .ashore/<job>/<slice>/log/00000000000000000042.json
    .ashore/<job>/<slice>/log/_snapshot-<n>.json
    .ashore/<job>/<slice>/log/_archive-<k>.gz
    .ashore/<job>/_checkpoints/<slice>/<epoch>/    an attempt, where the slice is a query's
    .ashore/<job>/_checkpoints/<slice>/begun-<epoch>.json     the attempt is started
    .ashore/<job>/_checkpoints/<slice>/whole-<epoch>.json     it is complete
    .ashore/<job>/_checkpoints/<slice>/migrated-<epoch>.json  it is complete, and counts once an
    entry of the log names it
    .ashore/<job>/_checkpoints/<slice>/left-<epoch>.json      the writer of that epoch has released
    it
    .ashore/<job>/_savepoints/<slice>/<savepoint>/  the state from before a migration
    .ashore/<job>/_requests/                        requests to the job process, and its answers

    <database>__<table>                the slice of the INSERT that fills a table
    topic__<topic>                     the slice of the INSERT that writes a topic
    kafka:<slice>, kafka:<slice>#<n>   the source in the keys of a query's log
"""

import hashlib
import re
from enum import StrEnum
from typing import NamedTuple

from ashore.errors import check

PRIVATE = ".ashore"
_ASIDE = "_aside-"
_PROBE = "_probe-"
ARCHIVE_ENTRIES = 1000  # entries in one archive: archive k holds [1000 k, 1000 (k + 1))

# A job called `owner-1.json` would stand where a table's owner file does.
JOB = re.compile(r"(?!owner-)[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
SLICE = re.compile(r"[A-Za-z0-9_]{1,50}")
TABLE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_]*\.[A-Za-z0-9][A-Za-z0-9_]*")
# Parsing accepts what building makes and nothing else: a number has one spelling.
_N = r"(0|[1-9][0-9]{0,19})"
_UNIQUE = r"([0-9a-f]{16,64})"
_ENTRY = re.compile(r"([0-9]{20})\.json")
_SNAPSHOT = re.compile(rf"_snapshot-{_N}\.json")
_ARCHIVE = re.compile(rf"_archive-{_N}\.gz")
_ATTEMPT = re.compile(rf"(begun|whole|migrated|left)-{_N}\.json")
_OWNER = re.compile(rf"owner-{_N}\.json")
_PENDING = re.compile(rf"{_N}-{_UNIQUE}\.in-progress")
_TASK = r"([0-9]{4}|[1-9][0-9]{4,19})"
_FINAL = re.compile(rf"a-([A-Za-z0-9_]{{1,50}})-{_N}-{_N}-{_TASK}-{_UNIQUE}\.([a-z0-9.]+)")
_KAFKA = "kafka"  # the source of all queries
_QUERY_SOURCE = re.compile(rf"({_KAFKA}):([A-Za-z0-9_]{{1,50}})(?:#([2-9]|[1-9][0-9]{{1,19}}))?")
_BETWEEN = "__"
_OF_TOPIC = f"topic{_BETWEEN}"
_TOPIC_LENGTH_MAX = 43  # with what comes before it, as long as a slice's name may be


class SliceName(NamedTuple):
    """A slice of a job: what one landing log belongs to."""

    job: str
    slice: str

    def __str__(self) -> str:
        """Return `job/slice`."""
        return f"{self.job}/{self.slice}"


class AttemptFile(StrEnum):
    """What a file says of a checkpoint attempt. The files keep the names of the first release."""

    STARTED = "begun"
    COMPLETE = "whole"
    MIGRATED = "migrated"  # complete too: it counts once an entry of the log names it
    RELEASED = "left"  # its writer has stopped: the next one may take it as it is


class PendingName(NamedTuple):
    """What an in-progress file's name says."""

    batch: int
    unique: str


class FinalName(NamedTuple):
    """What a final file's name says."""

    slice: str
    epoch: int
    batch: int
    task: int
    unique: str
    extension: str


class QuerySource(NamedTuple):
    """What the name of a source says in the keys of a query."""

    source: str  # as a landing slice calls it
    slice: str
    reading: int  # from 1: which reading of one topic in the query


class InsertTarget(NamedTuple):
    """What the INSERT of a name may fill."""

    tables: tuple[str, ...]
    topic: str | None


def join(*parts: str) -> str:
    """Join path parts, leaving out empty ones."""
    return "/".join(part for part in parts if part)


def parent(path: str) -> str:
    """Return the directory that `path` is in; empty for the lake root."""
    return path.rpartition("/")[0]


def leaf(path: str) -> str:
    """Return the last part of `path`."""
    return path.rpartition("/")[2]


def is_visible(path: str) -> bool:
    """Return whether Hive, Spark and Trino see the file: no part begins with `.` or `_`."""
    return not any(part.startswith((".", "_")) for part in path.split("/"))


def table_path(table: str) -> str:
    """Return the directory of `database.table`."""
    check(TABLE.fullmatch(table) is not None, f"table name {table!r}")
    database, name = table.split(".")
    return f"{database}.db/{name}"


def aside_directory(directory: str, token: str) -> str:
    """Return a place for what is taken out of a directory: readers do not see it, people do."""
    return join(directory, f"{_ASIDE}{token}")


def log_directory(name: SliceName) -> str:
    """Return the directory of a slice's landing log."""
    return join(PRIVATE, *_checked(name), "log")


def job_directory(job: str) -> str:
    """Return the directory whose subdirectories are the slices of a job."""
    return join(PRIVATE, job)


def checkpoint_directory(name: SliceName) -> str:
    """Return the directory of the attempts of a query's checkpoint, if the job names no other."""
    return join(job_directory(name.job), "_checkpoints", _checked(name).slice)


def savepoint_directory(name: SliceName) -> str:
    """Return the directory of the savepoints that migrations of a query keep."""
    return join(job_directory(name.job), "_savepoints", _checked(name).slice)


def requests_directory(job: str) -> str:
    """Return the directory of the requests to a job with `requests: lake`."""
    return join(job_directory(job), "_requests")


def checkpoint_directory_apart(name: SliceName) -> str:
    """Return the same below the place that a job names for its checkpoints."""
    return join(*_checked(name))


def checkpoint_attempt(directory: str, epoch: int) -> str:
    """Return the directory of the checkpoint attempt that the writer of `epoch` has made."""
    check(epoch > 0, f"epoch {epoch}")
    return join(directory, str(epoch))


def attempt_file(kind: AttemptFile, epoch: int) -> str:
    """Return the name of a file that says of an attempt what it is."""
    built = f"{kind}-{epoch}.json"
    check(parse_attempt(built, kind) == epoch, f"attempt file {built!r}")
    return built


def parse_attempt(file_name: str, kind: AttemptFile) -> int | None:
    """Return the epoch of a file of a kind that belongs to an attempt, or None."""
    found = _ATTEMPT.fullmatch(file_name)
    return int(found[2]) if found and found[1] == kind else None


def entry_path(name: SliceName, number: int) -> str:
    """Return the path of entry `number`."""
    check(number >= 0, f"entry number {number}")
    return join(log_directory(name), f"{number:020d}.json")


def snapshot_path(name: SliceName, number: int) -> str:
    """Return the path of the snapshot that ends at entry `number`."""
    return join(log_directory(name), f"_snapshot-{number}.json")


def archive_path(name: SliceName, index: int) -> str:
    """Return the path of archive `index`: entries [1000 index, 1000 (index + 1))."""
    return join(log_directory(name), f"_archive-{index}.gz")


def parse_entry(file_name: str) -> int | None:
    """Return the number of an entry's file name, or None."""
    return _number(_ENTRY, file_name)


def parse_snapshot(file_name: str) -> int | None:
    """Return the number of a snapshot's file name, or None."""
    return _number(_SNAPSHOT, file_name)


def parse_archive(file_name: str) -> int | None:
    """Return the index of an archive's file name, or None."""
    return _number(_ARCHIVE, file_name)


def owner_path(table: str, number: int) -> str:
    """Return the path of a table's owner file `number`. The highest rules."""
    return join(table_path(table), PRIVATE, f"owner-{number}.json")


def owner_directory(table: str) -> str:
    """Return the directory of a table's owner files."""
    return join(table_path(table), PRIVATE)


def parse_owner(file_name: str) -> int | None:
    """Return the number of an owner's file name, or None."""
    return _number(_OWNER, file_name)


def staging_root(table: str, name: SliceName) -> str:
    """Return the directory whose subdirectories are the epochs of a slice in a table."""
    return join(table_path(table), PRIVATE, *_checked(name))


def staging_directory(table: str, name: SliceName, epoch: int) -> str:
    """Return the directory of a writer's in-progress and pending files in a table."""
    return join(staging_root(table, name), str(epoch))


def probe_name(token: str) -> str:
    """Return the name of a file that tries out a directory, and that no reader sees."""
    return f"{_PROBE}{token}"


def is_probe(file_name: str) -> bool:
    """Return whether a file was made to try out its directory."""
    return file_name.startswith(_PROBE)


def pending_name(batch: int, unique: str) -> str:
    """Return the file name of an in-progress or pending file."""
    built = f"{batch}-{unique}.in-progress"
    check(_PENDING.fullmatch(built) is not None, f"pending name {built!r}")
    return built


def parse_pending(file_name: str) -> PendingName | None:
    """Return what a pending file's name says, or None where it is not one."""
    match = _PENDING.fullmatch(file_name)
    return PendingName(int(match[1]), match[2]) if match else None


def final_name(name: FinalName) -> str:
    """Return the file name of a final file."""
    head = f"a-{name.slice}-{name.epoch}-{name.batch}-{name.task:04d}-{name.unique}"
    built = f"{head}.{name.extension}"
    check(_FINAL.fullmatch(built) is not None, f"final name {built!r}")
    return built


def parse_final(file_name: str) -> FinalName | None:
    """Return what a final file's name says, or None where it is not one of ours."""
    match = _FINAL.fullmatch(file_name)
    if not match:
        return None
    return FinalName(match[1], int(match[2]), int(match[3]), int(match[4]), match[5], match[6])


def success_name(version: int) -> str:
    """Return the name of the success file of a seal's version, from 1."""
    return "_SUCCESS" if version == 1 else f"_SUCCESS.{version}"


def is_success_name(file_name: str) -> bool:
    """Return whether a name is that of the success file of some version."""
    return file_name == success_name(1) or file_name.startswith(f"{success_name(1)}.")


# ---- queries


def insert_into_table(table: str) -> str:
    """Return the name of the INSERT into a table: of its slice and its checkpoint.

    Two tables may have the same one: `a__b.c` and `a.b__c`. A job file with both is refused.
    """
    return table.replace(".", _BETWEEN)


def insert_into_topic(topic: str) -> str:
    """Return the name of the INSERT into a topic: of its slice and its checkpoint.

    Where the topic's name is no part of such a name, a digest keeps it apart from others.
    """
    plain = re.sub(r"[^A-Za-z0-9_]", "_", topic)
    if plain == topic and len(topic) <= _TOPIC_LENGTH_MAX:
        return f"{_OF_TOPIC}{topic}"
    digest = hashlib.sha256(topic.encode()).hexdigest()[:8]
    return f"{_OF_TOPIC}{plain[: _TOPIC_LENGTH_MAX - 9]}_{digest}"


def parse_insert(name: str) -> InsertTarget:
    """Return what the INSERT of a name may fill: the job file decides between them.

    A topic that is named by a digest only cannot be recovered: its name reads as another topic's.
    """
    cuts = (found.start() for found in re.finditer(f"(?={_BETWEEN})", name))
    tables = (f"{name[:cut]}.{name[cut + len(_BETWEEN) :]}" for cut in cuts)
    topic = name.removeprefix(_OF_TOPIC)
    return InsertTarget(
        tuple(each for each in tables if TABLE.fullmatch(each)),
        topic if topic and topic != name and insert_into_topic(topic) == name else None,
    )


def query_source(name: SliceName, reading: int = 1) -> str:
    """Return the name of Kafka in the keys of a query: no other slice has them.

    `reading` counts readings of one topic, which may end at different offsets.
    """
    check(reading > 0, f"reading {reading} of a topic")
    built = f"{_KAFKA}:{name.slice}" + (f"#{reading}" if reading > 1 else "")
    check(_QUERY_SOURCE.fullmatch(built) is not None, f"source name {built!r}")
    return built


def parse_query_source(source: str) -> QuerySource | None:
    """Return what a source's name says, or None where it is not that of a query."""
    match = _QUERY_SOURCE.fullmatch(source)
    return QuerySource(match[1], match[2], int(match[3] or 1)) if match else None


def plain_source(source: str) -> str:
    """Return what a landing slice calls a source, also where a query reads it by another name."""
    of_query = parse_query_source(source)
    return of_query.source if of_query else source


def _checked(name: SliceName) -> SliceName:
    check(JOB.fullmatch(name.job) is not None, f"job name {name.job!r}")
    check(SLICE.fullmatch(name.slice) is not None, f"slice name {name.slice!r}")
    return name


def _number(pattern: re.Pattern[str], file_name: str) -> int | None:
    match = pattern.fullmatch(file_name)
    return int(match[1]) if match else None
