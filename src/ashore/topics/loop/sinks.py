"""Tables and topics that SQL writes, as a job file names them, and the slices that fill them.

What it is: `sinks_of` a job; `find_slices`, the slice of its topics and those of its INSERTs;
`read_others`, for a table that a slice does not know yet, and that another one filled;
`find_removed`, the INSERTs that the job file no longer has.
What it promises: reads only, and only the logs of slices that could have filled such a table. Two
tables may have an INSERT of one name (`a__b.c`, `a.b__c`): the log of one is never taken for the
other's.
"""

from collections.abc import Collection, Mapping

from ashore.base.codec import Malformed
from ashore.base.suggest import suggest
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.jobs.file import Job, Table
from ashore.jobs.file.model import SinkTopic
from ashore.log import names
from ashore.log.entries.batch import SENT
from ashore.log.fold import Fold
from ashore.log.names import SliceName, insert_into_table, insert_into_topic
from ashore.log.store.reader import read_log
from ashore.log.tables import DEAD_SUFFIX, TableDefinition
from ashore.plans.graph import is_released, read_stored
from ashore.storage.base import Storage
from ashore.topics.loop.job import MAIN

# What an INSERT fills.
Sink = Table | SinkTopic

# Counters of records that a query reads: behind its watermark, and too far ahead to be believed.
LATE, FAR_FUTURE = "late", "far_future"
# Those without an event time, near 1970, and that cannot be decoded.
UNTIMED, NEAR_1970 = "records_untimed", "records_near_1970"
UNDECODABLE = "records_undecodable"


def sinks_of(job: Job) -> dict[str, Sink]:
    """Return the tables and topics that INSERTs of a job fill, by their names."""
    tables: dict[str, Sink] = {item.table: item for item in job.tables if item.topic is None}
    return tables | {item.topic: item for item in (job.sql.topics if job.sql else ())}


def find_sink(job: Job, name: str) -> Sink:
    """Return the table or topic of a name that an INSERT of a job fills. Raises JobFileInvalid."""
    sinks = sinks_of(job)
    if name not in sinks:
        raise JobFileInvalid(
            f"{name} is not a sink table of {job.path}",
            hint=suggest(name, sinks, "name a table that an INSERT of the job writes"),
        )
    return sinks[name]


def sink_slice(job: str, item: Sink) -> SliceName:
    """Return the slice of the INSERT that writes a table, or writes a topic."""
    if isinstance(item, SinkTopic):
        return SliceName(job, insert_into_topic(item.topic))
    return SliceName(job, insert_into_table(item.table))


def require_log_of(fold: Fold, name: SliceName, table: str) -> None:
    """Raise CheckpointUnfit where a log is that of another table, or of a topic.

    `table`: that the slice's INSERT fills; empty where it writes a topic.
    """
    filled = {known for known, _ in fold.partitions} - {table, table + DEAD_SUFFIX}
    others = [f"table {other}" for other in sorted(filled)]
    if table and SENT in fold.counters:
        others.append("a topic")
    if others:
        raise CheckpointUnfit(
            f"the log of {name} belongs to {' and '.join(others)}",
            hint="rename the table or topic of this INSERT, in `sql` too",
            table=table,
        )


REMOVED = (
    "{} was filled by an INSERT that the job file no longer has: nothing is added to it; its rows "
    "and the state of the query stay, and an INSERT into it continues where its log ends"
)


def find_slices(storage: Storage, job: str) -> list[SliceName]:
    """Return the slices of a job whose log has a directory. Raises StorageError."""
    directories = (each for each in storage.list(names.job_directory(job)) if each.is_directory)
    found = (names.leaf(each.path) for each in directories)
    return [
        SliceName(job, name)
        for name in found
        if names.SLICE.fullmatch(name) and names.is_visible(name)  # not the queries' checkpoints
    ]


def read_others(
    storage: Storage, name: SliceName, tables: Collection[str]
) -> Mapping[str, TableDefinition]:
    """Return tables that a slice does not know, as others do. Raises LogDamaged, StorageError."""
    there = {each.slice for each in find_slices(storage, name.job)}
    found = {}
    for table in tables:
        other = insert_into_table(table) if name.slice == MAIN else MAIN
        if other in there:
            definition = read_log(storage, SliceName(name.job, other)).tables.get(table)
            if definition is not None:
                found[table] = definition
    return found


def find_removed(storage: Storage, job: Job) -> tuple[str, ...]:
    """Return the INSERTs that have a log and that the job file no longer has, in words.

    What a migration has dropped is not among them. Raises LogDamaged, StorageError.
    """
    known = {sink_slice(job.job, item).slice for item in sinks_of(job).values()}
    found = []
    there = {each.slice: each for each in find_slices(storage, job.job)}
    for each in sorted(there.keys() - known - {MAIN}):
        fold = read_log(storage, there[each])
        if fold.end >= 0 and not _is_dropped(fold):
            found.append(REMOVED.format(_find_filled(each, fold)))
    return tuple(found)


def _is_dropped(fold: Fold) -> bool:
    try:
        return fold.plan is not None and is_released(read_stored(fold.plan.document))
    except Malformed:
        return False


def _find_filled(name: str, fold: Fold) -> str:
    target = names.parse_insert(name)
    tables = [each for each in target.tables if each in fold.tables]
    return tables[0] if tables else f"topic {target.topic or name}"
