"""The columns that say where a row of a table came from.

What it is: their names and types in tables, and the columns of a fetched record that they come
from.
What it promises: they come last in a table, the generation after the first four, headers after the
others; so the writer of rows and the catalog have the same order.
"""

from ashore.log.tables import HEADERS_TYPE
from ashore.tables.ddl import Schema, parse_ddl

PROVENANCE_DDL = (
    "kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
)
GENERATION_DDL = "kafka_generation INT"
HEADERS_DDL = f"kafka_headers {HEADERS_TYPE}"


def provenance_schema(*, provenance: bool, generation: bool, headers: bool) -> Schema:
    """Return the columns that the rows of a table have beside their own."""
    if not provenance:
        return Schema(())
    added = [GENERATION_DDL] * generation + [HEADERS_DDL] * headers
    return parse_ddl(", ".join([PROVENANCE_DDL, *added]))


def fetched_name(column: str) -> str:
    """Return the column of fetched records that a column of the provenance comes from."""
    return column.removeprefix("kafka_")
