"""Tables and topics that SQL writes, as a job file names them, and the slices that fill them.

What it promises: two tables may have an INSERT of one name (`a__b.c`, `a.b__c`): the log of one is
never taken for the other's.
"""

from ashore.base.suggest import suggest
from ashore.errors import CheckpointUnfit, JobFileInvalid
from ashore.jobs.file import Job, Table
from ashore.jobs.file.model import SinkTopic
from ashore.log.fold import Fold
from ashore.log.names import SliceName, insert_into_table, insert_into_topic
from ashore.log.tables import DEAD_SUFFIX

# What an INSERT fills.
Sink = Table | SinkTopic

# Counters of records that a query reads: behind its watermark, and too far ahead to be believed.
LATE, FAR_FUTURE = "late", "far_future"
# Those without an event time, near 1970, and that cannot be decoded.
UNTIMED, NEAR_1970 = "records_untimed", "records_near_1970"
UNDECODABLE = "records_undecodable"
SENT = "sent"  # the counter of rows that went into a topic


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
