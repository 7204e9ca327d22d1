"""What each peer is told, and which document advises it.

What it is: settings as data, used by the peers and printed beside the results.
What it promises: what is printed is what was set: the peers read these very values.
What it must not know: processes.
"""

from typing import NamedTuple


class Setting(NamedTuple):
    """One setting, with why it is so."""

    peer: str
    name: str
    value: str
    why: str
    document: str


_SPARK_GUIDE = "Apache Spark documentation: Structured Streaming Programming Guide"
_SPARK_KAFKA = "Apache Spark documentation: Structured Streaming + Kafka Integration Guide"
_SPARK_TUNING = "Apache Spark documentation: Tuning Spark"
_PARQUET_SPARK = "Apache Spark documentation: Parquet Files, Configuration"
_PARQUET_JAVA = "Apache Parquet Java: parquet-hadoop README, properties"
_KAFKA_CONSUMER = "Apache Kafka documentation: Consumer Configs"
_FLINK_KAFKA = "Apache Flink documentation: Apache Kafka SQL Connector"
_FLINK_FILES = "Apache Flink documentation: FileSystem SQL Connector"
_FLINK_EXECUTION = "Apache Flink documentation: Execution Configuration"
_FLINK_CONFIG = "Apache Flink documentation: Configuration"
_FLINK_CHECKPOINTS = "Apache Flink documentation: Checkpointing"
_FLINK_PARQUET = "Apache Flink documentation: Parquet Format"
_CONNECT_WORKER = "Apache Kafka documentation: Kafka Connect, Worker Configs"
_ICEBERG_CONNECT = "Apache Iceberg documentation: Kafka Connect"
_ICEBERG_TABLES = "Apache Iceberg documentation: Configuration, Write properties"
_DELTA = "Delta Lake documentation: Set up Apache Spark with Delta Lake"
_ASHORE_JOB = "Ashore: docs/reference/job-file.md"

JVM_HEAP = "2g"  # of Spark and of Flink; Ashore's own default is 1g
ZSTD_LEVEL = "3"
POLL_RECORDS = "10000"  # the client's own is 500
CHECKPOINT_INTERVAL_S = 10

_SPARK = (
    Setting(
        "spark",
        "spark.driver.memory",
        JVM_HEAP,
        "room for the collector: with less it runs more often",
        f"{_SPARK_TUNING}, Memory Tuning",
    ),
    Setting(
        "spark",
        "spark.sql.parquet.compression.codec",
        "zstd",
        "the same compression for all",
        _PARQUET_SPARK,
    ),
    Setting(
        "spark",
        "spark.hadoop.parquet.compression.codec.zstd.level",
        ZSTD_LEVEL,
        "the same level for all",
        _PARQUET_JAVA,
    ),
    Setting(
        "spark",
        "spark.sql.streaming.metricsEnabled",
        "false",
        "no report that nobody reads",
        f"{_SPARK_GUIDE}, Monitoring Streaming Queries",
    ),
)
SPARK_CONF = {each.name: each.value for each in _SPARK}

_SPARK_SOURCE_SETTINGS = (
    Setting("spark", "startingOffsets", "earliest", "the whole topic", _SPARK_KAFKA),
    Setting(
        "spark",
        "kafka.fetch.max.wait.ms",
        "10",
        "at the end of a partition no fetch waits half a second for records to come",
        _KAFKA_CONSUMER,
    ),
    Setting(
        "spark",
        "kafka.max.poll.records",
        POLL_RECORDS,
        "fewer, larger polls: in trials the better choice",
        _KAFKA_CONSUMER,
    ),
)
SPARK_SOURCE = {each.name: each.value for each in _SPARK_SOURCE_SETTINGS}

_FLINK_CONF_SETTINGS = (
    Setting(
        "flink",
        "parallelism.default",
        "2",
        "one slot a core",
        f"{_FLINK_CONFIG}, Basic Setup",
    ),
    Setting(
        "flink",
        "pipeline.object-reuse",
        "true",
        "no copies between chained operators",
        _FLINK_EXECUTION,
    ),
    Setting(
        "flink",
        "execution.checkpointing.interval",
        f"{CHECKPOINT_INTERVAL_S} s",
        "files are final at checkpoints; the rhythm that Ashore has by default",
        _FLINK_CHECKPOINTS,
    ),
    Setting(
        "flink",
        "execution.checkpointing.mode",
        "EXACTLY_ONCE",
        "what is compared is exactly-once",
        _FLINK_CHECKPOINTS,
    ),
)
FLINK_CONF = {each.name: each.value for each in _FLINK_CONF_SETTINGS}

_FLINK_SOURCE_SETTINGS = (
    Setting(
        "flink",
        "scan.startup.mode",
        "earliest-offset",
        "the whole topic",
        f"{_FLINK_KAFKA}, Start Reading Position",
    ),
    Setting(
        "flink",
        "properties.max.poll.records",
        POLL_RECORDS,
        "fewer, larger polls: in trials the better choice",
        _KAFKA_CONSUMER,
    ),
)
FLINK_SOURCE = {each.name: each.value for each in _FLINK_SOURCE_SETTINGS}

