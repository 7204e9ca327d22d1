"""Whether the rows of a table can be decoded, placed and written: of a topic's, and of SQL's.

What it is: `check_table`, for a table of a topic; `sink_output`, from an item of the job file and a
query's columns to what tasks write.
What it promises: what a task would trip over at its first record is refused before a job starts, or
before its query does.
"""

from io import BytesIO

import pyarrow as pa

from ashore.errors import JobFileInvalid, QueryRefused
from ashore.jobs.file import Job, ResolvedTable, Table
from ashore.jobs.file.sql_checks import sink_partitions
from ashore.tables.ddl import JSON_WHOLE, Schema, is_json, json_supports, parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.registry import make_decoder, open_encoder
from ashore.topics.route.placement import Bucketer, check_event_column
from ashore.topics.write.batch import LandingSpec, OutputSpec


def check_table(job: Job, resolved: ResolvedTable, spec: LandingSpec) -> None:
    """Raise JobFileInvalid where a table's rows could not be decoded, placed or written."""
    output = spec.output
    try:
        schema = parse_ddl(output.schema)
        if is_json(spec.decode):
            _check_maps(schema)
        if spec.decode == JSON_WHOLE:  # what Spark decodes takes no such numbers
            _check_maps(parse_ddl(spec.decode_schema))
        _check_event(output, to_arrow(schema))
        if not spec.is_selected:
            make_decoder(spec.decode, schema)
        _check_files(output, to_arrow(schema))
    except ValueError as error:
        line = job.line_of("tables", resolved.item, "table")
        raise JobFileInvalid(
            f"{job.path}:{line}: tables[{resolved.item}]: {spec.table}: {error}",
            hint="correct the schema or partition_by of this table",
            file=job.path,
            line=line,
            key=f"tables[{resolved.item}]",
        ) from None


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
        sort_by=item.compact.sort_by if item.compact else (),
    )
    try:
        columns = to_arrow(parse_ddl(ddl))
        _check_columns(item, ddl, columns)
        _check_event(output, columns)
        _check_files(output, columns)
    except ValueError as error:
        raise QueryRefused(
            f"{item.table}: {error}",
            hint="name and cast the columns in the SELECT, as in `CAST(x AS BIGINT) AS x`",
            table=item.table,
        ) from None
    return output


def _check_maps(schema: Schema) -> None:
    refused = json_supports(schema)
    if refused:
        raise ValueError(f"a map in JSON has STRING keys; column {', '.join(refused)} has others")


def _check_columns(item: Table, schema: str, columns: pa.Schema) -> None:
    if item.schema_ddl is not None and to_arrow(parse_ddl(item.schema_ddl)) != columns:
        raise ValueError(f"the SELECT has the columns {schema}, the table {item.schema_ddl}")


def _check_event(output: OutputSpec, columns: pa.Schema) -> None:
    if output.event is not None:
        check_event_column(output.event, columns)


def _check_files(output: OutputSpec, columns: pa.Schema) -> None:
    bucketer = Bucketer(output.partition_by, output.timezone, columns)
    open_encoder(output.extension, BytesIO(), bucketer.file_schema).abandon()
