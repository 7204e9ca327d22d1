"""Tables that SQL writes, as tasks write them: from an item of the job file and a query's columns.

What it promises: what could not be written is refused before the query starts.
"""

from io import BytesIO

from ashore.errors import QueryRefused
from ashore.jobs.file import Table
from ashore.jobs.file.sql_checks import sink_partitions
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.registry import open_encoder
from ashore.topics.route.buckets import Bucketer
from ashore.topics.route.event_time import check_event_column
from ashore.topics.write.batch import OutputSpec


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
        check_event_column(output.event, schema)
    bucketer = Bucketer(output.partition_by, output.timezone, schema)
    open_encoder(output.format, BytesIO(), bucketer.file_schema).abandon()
