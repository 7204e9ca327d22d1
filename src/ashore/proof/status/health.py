"""`status --check`: whether a job is as it should be, as an exit code; and many jobs at once.

What it is: `check_health`, which compares a status, and a log, with the allowed limits;
`read_fleet`, the status of each job file, read side by side.
What it promises: reads only. What could not be looked at is reported as that, never as health; a
job that cannot be read is a row that says so. Jobs of one Kafka cluster share a client.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from ashore.base.units import format_duration
from ashore.errors import AshoreError, ExitCode, worst_code
from ashore.jobs.heartbeat import read_heartbeat
from ashore.jobs.state import JobState
from ashore.log.store.dead_job import find_gone
from ashore.log.store.reader import find_missing
from ashore.proof.status.status import JobStatus, read_status
from ashore.topics.open_job import OpenJob, open_job
from ashore.topics.read.source import Source
from ashore.topics.use.recover import plan_recover

HEALTHY, UNHEALTHY = ExitCode.DONE, ExitCode.FAILED
DECIDE, UNKNOWN = ExitCode.DECISION, ExitCode.UNPROVEN
ANSWERS = {HEALTHY: "healthy", UNHEALTHY: "unhealthy", DECIDE: "needs decision", UNKNOWN: "unknown"}
BAD_STATES = (JobState.STUCK, JobState.FAILED, JobState.NEVER_STARTED)
DECISIONS = ("gap", "replaced", "missing", "went_back", "truncated", "stopped", "log_ahead")

OF_RECORDS = ("bad_records", "all_filtered", "null_column")
UNWELL = ("unclosed", "deferred", *OF_RECORDS)


@dataclass(frozen=True, slots=True)
class Allowed:
    """What a healthy job may be behind by. None: however much."""

    lag_max: int | None = None  # offsets
    age_max_ms: int | None = None  # of the newest entry, while records wait


@dataclass(frozen=True, slots=True)
class Ailment:
    """Something that is not as it should be, and the exit code that it is worth."""

    exit_code: ExitCode
    text: str


def check_health(opened: OpenJob, status: JobStatus, allowed: Allowed) -> tuple[Ailment, ...]:
    """Return what is wrong with a job. Raises LogDamaged, StorageError."""
    return (*_of_status(status, allowed), *_of_lake(opened))


def worst_ailment(found: tuple[Ailment, ...]) -> ExitCode:
    """Return the exit code of all that was found."""
    return worst_code(each.exit_code for each in found)


def _of_status(status: JobStatus, allowed: Allowed) -> Iterator[Ailment]:
    if status.state in BAD_STATES:
        since = "" if status.since_ms is None else _ago(status.now_ms - status.since_ms)
        yield Ailment(UNHEALTHY, f"{status.state}{since}: {status.why}")
    for warned in status.warnings:
        if warned.kind in DECISIONS:
            yield Ailment(DECIDE, warned.text)
        elif warned.kind in UNWELL:
            yield Ailment(UNHEALTHY, warned.text)
    if not status.is_source_reachable:
        why = next((each.text for each in status.warnings if each.kind == "kafka"), "")
        yield Ailment(UNKNOWN, why or "Kafka does not answer: lag and gaps are not known")
    lag = status.lag
    if allowed.lag_max is not None and lag is not None and lag > allowed.lag_max:
        yield Ailment(UNHEALTHY, f"lag {lag:,} is above {allowed.lag_max:,}")
    for each in status.slices:
        if allowed.age_max_ms is None or each.last is None or not each.lag:
            continue
        if each.last.age_ms > allowed.age_max_ms:
            waits = f"slice {each.slice}: {each.lag:,} offsets wait"
            yield Ailment(UNHEALTHY, f"{waits}, the last entry is of{_ago(each.last.age_ms)}")


def _of_lake(opened: OpenJob) -> Iterator[Ailment]:
    lost = find_gone(opened.storage, plan_recover(opened))
    if lost:
        yield Ailment(DECIDE, f"{lost} prepared files are lost: ashore recover JOB.yaml --explain")
    for name in opened.slices:
        missing = find_missing(opened.storage, name)
        if missing:
            text = f"the log of {name} lacks entries {missing.start} to {missing.stop - 1}"
            yield Ailment(DECIDE, f"{text}: an archive is missing")


def _ago(age_ms: int) -> str:
    return f" {format_duration(max(0, age_ms))} ago"


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
