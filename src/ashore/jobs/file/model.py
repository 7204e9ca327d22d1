"""The job file as frozen models: every key, its kind, its default and what it means.

What it is: the single description of the job file; the reference page is generated from it.
What it promises: a key that is not here is refused; values are in milliseconds, bytes and tuples.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, StrictInt

from ashore.base.labels import check_label
from ashore.errors import fail
from ashore.jobs.file.catalogs import CatalogSection, catalog_section
from ashore.jobs.file.lakes import (
    URI_FORM,
    AzureSection,
    GcsSection,
    HdfsSection,
    S3Section,
    lake_uri,
)
from ashore.jobs.file.metrics import Metrics, has_a_place
from ashore.jobs.file.naming import (
    JobName,
    NonEmpty,
    Servers,
    StartAt,
    StartMap,
    TopicText,
    topic_matches,
    topic_pattern,
)
from ashore.jobs.file.options import OPTIONS_FORM, PRODUCER_FORM, KafkaOptions, ProducerOptions
from ashore.jobs.file.section import Key, Section, line_of
from ashore.jobs.file.source_text import Scalar, WrittenText
from ashore.jobs.file.tables import OnErrorOfTopic, Table, no_repeats
from ashore.jobs.file.values import (
    SOME,
    TEXT_MAP_FORM,
    EnvText,
    FrozenMap,
    JsonForm,
    PositiveBytes,
    PositiveMs,
    Shown,
    TextMap,
    ValueRefused,
    text_form,
)

_MOST_BYTES = 1 << 30  # what Arrow and Kafka count in 31 bits is not reached
Count = Annotated[StrictInt, Field(gt=0, le=2**53)]


# --- source ----------------------------------------------------------------------------------


class KafkaSection(Section):
    """How Kafka is reached."""

    bootstrap_servers: Servers = Field(
        description="Brokers to connect to first.", examples=["127.0.0.1:9092"]
    )
    options: Annotated[
        KafkaOptions, Shown("mapping of Java client names to text"), OPTIONS_FORM
    ] = Field(
        default=KafkaOptions(),
        description="Options of the Kafka client under their Java names: security, SASL, SSL, "
        "fetch sizes. `${NAME}` is replaced from the environment and never shown.",
    )


class SourceSection(Section):
    """Where records come from, and where reading begins."""

    kafka: KafkaSection = Field(description="The Kafka cluster.")
    first_start: StartMap = Field(
        default=FrozenMap({"default": StartAt("latest")}),
        description="Where the first read of a topic starts: `earliest`, `latest` or "
        "`{timestamp: ...}` (ISO 8601 with a zone, or milliseconds). Names go before expressions, "
        "expressions in the order given, then `default`, which is `latest` when not given. The "
        "offset is recorded before the first read and never resolved again. A topic that an "
        "expression matches later starts at `earliest`.",
        examples=["{default: latest, clicks: earliest}"],
    )
    gap: Literal["fail", "skip"] = Field(
        default="fail",
        description="What happens when Kafka has deleted the next offsets: `fail` stops the job, "
        "`skip` records the range as skipped and continues.",
    )

    def start_of(self, topic: str) -> StartAt:
        """Return where the first read of `topic` begins, if it is there when the job starts."""
        if topic in self.first_start:
            return self.first_start[topic]
        for key, start in self.first_start.items():
            if topic_pattern(key) is not None and topic_matches(key, topic):
                return start
        return self.first_start.get("default", StartAt("latest"))


# --- the job ---------------------------------------------------------------------------------


class Batch(Section):
    """Interval and size of batches."""

    interval_ms: PositiveMs = Field(
        default=10_000,
        alias="interval",
        description="How often a batch starts. A job that lags starts the next batch at once.",
    )
    max_records: Count = Field(
        default=5_000_000, description="Maximum number of offsets per batch."
    )
    max_bytes: PositiveBytes = Field(
        default=2_000_000_000,
        description="Approximate maximum size of a batch, estimated from earlier batches; for SQL, "
        "from records that are read at its start.",
    )


class Health(Section):
    """Which share of bad records makes a job unhealthy."""

    max_share: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.01,
        description="The highest share of the last records of a table that may be dead letters, "
        "or have no event time. Ten records at least, or all of them.",
    )
    records: Count = Field(
        default=10_000,
        description="The number of last records of a table that count. A `where` that filters all "
        "of them is reported, too.",
    )


class ReadLimitsSection(Section):
    """What a record may have, and a batch of Kafka when it is decompressed."""

    record_bytes: Annotated[PositiveBytes, Field(le=_MOST_BYTES)] = Field(
        default=64 << 20,
        alias="record",
        description="Maximum size of key, value and headers of a record. Kafka's default for a "
        "whole batch is 1 MiB (`message.max.bytes`), but compressed. A task needs several times "
        "the size of its largest record.",
    )
    batch_bytes: Annotated[PositiveBytes, Field(le=_MOST_BYTES)] = Field(
        default=256 << 20,
        alias="batch",
        description="Maximum size of a batch of Kafka when it is decompressed: 34 KB may become "
        "1 GiB. At most 1 GiB, which no reader exceeds.",
    )
    on_too_large: Literal["fail", "skip"] = Field(
        default="fail",
        description="What happens to offsets that exceed a limit: `fail` lands what comes before "
        "them and stops the job, `skip` records them as skipped and continues.",
    )


class Clean(Section):
    """When unreferenced files are deleted."""

    every_ms: PositiveMs = Field(
        default=3_600_000,
        alias="every",
        description="How often the janitor runs, also through the checkpoint of a query.",
    )
    ttl_ms: PositiveMs = Field(
        default=86_400_000,
        alias="ttl",
        description="Minimum age of an unreferenced file before it is deleted; in the checkpoint "
        "of a query at least a day. It spares slow tasks a retry; correctness does not depend on "
        "it.",
    )


_MASTER = re.compile(
    r"local|yarn|local\[(\*|[1-9]\d*)(\s*,\s*[1-9]\d*)?\]"
    r"|local-cluster\[\s*\d+\s*,\s*\d+\s*,\s*\d+\s*\]|[a-z][a-z0-9+]*://\S+"
)


def _master(master: str) -> str:
    if not _MASTER.fullmatch(master):
        raise ValueRefused(
            f"{master} is not a Spark master",
            "write local[*], local[4], spark://host:7077, yarn or k8s://https://host:443",
        )
    return master


class Spark(Section):
    """The Spark application that reads and writes."""

    master: Annotated[NonEmpty, AfterValidator(_master), text_form(f"^(?:{_MASTER.pattern})$")] = (
        Field(default="local[*]", description="Where Spark runs.")
    )
    conf: TextMap = Field(
        default=FrozenMap[str](), description="Spark properties, passed to Spark unchanged."
    )


def _spark(value: object) -> object:
    if value == "none":
        return None
    if value is None or isinstance(value, str):
        raise ValueRefused(
            "the Spark application is none or a mapping", "write none, or {master: ...}"
        )
    return value


def _sql(value: object) -> object:
    return {"text": value} if isinstance(value, str) else value


def _one_text(sql: "Sql") -> "Sql":
    if (sql.text is None) == (sql.file is None):
        raise ValueRefused(
            "the statements are written here or in a file", "write text: or file:, one of them"
        )
    return sql


def _topic_name(text: str) -> str:
    if topic_pattern(text) is not None:
        raise ValueRefused("rows go into one topic", "write its name, without the slashes")
    return text


class SinkTopic(Section):
    """One item of `sql.topics`: a topic that an INSERT writes, each row a record."""

    topic: Annotated[TopicText, AfterValidator(_topic_name), Shown("topic name")] = Field(
        description="The topic, which must exist: `INSERT INTO name SELECT ...`, in backticks "
        "where the name has a `-`.",
        examples=["totals"],
    )
    mode: Literal["append", "upsert"] = Field(
        default="append",
        description="`append`: each row of the result is a record, once it is final. `upsert`: "
        "each row is the newest of its key, and is sent each time it changes; for topics with "
        "`cleanup.policy=compact`. Tombstones are not written.",
    )
    key: Annotated[tuple[NonEmpty, ...], AfterValidator(no_repeats)] = Field(
        default=(),
        description="The columns of the record's key, required for `upsert`: one is written as "
        "text, several as a JSON object. The value holds all columns.",
        examples=["[country]"],
    )
    on_error: OnErrorOfTopic = Field(default="fail", description="As `on_error` of a table.")


class Sql(Section):
    """Streaming SQL over the job's topics. Text in the job file is a `sql` with that `text`."""

    text: NonEmpty | None = Field(
        default=None,
        description="Statements, each ended by `;`: `CREATE TEMPORARY VIEW name AS SELECT ...`, "
        "`CREATE TEMPORARY FUNCTION name(x INT) RETURNS INT RETURN x + 1`, "
        "and `INSERT INTO name SELECT ...` for each item of `tables` that has no `topic`, and each "
        "of `topics` here. A table that has a topic is read by the part of its name after the "
        "dot.",
        examples=['"INSERT INTO ods.big SELECT * FROM clicks WHERE amount > 100;"'],
    )
    file: NonEmpty | None = Field(
        default=None,
        description="The file that holds the statements, beside the job file or absolute.",
        examples=["clicks.sql"],
    )
    functions: NonEmpty | None = Field(
        default=None,
        description="A file of Python, beside the job file or absolute, whose functions SQL can "
        "call by name: those created with `arrow_udf`, `pandas_udf` or `udf` of PySpark. Its "
        "content is shipped to the executors.",
        examples=["functions.py"],
    )
    checkpoints: Annotated[EnvText, AfterValidator(lake_uri), Shown("URI")] | None = Field(
        default=None,
        description="Where Spark keeps offsets and state, one directory per INSERT. Default: "
        "`.ashore/<job>/_checkpoints` in the lake.",
        examples=["file:///data/checkpoints"],
    )
    topics: tuple[SinkTopic, ...] = Field(
        default=(),
        description="Topics that SQL writes, each with one INSERT, at least once. `CREATE TABLE "
        "name USING kafka` in the SQL adds to them.",
    )
    producer: Annotated[
        ProducerOptions, Shown("mapping of Java client names to text"), PRODUCER_FORM
    ] = Field(
        default=ProducerOptions(),
        description="Options of the producer of `topics`, under their Java names. The connection "
        "to Kafka is that of `source.kafka`.",
        examples=['{linger.ms: "50", compression.type: lz4}'],
    )
    state_partitions: Count | None = Field(
        default=None,
        description="Number of state partitions of each INSERT, fixed at its first start: another "
        "number for existing state is refused. Default: that of the existing state, or for new "
        "state one that suits the cores and `batch.interval`.",
    )
    keep_ms: PositiveMs = Field(
        default=1_800_000,
        alias="keep",
        description="How far back the state of each INSERT can be rolled back: its checkpoint "
        "keeps this much history, or less where that would be more than 20,000 files, with "
        "checksums.",
    )
    refresh_ms: PositiveMs = Field(
        default=60_000,
        alias="refresh",
        description="How often the files of a table that SQL reads are listed again, such as "
        "another table of the lake that topics are joined with.",
    )
    close_windows: Literal["next_batch", "at_once"] = Field(
        default="next_batch",
        description="`at_once`: a window is closed by a batch of its own as soon as the watermark "
        "has passed it, one `batch.interval` sooner. That makes up to twice as many batches, with "
        "their files of state.",
    )