_FLINK_SINK_SETTINGS = (
    Setting("flink", "parquet.compression", "ZSTD", "the same compression for all", _FLINK_PARQUET),
    Setting(
        "flink",
        "parquet.compression.codec.zstd.level",
        ZSTD_LEVEL,
        "the same level for all",
        _PARQUET_JAVA,
    ),
    Setting(
        "flink",
        "sink.rolling-policy.file-size",
        "256MB",
        "files are as large as Ashore's; none is rolled for its size here",
        f"{_FLINK_FILES}, Rolling Policy",
    ),
)
FLINK_SINK = {each.name: each.value for each in _FLINK_SINK_SETTINGS}
_FLINK_REST = (
    Setting(
        "flink",
        "scan.bounded.mode",
        "latest-offset",
        "read to the end of the topic, then end with a last checkpoint (not when it streams)",
        f"{_FLINK_KAFKA}, Bounded Ending Position",
    ),
    Setting(
        "flink",
        "-Xmx",
        JVM_HEAP,
        "job manager and task manager in one virtual machine, as Spark's local mode",
        f"{_FLINK_CONFIG}, Memory Configuration",
    ),
)

_SPARK_DELTA_SETTINGS = (
    Setting(
        "spark-delta",
        "spark.sql.extensions",
        "io.delta.sql.DeltaSparkSessionExtension",
        "Delta's sink",
        _DELTA,
    ),
    Setting(
        "spark-delta",
        "spark.sql.catalog.spark_catalog",
        "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "Delta's sink",
        _DELTA,
    ),
)
SPARK_DELTA = {each.name: each.value for each in _SPARK_DELTA_SETTINGS}

_CONNECT_WORKER_SETTINGS = (
    Setting(
        "connect-iceberg",
        "key.converter",
        "org.apache.kafka.connect.converters.ByteArrayConverter",
        "no record has a key",
        _CONNECT_WORKER,
    ),
    Setting(
        "connect-iceberg",
        "value.converter",
        "org.apache.kafka.connect.json.JsonConverter",
        "the records are JSON",
        _CONNECT_WORKER,
    ),
    Setting(
        "connect-iceberg",
        "value.converter.schemas.enable",
        "false",
        "the table has the columns",
        _CONNECT_WORKER,
    ),
    Setting(
        "connect-iceberg",
        "offset.flush.interval.ms",
        "1000",
        "so often a task without records takes part in commits; the default is a minute",
        _CONNECT_WORKER,
    ),
)
CONNECT_WORKER = {each.name: each.value for each in _CONNECT_WORKER_SETTINGS}
_CONNECT_SINK_SETTINGS = (
    Setting(
        "connect-iceberg",
        "consumer.override.auto.offset.reset",
        "earliest",
        "the whole topic",
        _KAFKA_CONSUMER,
    ),
    Setting(
        "connect-iceberg",
        "consumer.override.max.poll.records",
        POLL_RECORDS,
        "fewer, larger polls: in trials the better choice",
        _KAFKA_CONSUMER,
    ),
    Setting(
        "connect-iceberg",
        "iceberg.tables.write-props.write.parquet.compression-codec",
        "zstd",
        "the same compression for all",
        _ICEBERG_TABLES,
    ),
    Setting(
        "connect-iceberg",
        "iceberg.tables.write-props.write.parquet.compression-level",
        ZSTD_LEVEL,
        "the same level for all",
        _ICEBERG_TABLES,
    ),
)
CONNECT_SINK = {each.name: each.value for each in _CONNECT_SINK_SETTINGS}
_CONNECT_REST = (
    Setting(
        "connect-iceberg",
        "iceberg.control.commit.interval-ms",
        f"{CHECKPOINT_INTERVAL_S * 1000}",
        "the rhythm of all (1000 when it streams)",
        _ICEBERG_CONNECT,
    ),
    Setting("connect-iceberg", "tasks.max", "2", "a task a core", _ICEBERG_CONNECT),
    Setting(
        "connect-iceberg",
        "records",
        "4 times as many",
        "it never ends, and its last commit waits for the interval: the rate is the best one from "
        "the start until a commit",
        "Ashore: bench/peers/connect_peer.py",
    ),
    Setting(
        "connect-iceberg",
        "-Xmx",
        JVM_HEAP,
        "as Spark and Flink",
        _CONNECT_WORKER,
    ),
)

_ALONE = Setting(
    "ashore-alone", "spark", "none", "worker processes of its own, no Java", _ASHORE_JOB
)
ASHORE_BATCH = {"max_records": 20_000_000, "max_bytes": "8GB"}
_ASHORE = tuple(
    Setting("ashore", f"batch.{name}", str(value), "one batch, as Spark's", _ASHORE_JOB)
    for name, value in ASHORE_BATCH.items()
)
_SPARK_REST = (
    Setting(
        "spark",
        "Trigger.AvailableNow",
        "",
        "everything that is there, without a limit a batch: one batch, eight tasks "
        "(a processing time of one second when it streams)",
        f"{_SPARK_GUIDE}, Triggers",
    ),
)

SETTINGS = (
    *_ASHORE,
    _ALONE,
    *_SPARK,
    *_SPARK_SOURCE_SETTINGS,
    *_SPARK_REST,
    *_FLINK_CONF_SETTINGS,
    *_FLINK_SOURCE_SETTINGS,
    *_FLINK_SINK_SETTINGS,
    *_FLINK_REST,
)
LAKEHOUSE_SETTINGS = (
    *_SPARK_DELTA_SETTINGS,
    *_CONNECT_WORKER_SETTINGS,
    *_CONNECT_SINK_SETTINGS,
    *_CONNECT_REST,
)
