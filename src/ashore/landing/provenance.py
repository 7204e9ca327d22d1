"""The columns that say where a row of a table came from.

What it is: their names and types in tables, and the columns of a fetched record that they come
from.
What it promises: they come last in a table, headers after the others; so whoever writes rows and
whoever tells a catalog of them have the same order.
What it must not know: who asks for them.
"""

from ashore.formats.ddl import Schema, parse_ddl
from ashore.protocol.side_tables import HEADERS_TYPE

PROVENANCE_DDL = (
    "kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
)
HEADERS_DDL = f"kafka_headers {HEADERS_TYPE}"
FETCHED_NAMES = ("topic", "partition", "offset", "timestamp", "headers")  # in the same order


def provenance_schema(*, provenance: bool, headers: bool) -> Schema:
    """Return the columns that the rows of a table have beside their own."""
    if not provenance:
        return Schema(())
    return parse_ddl(f"{PROVENANCE_DDL}, {HEADERS_DDL}" if headers else PROVENANCE_DDL)
