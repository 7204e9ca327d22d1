"""The job process without Spark: `python -m ashore.topics.run.processes.main run JOB.yaml`.

What it is: processes of this machine as the engine of a job process.
What it promises: see `ashore.topics.loop.process`.
"""

import sys
from contextlib import AbstractContextManager

from ashore.base.clock import Clock
from ashore.jobs.file import Job
from ashore.jobs.writer import EventWriter
from ashore.topics.loop.process import run_process
from ashore.topics.run.processes.runner import LocalJob, assembled


class LocalEngine:
    """See Engine. Workers are started by the first batch, in a moment."""

    def start(self, job: Job) -> None:
        """See Engine."""

    def warm(self) -> None:
        """See Engine."""

    def assemble(
        self, job: Job, events: EventWriter, clock: Clock, accepted_by: str
    ) -> AbstractContextManager[LocalJob]:
        """See Engine."""
        return assembled(job, events, clock, accepted_by)

    def stop(self) -> None:
        """See Engine."""


def main(arguments: list[str] | None = None) -> int:
    """Run the job process and return its exit code."""
    return run_process(
        "ashore.topics.run.processes.main", arguments, lambda _options: LocalEngine(), {}
    )


if __name__ == "__main__":
    sys.exit(main())
