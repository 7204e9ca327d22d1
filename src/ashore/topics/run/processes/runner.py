"""A job over processes of this machine: each reads its splits from Kafka and writes files.

What it is: `ProcessRunner`, step 2, and `LocalJob`, what `ashore.queries.spark.sql.assembly` is for
Spark.
What it promises: a task that fails fails its batch, whose files no reader sees; the next try
has workers of its own. Nothing is asked of Spark or Java.
"""

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

from ashore.base.clock import Clock
from ashore.errors import (
    AshoreError,
    BatchFailed,
    InvariantBroken,
    OffsetsGone,
    Stopped,
    StorageError,
    SyncFailed,
    TooManyFiles,
    WorkerCrashed,
    fail,
)
from ashore.jobs.file import Job
from ashore.log.plan_batch import BatchPlan
from ashore.log.progress import Progress
from ashore.storage.open import LakeAddress
from ashore.topics.loop.assembly import JobAssembly, kafka_address, opened_environment
from ashore.topics.loop.job_loop import JobLoop
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.loop.splits import plan_splits
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.processes.pool import WorkerDied, WorkerPool
from ashore.topics.run.processes.task import Task, land_split, probe, work
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.environment import TASK_ENVIRONMENT

_HINT = "nothing was prepared; the batch is retried"


class ProcessRunner:
    """The BatchRunner of one slice. `run` by the slice's thread, `cancel` by any."""

    def __init__(self, kafka: KafkaAddress, lake: LakeAddress, size: int) -> None:
        self._kafka = kafka
        self._lake = lake
        for name, value in TASK_ENVIRONMENT.items():
            os.environ.setdefault(name, value)  # workers get what their parent has
        self._pool: WorkerPool[Task, TaskResult | None] = WorkerPool(work, size)

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """See BatchRunner. Requires: no table of the plan has `select` or `where`."""
        splits = plan_splits(plan, dict(order.tables))
        tasks = [
            partial(land_split, order, self._kafka, task, each) for task, each in enumerate(splits)
        ]
        try:
            return [_landed(each) for each in self._pool.map(tasks)]
        except OffsetsGone as error:
            # Retention overtook the reading. The next plan sees the gap, and knows what to do.
            raise _failed(order, error.message) from error
        except (Stopped, InvariantBroken, SyncFailed, TooManyFiles):
            raise
        except WorkerDied as error:
            made = _crashed if _is_crash(error.exit_code) else _failed
            raise made(order, str(error)) from error
        except AshoreError as error:
            raise _failed(order, error.message) from error
        except Exception as error:
            raise _failed(order, str(error) or repr(error)) from error

    def probe(self, files: Mapping[str, bytes]) -> None:
        """See BatchRunner. Raises StorageError, BatchFailed."""
        try:
            self._pool.map([partial(probe, self._lake, files)])
        except StorageError as error:
            raise StorageError(
                f"a task cannot write to the lake: {error.message}",
                hint=error.hint or "check the address of the lake and the permissions of this user",
            ) from error
        except WorkerDied as error:
            raise BatchFailed(f"the probe failed: {error}") from error

    def cancel(self) -> None:
        """See BatchRunner."""
        self._pool.kill()

    def close(self) -> None:
        """End the workers."""
        self._pool.close()


def count_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class LocalJob:
    """A job with everything that it works with. See RunnableJob."""

    assembly: JobAssembly
    runner: ProcessRunner

    def slice(self) -> SliceLoop:
        """See RunnableJob."""
        return self.assembly.slice(self.runner, count_cores())

    def loop(self, *, until_drained: bool) -> JobLoop:
        """See RunnableJob."""
        return self.assembly.loop([self.slice()], until_drained=until_drained)


@contextmanager
def assembled(
    job: Job, progress: Progress, clock: Clock, accepted_by: str = ""
) -> Iterator[LocalJob]:
    """Bring job, lake, Kafka and catalog together. Nothing is read or written yet.

    `accepted_by`: see Environment.
    """
    with opened_environment(job, progress, clock, accepted_by) as environment:
        address = kafka_address(job)
        runner = ProcessRunner(address, environment.lake, count_cores())
        try:
            yield LocalJob(JobAssembly(job, environment), runner)
        finally:
            runner.close()


def _landed(result: TaskResult | None) -> TaskResult:
    return result or fail("a split ends without a result")


def _is_crash(exit_code: int | None) -> bool:
    """Return whether a record may have ended a worker: a signal, which is not sent from outside.

    Without its fork server a worker has exit code 255, however it ended.
    """
    return exit_code is not None and exit_code < 0 and exit_code != -signal.SIGKILL


def _crashed(order: BatchOrder, why: str) -> WorkerCrashed:
    return WorkerCrashed(f"batch {order.batch} failed: {why}", hint=_HINT)


def _failed(order: BatchOrder, why: str) -> BatchFailed:
    return BatchFailed(f"batch {order.batch} failed: {why}", hint=_HINT)
