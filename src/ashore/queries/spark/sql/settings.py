"""How the state of a query is cut, written and kept: formulas, and the settings of Spark.

What it is: `tune`, from the batches that were measured, the cores and the job file to four numbers,
and `state_settings`, all settings that state rests on.
What it promises: state in RocksDB with a changelog, so that a batch writes what it has changed and
not all that there is; the memory of all its stores together is bounded, however many they are. What
Spark does not keep in a checkpoint is fixed here: with another `checkpointFormatVersion` it could
not read its own. Without measured batches the numbers are safe ones, not good ones.

Now and then Spark writes a snapshot: the store as a whole, which its maintenance uploads. A restart
loads a snapshot and replays the changelogs after it.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import SparkSession

from ashore.errors import JobFileInvalid
from ashore.queries.state.checkpoint import STATE_FORMAT
from ashore.queries.state.layout import PARTITIONS, PROVIDER
from ashore.queries.state.replay import replay_s

MAINTENANCE_S = 60  # how often Spark uploads snapshots and deletes what is too old
UNMEASURED_BATCHES = 10  # between two snapshots of a store, before anything was measured
# Where a snapshot is damaged Spark uses the one before, if it is 500 batches away at most.
SNAPSHOT_BATCHES_MAX = 250
# What costs what was measured by `bench/checkpoints`, on two cores beside one DataNode, with 0.1 to
# 5 million keys; the spread is wide, and a network is slower.
REPLAY_S = 10  # what a restart may take longer because of changelogs
UPLOAD_S = 1.0  # of a snapshot to HDFS: 0.1, and ten times that for three replicas and a network
INTERVAL_MIN_S = 0.5  # no batch with state is done sooner
KEPT_BATCHES_MIN = 10
KEPT_FILES_MAX = 20_000  # of one query, all its files: for its NameNode's sake, or its inodes'
TEXTS = 2  # that each batch adds beside its changelogs: in `offsets` and in `commits`
EXTRA = 1.3  # Spark deletes what is too old once there are this many times as many batches
TASK_S = 0.05  # what one more partition adds to a batch, on one core: 0.03 to 0.07
TASK_SHARE = 0.1  # of the time between two batches that this may take
GROWTH = 4  # this many times the cores of the first start can be used later
PARTITIONS_MIN, PARTITIONS_MAX = 16, 1024

_STREAMING = "spark.sql.streaming."
_STORE = f"{_STREAMING}stateStore."
FORMAT = f"{_STORE}checkpointFormatVersion"
CHANGELOG = f"{_STORE}rocksdb.changelogCheckpointing.enabled"
ROW_COUNT = f"{_STORE}rocksdb.trackTotalNumberOfRows"
BOUNDED_MEMORY = f"{_STORE}rocksdb.boundedMemoryUsage"
MAINTENANCE_INTERVAL = f"{_STORE}maintenanceInterval"
ROCKSDB = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
JOIN_FORMAT = f"{_STREAMING}join.stateFormatVersion"
STATE = {
    PROVIDER: ROCKSDB,
    CHANGELOG: "true",
    # A changelog needs no flush, so that a store keeps in memory what came since its last snapshot.
    BOUNDED_MEMORY: "true",
    # To count its rows, a store looks each key up before it writes it: two fifths of what a join
    # spends on its state. Without, `status` shows bytes alone, and snapshots do not say how many.
    ROW_COUNT: "false",
    MAINTENANCE_INTERVAL: f"{MAINTENANCE_S}s",
    FORMAT: str(STATE_FORMAT),
    # One store a partition instead of four. A checkpoint notes which it has, and keeps it.
    JOIN_FORMAT: "3",
}
# On a local disk Hadoop's FileContext, which Spark prefers, starts a `readlink` process for each
# rename: 0.2 s of a batch. FileSystem renames without, by the same call of the kernel; neither is
# exclusive there, and nothing rests on it: the log fences drivers. A bucket has no FileContext.
# HDFS keeps the default.
BY_FILE_SYSTEM = {
    f"{_STREAMING}checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    )
}
# What SQL cannot compute is NULL: a cast, a division by zero; an overflow of integers wraps.
NULL_FOR_ERRORS = {"spark.sql.ansi.enabled": "false"}
SNAPSHOT_BATCHES = f"{_STORE}minDeltasForSnapshot"
KEPT_BATCHES = f"{_STREAMING}minBatchesToRetain"
MAINTENANCE_THREADS = f"{_STORE}numStateStoreMaintenanceThreads"


@dataclass(frozen=True, slots=True)
class Batches:
    """What the last batches of a query were like, all its stores together."""

    interval_s: float  # from the start of one to the start of the next
    changelog_bytes: float  # of one batch
    snapshot_bytes: float  # what a snapshot adds to the checkpoint; 0 where there was none
    stores: int  # partitions, times the stores that each has


@dataclass(frozen=True, slots=True)
class TuningGoals:
    """What the job file says, and what it runs on."""

    interval_s: float
    keep_s: float  # how far back the state can be taken
    cores: int
    partitions: int | None = None  # of the state; without: by formula
    is_local: bool = False  # the checkpoint is on a local disk


@dataclass(frozen=True, slots=True)
class Tuning:
    """What follows for the state of a query."""

    partitions: int
    snapshot_batches: int
    kept_batches: int
    maintenance_threads: int


def tune(goals: TuningGoals, batches: Batches | None) -> Tuning:
    """Return how the state of a query is treated from its next start on.

    `batches` are those of its checkpoint; none before the first start.
    """
    partitions = goals.partitions or plan_partitions(goals.cores, goals.interval_s)
    interval_s = max(batches.interval_s if batches else 0, goals.interval_s, INTERVAL_MIN_S)
    stores = batches.stores if batches else partitions
    snapshots = plan_snapshots(interval_s, batches, goals.cores)
    files_each = 2 if goals.is_local else 1  # Hadoop keeps a checksum beside each file of a disk
    most = most_kept((stores + TEXTS) * files_each, snapshots)
    kept = plan_kept(interval_s, goals.keep_s, most)
    return Tuning(partitions, snapshots, kept, plan_threads(stores))


def plan_partitions(cores: int, interval_s: float) -> int:
    """Return into how many partitions a new state is cut: a power of two.

    As many as a tenth of the cores' time can serve; enough for four times the cores in any case,
    so that a job which grows needs no other number.
    """
    served = math.floor(interval_s * cores * TASK_SHARE / TASK_S)
    least = max(PARTITIONS_MIN, GROWTH * cores)
    power = max((least - 1).bit_length(), served.bit_length() - 1)
    return min(1 << power, PARTITIONS_MAX)


def plan_snapshots(interval_s: float, batches: Batches | None, cores: int) -> int:
    """Return how many batches lie between two snapshots of a store.

    Their changelogs are about as large as the snapshot: then snapshots at most double what
    is written. Not more than a restart can replay in time; and not fewer than there are from one
    maintenance to the next, since a snapshot that the next one overtakes is written in vain.
    """
    least = max(2, math.ceil(MAINTENANCE_S / interval_s))
    batches_each = UNMEASURED_BATCHES
    if batches is not None and batches.changelog_bytes > 0 and batches.snapshot_bytes > 0:
        most = math.floor(REPLAY_S * cores / replay_s(batches.changelog_bytes, batches.stores))
        batches_each = min(math.ceil(batches.snapshot_bytes / batches.changelog_bytes), most)
    return min(max(batches_each, least), SNAPSHOT_BATCHES_MAX)


def plan_kept(interval_s: float, keep_s: float, most: int) -> int:
    """Return how many batches the state can be rolled back: those of `keep_s`, or `most`."""
    return max(min(math.ceil(keep_s / interval_s), most), KEPT_BATCHES_MIN)


def most_kept(files: int, snapshot_batches: int) -> int:
    """Return how many batches a checkpoint can keep in KEPT_FILES_MAX files.

    Beside them are those that Spark has not deleted yet, and those from the snapshot that the
    oldest kept batch is restored from.

    `files`: that a batch adds. `snapshot_batches`: from one snapshot of a store to the next.
    """
    return math.floor((KEPT_FILES_MAX / files - snapshot_batches) / EXTRA)


def plan_threads(stores: int) -> int:
    """Return by how many threads an executor uploads snapshots.

    As few as are done in half of the time until the next round: all partitions make their
    snapshots in the same batch, and what is uploaded one after the other is no spike.
    """
    return math.ceil(stores * UPLOAD_S / (MAINTENANCE_S / 2))


def state_settings(
    tuning: Tuning, conf: Mapping[str, str], *, is_hdfs: bool = True
) -> dict[str, str]:
    """Return the settings of a query. What the job file sets itself stays.

    `is_hdfs`: the checkpoint is there, not on a local disk or in a bucket.

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
        **({} if is_hdfs else BY_FILE_SYSTEM),
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
