"""A job over processes of this machine.

What it is: `LocalJob`, what `ashore.queries.spark.sql.assembly` is for Spark.
What it promises: connections and processes are released at the end.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.jobs.file import Job
from ashore.log.progress import Progress
from ashore.topics.loop.assembly import JobAssembly, kafka_address, opened_environment
from ashore.topics.loop.job_loop import JobLoop
from ashore.topics.loop.slice_loop import SliceLoop
from ashore.topics.run.processes.runner import ProcessRunner


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
