"""What each engine is told for SQL, beside what bench/peers/settings.py has for landing.

What it is: settings as data, used by the engines and printed beside the results.
What it promises: what is printed is what was set.
What it must not know: processes.
"""

from ashore.queries.spark.sql.settings import BY_FILE_SYSTEM
from bench.peers.settings import FLINK_CONF as FLINK_BASE
from bench.peers.settings import (
    FLINK_SINK,
    FLINK_SOURCE,
    JVM_HEAP,
    SPARK_SOURCE,
)
from bench.peers.settings import SPARK_CONF as SPARK_BASE
from bench.sql.order import CORES

_STORE = "spark.sql.streaming.stateStore"
SPARK_CONF = {
    **SPARK_BASE,
    "spark.sql.shuffle.partitions": str(CORES),
    "spark.sql.adaptive.enabled": "false",
    f"{_STORE}.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STORE}.rocksdb.changelogCheckpointing.enabled": "true",
    f"{_STORE}.rocksdb.trackTotalNumberOfRows": "false",
    **BY_FILE_SYSTEM,  # as in Ashore: no process is started for a rename
}
FLINK_CLUSTER = {
    "taskmanager.memory.managed.size": "512m",
    "taskmanager.memory.network.max": "256m",
}
FLINK_CONF = {
    **FLINK_BASE,
    # A job that ends waits for the next checkpoint: with ten seconds that is most of its time.
    "execution.checkpointing.interval": "2 s",
    "state.backend.type": "rocksdb",
    "execution.checkpointing.incremental": "true",
    "execution.checkpointing.storage": "filesystem",
    "execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION",
    "table.exec.mini-batch.enabled": "true",
    "table.exec.mini-batch.allow-latency": "500 ms",
    "table.exec.mini-batch.size": "5000",
}
FLINK_JSON = {"json.timestamp-format.standard": "ISO-8601"}
FLINK_TIMES = {
    "parquet.write.int64.timestamp": "true",
    "parquet.timestamp.time.unit": "micros",
    "parquet.utc-timezone": "true",
}
ASHORE_BATCH = {"max_records": 1_000_000, "max_bytes": "8GB"}
ASHORE_SQL = {"state_partitions": CORES}
# What is not here is a default.
SETTINGS = (
    ("Ashore", {**ASHORE_BATCH, **ASHORE_SQL}),
    ("Spark", {**SPARK_CONF, **SPARK_SOURCE}),
    ("Flink", {**FLINK_CONF, **FLINK_CLUSTER, "-Xmx": JVM_HEAP}),
    ("Flink", {**FLINK_SOURCE, **FLINK_SINK, **FLINK_JSON, **FLINK_TIMES}),
)
REMARKS = """\
- Spark reads a backlog as one batch, which its state must hold. Ashore reads a million records in a
  batch, all streams of a query together. Flink takes a checkpoint each two seconds, since a job
  waits for one at its end.
- All have a state partition or a slot for each core, and keep changes of state, not copies of it,
  with each checkpoint. None counts the rows of its state. Flink's mini-batches are on.
- `ashore warm-up` was run before, as the guide to deployment advises: a start loads Spark's classes
  from an archive.
- Spark's real-time mode cannot write these tables: in Spark 4.2 its sinks are Kafka, foreach and
  the console, and it has no operator with state, no shuffle and no watermark.
- Settings for Kafka and Parquet are those of `make bench-peers`, which names their documents.
"""
