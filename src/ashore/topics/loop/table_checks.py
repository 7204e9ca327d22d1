"""Whether the rows of a topic's table can be decoded, placed and written.

What it promises: what a task would trip over at its first record is refused before a job starts.
"""

from io import BytesIO

from ashore.errors import JobFileInvalid
from ashore.jobs.file import Job, ResolvedTable
from ashore.tables.ddl import Schema, json_supports, parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.registry import make_decoder, open_encoder
from ashore.topics.route.buckets import Bucketer
from ashore.topics.route.event_time import check_event_column
from ashore.topics.write.batch import LandingSpec


def check_table(job: Job, resolved: ResolvedTable, spec: LandingSpec) -> None:
    """Raise JobFileInvalid where a table's rows could not be decoded, placed or written."""
    output = spec.output
    try:
        schema = parse_ddl(output.schema)
        _check_columns(spec, schema)
        if not spec.is_decoded_by_spark:
            make_decoder(spec.decode, schema)
        bucketer = Bucketer(output.partition_by, output.timezone, to_arrow(schema))
        open_encoder(output.format, BytesIO(), bucketer.file_schema).abandon()
    except ValueError as error:
        line = job.line_of("tables", resolved.item, "table")
        raise JobFileInvalid(
            f"{job.path}:{line}: tables[{resolved.item}]: {spec.table}: {error}",
            hint="correct the schema or partition_by of this table",
            file=job.path,
            line=line,
            key=f"tables[{resolved.item}]",
        ) from None


def _check_columns(spec: LandingSpec, schema: Schema) -> None:
    refused = json_supports(schema) if spec.decode == "json" else []
    if refused:
        raise ValueError(f"a map in JSON has STRING keys; column {', '.join(refused)} has others")
    if spec.output.event is not None:
        check_event_column(spec.output.event, to_arrow(schema))
