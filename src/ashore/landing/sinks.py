"""Tables that SQL writes: from an item of the job file and a query's columns to what tasks write.

What it promises: what could not be written is refused before the query starts. Two tables may have
an INSERT of one name (`a__b.c`, `a.b__c`): the log of one is never taken for the other's.
What it must not know: SQL.
"""

from io import BytesIO

from ashore.config import Job, Table
from ashore.config.model import SinkTopic
from ashore.config.sql_checks import sink_partitions
from ashore.errors import CheckpointUnfit, QueryRefused
from ashore.formats import open_encoder, parse_ddl, to_arrow
from ashore.landing.specs import OutputSpec
from ashore.protocol.fold import Fold
from ashore.protocol.names import SliceName, insert_into_table, insert_into_topic
from ashore.protocol.side_tables import DEAD_SUFFIX
from ashore.routing import Bucketer

# What an INSERT fills.
Sink = Table | SinkTopic

# Counters of records that a query reads: behind its watermark, and too far ahead to be believed.
LATE, FAR_FUTURE = "late", "far_future"
SENT = "sent"  # the counter of rows that went into a topic


def sinks_of(job: Job) -> dict[str, Sink]:
    """Return the tables and topics that INSERTs of a job fill, by their names."""
    tables: dict[str, Sink] = {item.table: item for item in job.tables if item.topic is None}
    return tables | {item.topic: item for item in (job.sql.topics if job.sql else ())}


def sink_slice(job: str, item: Sink) -> SliceName:
    """Return the slice of the INSERT that writes a table, or writes a topic."""
    if isinstance(item, SinkTopic):
        return SliceName(job, insert_into_topic(item.topic))
    return SliceName(job, insert_into_table(item.table))


def require_log_of(fold: Fold, name: SliceName, table: str) -> None:
    """Raise CheckpointUnfit where a log is that of another table, or of a topic.

    Arguments:
        fold: of the log.
        name: of its slice.
        table: that the slice's INSERT fills; empty where it writes a topic.

    """
    filled = {known for known, _ in fold.partitions} - {table, table + DEAD_SUFFIX}
    others = [f"table {other}" for other in sorted(filled)]
    if table and SENT in fold.counters:
        others.append("a topic")
    if others:
        raise CheckpointUnfit(
            f"the log of {name} is that of {' and '.join(others)}",
            hint="give the table or topic of this INSERT another name, in `sql` too",
            table=table,
        )


def sink_output(item: Table, ddl: str) -> OutputSpec:
    """Return how the rows of a query, whose columns are `ddl`, become files. Raises QueryRefused.

    It has no late table: a row of a query is never too late for its table.
    """
    event = item.event_time
    output = OutputSpec(
        table=item.table,
        schema=ddl,
        partition_by=sink_partitions(item),
        timezone=str(item.timezone),
        event_column=event.column if event else None,
        event_unit=event.unit if event else "ms",
        format=item.format,
        roll_bytes=item.roll.size_bytes,
        leaves_aside=item.on_error == "dead_letter",
        event_format=(event.format or "") if event else "",
    )
    try:
        _check(item, output)
    except ValueError as error:
        raise QueryRefused(
            f"{item.table}: {error}",
            hint="name and cast the columns in the SELECT, as in `CAST(x AS BIGINT) AS x`",
            table=item.table,
        ) from None
    return output


def _check(item: Table, output: OutputSpec) -> None:
    schema = to_arrow(parse_ddl(output.schema))
    if item.schema_ddl is not None and to_arrow(parse_ddl(item.schema_ddl)) != schema:
        raise ValueError(f"the SELECT has the columns {output.schema}, the table {item.schema_ddl}")
    if output.event is not None:
        output.event.check(schema)
    bucketer = Bucketer(output.partition_by, output.timezone, schema)
    open_encoder(output.format, BytesIO(), bucketer.file_schema).abandon()
