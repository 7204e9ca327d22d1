"""The settings of a query: from the job file, the cores, and what its checkpoint tells.

What it promises: state that is there keeps the number of partitions that it was begun with, unless
the job file names one; reads only.
What it must not know: Spark.
"""

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.checkpoints.layout import PARTITIONS
from ashore.config import Job
from ashore.errors import CheckpointUnfit, check
from ashore.spark.sql.measured import read_batches, read_partitions
from ashore.spark.sql.settings import state_settings
from ashore.spark.sql.tuning import Wanted, tune


def query_settings(job: Job, cores: int, checkpoint: Checkpoint | None = None) -> dict[str, str]:
    """Return the settings of an INSERT; without a checkpoint those of a first start.

    Raises JobFileInvalid, StorageError; CheckpointUnfit where the job file names another number
    of partitions than the state has.
    """
    check(job.sql is not None, "the job has SQL")
    partitions = job.sql.state_partitions if job.sql else None
    keep_ms = job.sql.keep_ms if job.sql else 0
    there = read_partitions(checkpoint) if checkpoint is not None else None
    interval_s, keep_s = job.batch.interval_ms / 1000, keep_ms / 1000
    wanted = Wanted(interval_s, keep_s, cores, partitions or there, _files_each(job))
    batches = read_batches(checkpoint) if checkpoint is not None else None
    settings = state_settings(tune(wanted, batches), job.spark_application.conf)
    if checkpoint is not None and there is not None and settings[PARTITIONS] != str(there):
        _refuse_other_partitions(checkpoint, there, settings[PARTITIONS])
    return settings


def _files_each(job: Job) -> int:
    """Return how many files are on disk for each of a checkpoint: Hadoop adds checksums to some."""
    place = job.sql.checkpoints if job.sql and job.sql.checkpoints else job.lake
    return 2 if place.reveal().startswith("file:") else 1


def _refuse_other_partitions(checkpoint: Checkpoint, there: int, wanted: str) -> None:
    """Refuse another number for state that is there: Spark would go on with the old one."""
    if checkpoint.has_state():
        raise CheckpointUnfit(
            f"{checkpoint.uri}: the state has {there} partitions, but the job file has {wanted}",
            hint=f"write `state_partitions: {there}`, or remove the key; to change the number, "
            f"stop the job and run `ashore checkpoint rescale JOB.yaml --partitions {wanted}`",
            why="other_partitions",
        )