_OR_NONE = JsonForm({"const": "none"}, is_beside=True)


LABELS_MAX = 64
LABELS_FORM = JsonForm({**TEXT_MAP_FORM.node, "maxProperties": LABELS_MAX})


def _labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    if len(labels) > LABELS_MAX:
        raise ValueRefused("these are too many labels", f"write at most {LABELS_MAX}")
    for key, value in labels.items():
        try:
            check_label(key, value)
        except ValueError as error:
            raise ValueRefused(str(error), "write {team: payments}") from None
    return labels


class Job(Section):
    """A whole job file."""

    job: JobName = Field(
        description="The job's name. It names the landing log: a job with another name is "
        "another job.",
        examples=["clicks"],
    )
    labels: Annotated[
        TextMap, AfterValidator(_labels), Shown("mapping of text to text"), LABELS_FORM
    ] = Field(
        default=FrozenMap[str](),
        description="Labels by which a server's jobs are selected and roles are given, with the "
        "grammar of Kubernetes. They have no effect on what is written.",
        examples=["{team: payments, tier: test}"],
    )
    lake: Annotated[EnvText, AfterValidator(lake_uri), Shown("URI"), URI_FORM] = Field(
        description="The root of all tables: `file:///path`, `hdfs://nameservice/path`, "
        "`s3://bucket/path`, `gs://bucket/path`, "
        "`abfs://container@account.dfs.core.windows.net/path`, `az://container/path`. "
        "`${NAME}` is replaced from the environment.",
        examples=["file:///data/lake"],
    )
    hdfs: HdfsSection = Field(default=HdfsSection(), description="HDFS only: client settings.")
    s3: S3Section = Field(default=S3Section(), description="S3 only: client settings.")
    azure: AzureSection = Field(default=AzureSection(), description="Azure only: client settings.")
    gcs: GcsSection = Field(
        default=GcsSection(), description="Google's store only: client settings."
    )
    deadline_ms: PositiveMs = Field(
        default=60_000,
        alias="deadline",
        description="Timeout of a call to the lake; on HDFS for all NameNodes together. After a "
        "timeout the outcome is unknown, and Ashore checks it.",
    )
    source: SourceSection = Field(
        description="Where records come from.",
        examples=['{kafka: {bootstrap_servers: "127.0.0.1:9092"}}'],
    )
    tables: Annotated[tuple[Table, ...], SOME] = Field(
        description="Topics and their tables, and tables that SQL writes. `CREATE TABLE` in the "
        "SQL adds to them.",
        examples=[
            '[{topic: clicks, table: ods.clicks, schema: "id BIGINT, user STRING, ts BIGINT"}]'
        ],
    )
    sql: (
        Annotated[
            Sql,
            BeforeValidator(_sql),
            AfterValidator(_one_text),
            Shown("text or a mapping"),
            JsonForm({"type": "string"}, is_beside=True),
        ]
        | None
    ) = Field(default=None, description="Streaming SQL that writes the tables without a `topic`.")
    catalog: Annotated[
        CatalogSection, BeforeValidator(catalog_section), Shown("`none` or a mapping"), _OR_NONE
    ] = Field(default=CatalogSection(), description="Where table partitions are registered.")
    batch: Batch = Field(default=Batch(), description="Interval and size of batches.")
    health: Health = Field(
        default=Health(), description="When dead letters are a warning, and records without time."
    )
    limits: ReadLimitsSection = Field(
        default=ReadLimitsSection(),
        description="What is too large to be read of a topic that is landed. Of topics with "
        "`select` or `where` only records have a limit; views of SQL have none.",
        examples=["{record: 16MB, on_too_large: skip}"],
    )
    clean: Clean = Field(default=Clean(), description="When unreferenced files are deleted.")
    durability: Literal["close", "disk"] = Field(
        default="close",
        description="HDFS only. `close`: a closed file survives a process and a node; `disk`: "
        "also a power cut of the site. A local lake always syncs.",
    )
    commit_group: NonEmpty | None = Field(
        default=None,
        description="A Kafka consumer group that the next offsets are committed to, for tools that "
        "monitor lag. It is never read.",
        examples=["ashore-clicks"],
    )
    grace_ms: PositiveMs = Field(
        default=60_000,
        alias="grace",
        description="Maximum time to stop after SIGTERM. Unfinished writes are cancelled after "
        "half of it.",
    )
    patience_ms: PositiveMs = Field(
        default=300_000,
        alias="patience",
        description="Maximum time without a heartbeat of the job process, which sends one each "
        "second. After it `ashore run` kills the process with SIGKILL, since it is frozen or "
        "hangs.",
    )
    metrics: Annotated[Metrics, AfterValidator(has_a_place)] | None = Field(
        default=None,
        description="Export [metrics](metrics.md) to Prometheus.",
        examples=["{port: 9464}"],
    )
    requests: Literal["machine", "lake"] = Field(
        default="machine",
        description="Where the running job is asked to stop, or for a savepoint. `machine`: by "
        "files on its machine; `lake`: also by files in the lake, from any machine.",
    )
    reader: Literal["auto", "native", "python"] = Field(
        default="auto",
        description="Who reads and decodes records in the tasks. `native`: the module "
        "`ashore-native`, which is several times as fast. `python`: the libraries of Python. "
        "`auto`: `native` where the module is installed. The tables are the same, except "
        "[headers](../use/records.md#headers) with unusual keys.",
    )
    spark: Annotated[
        Spark | None, BeforeValidator(_spark), Shown("`none` or a mapping"), _OR_NONE
    ] = Field(
        default=Spark(),
        description="The Spark application. `none`: worker processes on this machine read and "
        "write, one per core, without Java; `select`, `where` and `sql` need Spark.",
    )

    _path: str = PrivateAttr("")
    _lines: Mapping[Key, int] = PrivateAttr(default_factory=dict)
    _sql: Scalar | None = PrivateAttr(None)

    @property
    def path(self) -> str:
        """The file that the job was read from."""
        return self._path

    @property
    def place_of_checkpoints(self) -> str:
        """Below which Spark keeps offsets and state: what `sql` names, or the lake."""
        named = self.sql.checkpoints if self.sql is not None else None
        return (named or self.lake).reveal()

    @property
    def spark_application(self) -> Spark:
        """The section `spark`. Requires: it is not `none`."""
        return self.spark or fail(f"job {self.job} runs without Spark")

    @property
    def digest(self) -> str:
        """SHA-256 of what the job says, defaults filled in, secrets and comments left out."""
        content = self.model_dump(mode="json", by_alias=True)
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()

    def read_from(self, path: str, lines: Mapping[Key, int], sql: Scalar | None) -> Self:
        """Note where the job was read from, for messages. Called once, by the loader.

        `sql`: how its SQL is written, if it is in the job file.
        """
        self._path, self._lines, self._sql = path, lines, sql
        return self

    @property
    def written_sql(self) -> WrittenText | None:
        """The SQL that stands in the job file itself; None where there is none."""
        text = self.sql.text if self.sql else None
        if text is None:
            return None
        return WrittenText(text, self.path, self._sql or Scalar("", self.line_of("sql"), 1))

    def line_of(self, *key: str | int) -> int:
        """Return the line of a key, as `"tables", 0, "topic"`; of its section if not written."""
        return line_of(self._lines, key)
