"""Settings of Spark that the state of a query rests on.

What it promises: state in RocksDB with a changelog, so that a batch writes what it has changed and
not all that there is; the memory of all its stores together is bounded, however many they are. What
Spark does not keep in a checkpoint is fixed here: with another `checkpointFormatVersion` it could
not read its own.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from ashore.errors import JobFileInvalid
from ashore.queries.spark.sql.tuning import MAINTENANCE_S, Tuning
from ashore.queries.state.checkpoint import STATE_FORMAT
from ashore.queries.state.layout import PARTITIONS, PROVIDER

_STREAMING = "spark.sql.streaming."
_STORE = f"{_STREAMING}stateStore."
FORMAT = f"{_STORE}checkpointFormatVersion"
CHANGELOG = f"{_STORE}rocksdb.changelogCheckpointing.enabled"
BOUNDED_MEMORY = f"{_STORE}rocksdb.boundedMemoryUsage"
MAINTENANCE_INTERVAL = f"{_STORE}maintenanceInterval"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
JOIN_FORMAT = f"{_STREAMING}join.stateFormatVersion"
STATE = {
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # A changelog needs no flush, so that a store keeps in memory what came since its last snapshot.
    BOUNDED_MEMORY: "true",
    MAINTENANCE_INTERVAL: f"{MAINTENANCE_S}s",
    FORMAT: str(STATE_FORMAT),
    # One store a partition instead of four. A checkpoint notes which it has, and keeps it.
    JOIN_FORMAT: "3",
}
# What SQL cannot compute is NULL: a cast, a division by zero; an overflow of integers wraps.
NULL_FOR_ERRORS = {"spark.sql.ansi.enabled": "false"}
SNAPSHOT_BATCHES = f"{_STORE}minDeltasForSnapshot"
KEPT_BATCHES = f"{_STREAMING}minBatchesToRetain"
MAINTENANCE_THREADS = f"{_STORE}numStateStoreMaintenanceThreads"


def state_settings(tuning: Tuning, conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a query. What the job file sets itself stays.

    Raises JobFileInvalid where it sets what Spark does not keep in a checkpoint.
    """
    if conf.get(FORMAT, STATE[FORMAT]) != STATE[FORMAT]:
        raise JobFileInvalid(
            f"spark.conf sets {FORMAT}, which Ashore sets itself: with another value Spark could "
            "not read existing checkpoints",
            hint="remove it from the job file",
        )
    settings = {
        **STATE,
        PARTITIONS: str(tuning.partitions),
        SNAPSHOT_BATCHES: str(tuning.snapshot_batches),
        KEPT_BATCHES: str(tuning.kept_batches),
        MAINTENANCE_THREADS: str(tuning.maintenance_threads),
    }
    if conf.get(PROVIDER, ROCKSDB) != ROCKSDB:
        del settings[JOIN_FORMAT]  # only RocksDB has it
    return {name: conf.get(name, value) for name, value in settings.items()}


def open_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a session with views and settings of its own, on the same executors."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session
