"""One item of `tables`, as a frozen model.

What it is: topics, the table that they fill, and how their records are decoded, placed and kept.
What it promises: each field is right by itself; `checks` compares fields with each other.
"""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, StrictBool, StrictInt

from ashore.base.time_format import parse_time_format
from ashore.jobs.file.naming import (
    NonEmpty,
    PartitionText,
    TableName,
    TableText,
    TimeZone,
    TopicText,
    table_name,
    topic_matches,
    topic_pattern,
)
from ashore.jobs.file.section import Section
from ashore.jobs.file.values import (
    SOME,
    DurationMs,
    FrozenMap,
    JsonForm,
    PositiveBytes,
    PositiveMs,
    Shown,
    TextMap,
    ValueRefused,
    text_form,
)
from ashore.log.tables import DEAD_SUFFIX
from ashore.tables.ddl import is_json
from ashore.tables.masks import FORMS, NULL

TIME_PARTITIONS = ("date", "hour", "minute")
PROVENANCE_COLUMNS = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
HEADERS_COLUMN = "kafka_headers"
GENERATION_COLUMN = "kafka_generation"
_DEFAULT_DDL = {"text": "value STRING", "bytes": "value BINARY"}


def _time_format(text: str) -> str:
    try:
        parse_time_format(text)
    except ValueError as error:
        instead = "write iso8601, or a pattern such as yyyy-MM-dd HH:mm:ss"
        raise ValueRefused(str(error), instead) from None
    return text


class EventTime(Section):
    """The column that says when a record happened."""

    column: NonEmpty = Field(
        description="A column of the table: of `schema`, or one that `select` makes. Fields of a "
        "`STRUCT` are named with dots: `meta.producer.ts`.",
        examples=["ts"],
    )
    unit: Literal["s", "ms", "us", "ns"] = Field(
        default="ms",
        description="Unit of a number since 1970-01-01 UTC. Ignored for a TIMESTAMP column.",
    )
    format: (
        Annotated[NonEmpty, AfterValidator(_time_format), Shown("`iso8601` or a pattern")] | None
    ) = Field(
        default=None,
        description="How a STRING column is read: `iso8601`, or a pattern of `yyyy`, `MM`, `dd`, "
        "`HH`, `mm`, `ss`, `S` and `X`, with other letters in quotes. A string without a zone is "
        "UTC; one that does not match the format has no event time.",
        examples=["iso8601"],
    )


NO_DEAD_LETTERS = "a topic that SQL writes has no dead-letter table beside it"
FAIL_OR_NULL = 'write on_error: fail, or on_error: "null"'


def refuse_dead_letters(choice: str) -> str:
    """Return the choice. Raises ValueRefused where it cannot be made."""
    if choice == "dead_letter":
        raise ValueRefused(NO_DEAD_LETTERS, FAIL_OR_NULL)
    return choice


# YAML reads a plain `null` as nothing: here it is a choice.
OnError = Annotated[
    Literal["fail", "null", "dead_letter"],
    BeforeValidator(lambda choice: "null" if choice is None else choice),
    JsonForm({"enum": ["fail", "null", "dead_letter", None]}),
]
OnErrorOfTopic = Annotated[
    OnError,
    AfterValidator(refuse_dead_letters),
    Shown("`fail` or `null`"),
    JsonForm({"enum": ["fail", "null", None]}),
]
_ON_ERROR = (
    "What happens where SQL cannot compute a row: a cast of text that is not a number, a division "
    "by zero, an overflow. `fail`: the query stops with an error that says what to write. `null`: "
    "such a value is NULL, and an integer that overflows wraps (Spark's `ansi.enabled` is off for "
    "this query)."
)
_DEAD_LETTER = (
    " `dead_letter`: the record goes to `<table>__dead`, and the rest of its batch lands; so does "
    "a record that is too far ahead (`late.future_max`). A query that keeps state stops as "
    "with `fail` where only what is above the state fails, such as a division by a count."
)


