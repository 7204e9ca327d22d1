"""Tables as the tasks of a batch need to know them.

What it is: `OutputSpec`, how rows become the files of a table; and
`LandingSpec`, how the records of one topic become such rows.
What it promises: frozen values that can be pickled, since executors get them.
"""

from dataclasses import dataclass

from ashore.log.plan_batch import Feed
from ashore.log.tables import DEAD_SUFFIX, HEADERS_TYPE
from ashore.tables.ddl import Schema, parse_ddl
from ashore.topics.route.event_columns import EventColumn

PROVENANCE_DDL = (
    "kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
)
GENERATION_DDL = "kafka_generation INT"
HEADERS_DDL = f"kafka_headers {HEADERS_TYPE}"


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """How rows become the files of a table."""

    table: str  # database.table
    schema: str  # DDL of the table's own columns
    partition_by: tuple[str, ...]
    timezone: str  # of the partitions of time
    event_column: str | None  # that they go by, or a field `a.b`; None: the time of the record
    event_unit: str  # s | ms | us | ns; ignored for timestamp columns
    format: str  # parquet | orc | jsonl
    roll_bytes: int
    leaves_aside: bool = False  # a query's table: what SQL cannot compute is a dead letter
    event_format: str = ""  # of an event column that is a STRING
    headers_aside: bool = False  # dead letters of a query have the headers of their records

    @property
    def tables(self) -> tuple[str, ...]:
        """The table, and its dead-letter table where a query has one."""
        return (self.table, self.table + DEAD_SUFFIX) if self.leaves_aside else (self.table,)

    @property
    def event(self) -> EventColumn | None:
        """Where a row says when it happened; None: rows do not."""
        if self.event_column is None:
            return None
        return EventColumn(self.event_column, self.event_unit, self.event_format)


@dataclass(frozen=True, slots=True)
class LateRule:
    """What happens to records that come late or from the future."""

    after_ms: int
    policy: str  # rehome | keep | side
    future_max_ms: int
    keep_ms: int | None = None  # how far back `keep` reaches; older records take the side


@dataclass(frozen=True, slots=True)
class LandingSpec:
    """How the records of one topic become rows of a table."""

    output: OutputSpec
    decode: str  # json | text | bytes
    late: LateRule
    on_invalid: str  # dead_letter | drop | fail
    provenance: bool
    headers: bool = False  # whether the provenance has the record's headers too
    generation: bool = False  # whether rows and dead letters have the generation of their topic
    select: tuple[str, ...] = ()  # SQL expressions, for the reader; none: all columns
    where: str | None = None
    decode_schema: str = ""  # DDL that Spark decodes into; `select` makes the output's from it
    idle_after_ms: int = 1_800_000  # shards without records for so long hold no watermark up
    reader: str = "auto"  # auto | native | python: who decodes JSON; the rows are the same

    @property
    def table(self) -> str:
        """The table, as `database.table`."""
        return self.output.table

    @property
    def is_decoded_by_spark(self) -> bool:
        """Whether the reader adds the columns `decoded` (struct) and `keep` (boolean)."""
        return bool(self.select or self.where)

    @property
    def feed(self) -> Feed:
        """The table as plans know it."""
        return Feed(self.table, self.idle_after_ms)


def provenance_schema(*, provenance: bool, generation: bool, headers: bool) -> Schema:
    """Return the columns that say where the rows of a table came from: they come last in it."""
    if not provenance:
        return Schema(())
    added = [GENERATION_DDL] * generation + [HEADERS_DDL] * headers
    return parse_ddl(", ".join([PROVENANCE_DDL, *added]))


def fetched_name(column: str) -> str:
    """Return the column of fetched records that a column of the provenance comes from."""
    return column.removeprefix("kafka_")
