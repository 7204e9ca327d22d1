"""Many jobs at once, for one table.

What it is: `read_fleet`, the status of each job file, read side by side.
What it promises: a job that cannot be read is a row that says so, and keeps no other from being
read; jobs of one Kafka cluster share a client.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ashore.errors import AshoreError
from ashore.jobs.heartbeat import read_heartbeat
from ashore.proof.status.health import Ailment, Allowed, check_health
from ashore.proof.status.status import JobStatus, read_status
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.read.base import Source

AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class FleetRow:
    """A job of the fleet: its status, or why it could not be read; what is wrong with it."""

    name: str  # of the job file
    status: JobStatus | None
    ailments: tuple[Ailment, ...]
    error: AshoreError | None


def read_job(opened: OpenJob, allowed: Allowed | None) -> tuple[JobStatus, tuple[Ailment, ...]]:
    """Return where a job stands, and what is wrong with it where `allowed` is given."""
    beat = read_heartbeat(opened.job.job, str(opened.job.lake))
    status = read_status(opened, beat)
    return status, () if allowed is None else check_health(opened, status, allowed)


def read_fleet(job_files: Sequence[Path], allowed: Allowed | None) -> list[FleetRow]:
    """Return a row for each job file, in their order."""
    sources: dict[tuple[str, str], Source] = {}
    with ExitStack() as stack, ThreadPoolExecutor(AT_ONCE, "ashore-fleet") as pool:
        tasks: list[Callable[[], FleetRow]] = []
        for path in job_files:
            try:
                opened = stack.enter_context(open_job(path))
            except AshoreError as error:
                tasks.append(partial(FleetRow, path.stem, None, (), error))
                continue
            kafka = opened.job.source.kafka
            key = (str(kafka.bootstrap_servers), str(sorted(dict(kafka.options).items())))
            shared = OpenJob(
                opened.job, opened.storage, sources.setdefault(key, opened.source), opened.clock
            )
            tasks.append(partial(_read, path.stem, shared, allowed))
        return list(pool.map(lambda task: task(), tasks))


def _read(name: str, opened: OpenJob, allowed: Allowed | None) -> FleetRow:
    try:
        status, ailments = read_job(opened, allowed)
    except AshoreError as error:
        return FleetRow(name, None, (), error)
    return FleetRow(name, status, ailments, None)
