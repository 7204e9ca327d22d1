"""What a table is, as the log remembers it.

What it is: `TableDefinition`: the columns of its files, how they are filed, what feeds it.
What it promises: values that stand in the log; equal ones describe the same files.
"""

from dataclasses import dataclass

from ashore.base import codec


@dataclass(frozen=True, slots=True)
class TableColumn:
    """A column that a topic's schema, or a query, gives to the rows of a table."""

    name: str
    type: str  # as DDL: `DECIMAL(10,2)`
    nullable: bool


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """One main table. Its late table is the same; its dead letters follow from its format."""

    table: str  # database.table
    columns: tuple[TableColumn, ...]  # in order, without those of the provenance
    partition_by: tuple[str, ...]  # outermost first; of an Iceberg table transforms too
    zone: str  # of its partitions of time
    format: str  # parquet, orc, jsonl, iceberg, delta
    provenance: bool  # whether rows say which topic, partition and offset they came from
    topics: tuple[str, ...]  # that feed it, sorted; none: a query does
    headers: bool = codec.added(False)  # whether the provenance has the record's headers too
    generation: bool = codec.added(False)  # whether rows say which generation of their topic it was
    # Which rows its topics give: keys of the job file, with values; none: it is not known.
    rules: tuple[tuple[str, str], ...] = codec.added(())


ICEBERG = "iceberg"
DELTA = "delta"
SNAPSHOTS = (ICEBERG, DELTA)  # formats of tables whose files are Parquet, and readable by snapshots

LATE_SUFFIX = "__late"  # of records that the late policy puts aside; their table has the same rows
DEAD_SUFFIX = "__dead"  # of records that are no row

HEADERS_TYPE = "ARRAY<STRUCT<key: STRING, value: BINARY>>"  # as Spark's source for Kafka has it
DEAD_DDL = (
    "value BINARY, key BINARY, topic STRING, partition INT, offset BIGINT, "
    "timestamp TIMESTAMP, reason STRING"
)
DEAD_PARTITION_BY = ("date",)  # of landing: a bad record has no event time


def dead_ddl(*, headers: bool, generation: bool = False) -> str:
    """Return the columns of a dead-letter table."""
    ddl = f"{DEAD_DDL}, generation INT" if generation else DEAD_DDL
    return f"{ddl}, headers {HEADERS_TYPE}" if headers else ddl
