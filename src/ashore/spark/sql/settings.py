"""Settings of Spark that the state of a query rests on.

What it promises: state in RocksDB with a changelog, so that a batch writes what it has changed and
not all that there is. What Spark does not keep in a checkpoint is fixed here: with another
`checkpointFormatVersion` it could not read its own.
What it must not know: jobs.
"""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from ashore.errors import JobFileInvalid

_STREAMING = "spark.sql.streaming."
FORMAT = f"{_STREAMING}stateStore.checkpointFormatVersion"
STATE = {
    f"{_STREAMING}stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    f"{_STREAMING}stateStore.rocksdb.changelogCheckpointing.enabled": "true",
    FORMAT: "1",
}
PARTITIONS = "spark.sql.shuffle.partitions"


def state_settings(partitions: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of a job's queries. What the job file sets itself stays.

    Raises JobFileInvalid where it sets what Spark does not keep in a checkpoint.
    """
    if given.get(FORMAT, STATE[FORMAT]) != STATE[FORMAT]:
        raise JobFileInvalid(
            f"spark.conf sets {FORMAT}, which Ashore sets itself: with another one Spark could "
            "not read a checkpoint that was begun",
            hint="remove it from the job file",
        )
    settings = {**STATE, PARTITIONS: str(partitions)}
    return {name: given.get(name, value) for name, value in settings.items()}


def open_session(spark: SparkSession, settings: Mapping[str, str]) -> SparkSession:
    """Return a session with views and settings of its own, on the same executors."""
    session = spark.newSession()
    for name, value in settings.items():
        session.conf.set(name, value)
    return session