class Late(Section):
    """What happens to records whose time is behind, or ahead."""

    after_ms: DurationMs = Field(
        default=7_200_000,
        alias="after",
        description="How far behind the watermark an event time may be before it is late.",
    )
    policy: Literal["rehome", "keep", "side"] = Field(
        default="rehome",
        description="Where a late record goes: `rehome` the current bucket, `keep` its own bucket "
        "(records older than `seal.remember` or `retention` go to the late table), `side` the "
        "table `<table>__late`.",
    )
    future_max_ms: DurationMs = Field(
        default=3_600_000,
        alias="future_max",
        description="How far ahead of the driver's clock an event time may be. Records beyond it "
        "are too far ahead.",
    )


class Roll(Section):
    """When a file is full."""

    size_bytes: PositiveBytes = Field(
        default=256_000_000, alias="size", description="A file is closed at about this size."
    )


def no_repeats(names: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names. Raises ValueRefused where one stands there twice."""
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueRefused(f"{', '.join(repeated)} appears twice", "name each once")
    return names


class CompactSection(Section):
    """When small files of a table in a table format are put together while the job runs."""

    target_bytes: PositiveBytes = Field(
        default=128_000_000, alias="target", description="The size of new files, about."
    )
    files_min: Annotated[StrictInt, Field(ge=2)] = Field(
        default=10,
        alias="min_files",
        description="Partitions with fewer small files are left as they are.",
    )
    sort_by: Annotated[tuple[NonEmpty, ...], AfterValidator(no_repeats)] = Field(
        default=(),
        description="Columns by which the rows of a new file are sorted, so that readers skip "
        "more of it. A file of more than about 512 MB in memory is several sorted runs.",
        examples=["[user, ts]"],
    )
    every_ms: PositiveMs = Field(
        default=600_000,
        alias="every",
        description="How often small files are looked for, once everything in Kafka has landed.",
    )

    @property
    def every_s(self) -> float:
        """`every` in seconds."""
        return self.every_ms / 1000


def _time_in_order(columns: tuple[str, ...]) -> tuple[str, ...]:
    times = tuple(column for column in columns if column in TIME_PARTITIONS)
    finest = max((TIME_PARTITIONS.index(each) for each in times), default=-1)
    expected = TIME_PARTITIONS[: finest + 1]
    if times != expected:
        raise ValueRefused(
            f"{', '.join(times)} alone or in this order does not name a time",
            f"write [{', '.join(expected)}]",
        )
    return columns


def _http_address(text: str) -> str:
    if not text.startswith(("http://", "https://")):
        raise ValueRefused("this is not an address for a POST", "write http://host:port/path")
    return text


def _nulls_as_text(mask: object) -> object:
    """YAML reads a plain `null` as nothing: here it is a choice."""
    if not isinstance(mask, Mapping):
        return mask
    return {path: NULL if form is None else form for path, form in mask.items()}


def _mask_forms(mask: Mapping[str, str]) -> Mapping[str, str]:
    for path, form in mask.items():
        if form not in FORMS:
            raise ValueRefused(f"{path}: {form} is no mask", f"write one of {', '.join(FORMS)}")
    return mask


class SealSection(Section):
    """When a table partition counts as complete, and what is done then."""

    delay_ms: DurationMs = Field(
        default=600_000,
        alias="delay",
        description="How far the watermark must be past a partition's end.",
    )
    idle_after_ms: PositiveMs = Field(
        default=1_800_000,
        alias="idle_after",
        description="A topic partition without records for this long no longer holds the "
        "watermark back.",
    )
    remember_ms: PositiveMs = Field(
        default=2_592_000_000,
        alias="remember",
        description="How long the log remembers sealed partitions, and how far back `late: keep` "
        "reaches.",
    )
    actions: Annotated[
        tuple[Literal["success_file", "catalog"], ...],
        AfterValidator(no_repeats),
        Shown("list of `success_file`, `catalog`"),
    ] = Field(
        default=("success_file", "catalog"),
        description="`success_file` writes `_SUCCESS`; `catalog` marks the partition in the "
        "catalog, where there is one.",
    )
    http: (
        Annotated[
            NonEmpty, AfterValidator(_http_address), Shown("http://..."), text_form("^https?://")
        ]
        | None
    ) = Field(
        default=None,
        description="An HTTP address that receives the content of the success file at each seal. "
        "Retried until it answers with success.",
        examples=["http://scheduler:8080/sealed"],
    )


class Table(Section):
    """One item of `tables`: topics, and the table that they fill."""

    topic: TopicText | None = Field(
        default=None,
        description="A topic, or a `/regular expression/` of RE2 that matches whole names (never "
        "Kafka's internal topics). Each topic matches exactly one item. Without it, `sql` writes "
        "the table.",
        examples=["clicks"],
    )
    land: StrictBool = Field(
        default=True,
        description="`false`: the topic is only read by `sql`, under the table's name, and no "
        "table is filled.",
    )
    table: TableText = Field(
        description="The table, at `<lake>/<database>.db/<table>`. With an expression, "
        "`{topic}` in the table's name is the topic, `.` and `-` turned into `_`.",
        examples=["ods.clicks"],
    )
    decode: Literal["json", "json_whole", "text", "bytes"] = Field(
        default="json",
        description="The format of a record's value: a JSON object, text, or bytes unchanged. With "
        "`json_whole` integer columns also take whole numbers that are written with a point or an "
        "exponent: `5.0`, `1e3`.",
    )
    schema_ddl: Annotated[NonEmpty, Shown("Spark DDL")] | None = Field(
        default=None,
        alias="schema",
        description="The columns as Spark DDL. Required for `json`; otherwise one column, "
        "`value STRING` for `text` and `value BINARY` for `bytes`.",
        examples=['"id BIGINT, user STRING, ts BIGINT"'],
    )
    event_time: EventTime | None = Field(
        default=None,
        description="The column with the event time. Default: the timestamp of the record in "
        "Kafka.",
        examples=["{column: ts, unit: ms}"],
    )
    partition_by: Annotated[
        tuple[PartitionText, ...],
        AfterValidator(no_repeats),
        AfterValidator(_time_in_order),
        Shown("list of `date`, `hour`, `minute`, columns and transforms"),
    ] = Field(
        default=("date", "hour"),
        description="Directories, outermost first: `date`, `hour`, `minute` of the event time "
        "in `timezone`, and columns of the schema. Of an Iceberg table also transforms of columns: "
        '`year(ts)`, `month(ts)`, `day(ts)`, `hour(ts)`, `"bucket(16, id)"`, '
        '`"truncate(4, name)"`.',
    )
    timezone: TimeZone = Field(
        default="UTC", description="The time zone of `date`, `hour` and `minute`."
    )
    late: Late = Field(default=Late(), description="Records that are late or too far ahead.")
    shuffle: Literal["none", "bucket"] = Field(
        default="none",
        description="`bucket` shuffles records by bucket before they are written: fewer files, "
        "slower.",
    )
    format: Literal["parquet", "orc", "jsonl", "iceberg", "delta"] = Field(
        default="parquet",
        description="The format of the files; `iceberg`, `delta`: a table in Iceberg's or Delta's "
        "format, whose files are Parquet and become readable with a snapshot for each batch.",
    )
    on_invalid: Literal["dead_letter", "drop", "fail"] = Field(
        default="dead_letter",
        description="What happens to a record that cannot be decoded: it goes to the table "
        "`<table>__dead`, is counted and dropped, or the job stops.",
    )
    on_error: OnError = Field(
        default="fail", description="Of a table that SQL writes. " + _ON_ERROR + _DEAD_LETTER
    )
    provenance: Annotated[Literal[True, False, "headers"], Shown("true, false or `headers`")] = (
        Field(
            default=True,
            description="Add the columns "
            + ", ".join(f"`{name}`" for name in PROVENANCE_COLUMNS)
            + ". Without them `verify` can only compare counts. "
            f"`headers`: also `{HEADERS_COLUMN}`, the record's headers.",
        )
    )
    generation: StrictBool | None = Field(
        default=None,
        description=f"Add `{GENERATION_COLUMN}` to the columns of `provenance`, and `generation` "
        "to dead letters: 1, and one more each time that `ashore rejoin` continues with a topic "
        "that was deleted and created again. With it, topic, generation, partition and offset are "
        "unique in a table. Default: as the table is in the landing log; `true` for a new table.",
    )
    select: Annotated[tuple[NonEmpty, ...], SOME] | None = Field(
        default=None,
        description="Stateless SQL expressions over the columns of `schema` that make the table's "
        "columns. Default: the columns of `schema`.",
        examples=['["id", "upper(user) AS user"]'],
    )
    where: NonEmpty | None = Field(
        default=None,
        description="A SQL filter. Records that do not match are counted as filtered.",
        examples=["\"country <> 'ZZ'\""],
    )
    mask: Annotated[
        TextMap,
        BeforeValidator(_nulls_as_text),
        AfterValidator(_mask_forms),
        Shown("mapping of columns to `sha256`, `last4` or `null`"),
        JsonForm({"type": "object", "additionalProperties": {"enum": [*FORMS, None]}}),
    ] = Field(
        default=FrozenMap[str](),
        description="Columns of the schema, or fields of a `STRUCT` with dots, whose values are "
        "masked where records are decoded, before `select`, `where` and SQL: `sha256` the digest "
        "in hexadecimal, `last4` stars but for the last four characters, `null` no value. Dead "
        "letters of the table have no value, key and headers.",
        examples=["{email: sha256, card: last4}"],
    )
    roll: Roll = Field(default=Roll(), description="When a file is full.")
    seal: SealSection = Field(
        default=SealSection(), description="When a table partition is complete."
    )
    compact: CompactSection | None = Field(
        default=None,
        description="Small files of an Iceberg or Delta table, and of its late and dead-letter "
        "table, are put together while the job runs. Without it only by `ashore compact`.",
        examples=["{every: 10m}"],
    )
    retention_ms: PositiveMs | None = Field(
        default=None,
        alias="retention",
        description="Partitions of time that ended this long ago are dropped while the job runs: "
        "those of the table, of its late and of its dead-letter table. Counted from the newest "
        "event time that has landed. Without it nothing is dropped.",
        examples=["90d"],
    )

    @property
    def is_pattern(self) -> bool:
        """Whether `topic` is an expression."""
        return self.topic is not None and topic_pattern(self.topic) is not None

    @property
    def is_json(self) -> bool:
        """Whether a record's value is a JSON object."""
        return is_json(self.decode)

    @property
    def is_landed(self) -> bool:
        """Whether topics land in the table as they are."""
        return self.topic is not None and self.land

    @property
    def provenance_columns(self) -> tuple[str, ...]:
        """The columns that say where a row came from."""
        if not self.provenance:
            return ()
        added = [GENERATION_COLUMN] * bool(self.generation)
        return (*PROVENANCE_COLUMNS, *added, *[HEADERS_COLUMN] * (self.provenance == "headers"))

    @property
    def sink_tables(self) -> tuple[str, ...]:
        """The tables that an INSERT fills: the item's own, and that of its dead letters."""
        has_letters = self.on_error == "dead_letter"
        return (self.table, self.table + DEAD_SUFFIX) if has_letters else (self.table,)

    @property
    def ddl(self) -> str:
        """The columns that records are decoded into, as Spark DDL."""
        return self.schema_ddl or _DEFAULT_DDL.get(self.decode, "")

    def matches(self, topic: str) -> bool:
        """Whether this item is about `topic`."""
        return self.topic is not None and topic_matches(self.topic, topic)

    def table_of(self, topic: str) -> TableName:
        """Return the table that `topic` fills. Raises ValueRefused where the name is impossible."""
        return table_name(self.table, topic)
