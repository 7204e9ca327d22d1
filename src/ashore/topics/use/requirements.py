"""What commands require of a job before they change it.

What it promises: reads only; raises where the command is not for this job, or not now.
"""

from ashore.errors import JobFileInvalid, LogGrows, QueryRefused
from ashore.jobs.ask import RunningJob
from ashore.jobs.file import Job
from ashore.log.lost_end import LogEnd
from ashore.log.store.dead_job import require_quiet
from ashore.log.store.reader import read_log
from ashore.log.store.traces import require_whole
from ashore.topics.open_job import OpenJob

WATCH_S_MAX = 15.0


def require_stopped(opened: OpenJob, *, takes_over: bool) -> None:
    """Raise LogGrows where the job runs: here, or a log grows within two intervals, at most 15 s.

    Every use case that takes slices over checks first, unless `takes_over`. A process of this
    machine is known also while it has nothing to land, or is frozen.
    """
    if takes_over:
        return
    job = opened.job
    running = RunningJob(job.job, str(job.lake), opened.clock, lambda _line: None)
    beat = running.beat()
    if beat is not None and beat.ended is None and (beat.is_alive or running.find_beating()):
        raise LogGrows(
            f"job {job.job} is running on {beat.host}, process {beat.pid}; nothing was changed",
            hint="stop the job first, or repeat the command with --take-over",
        )
    watch_s = min(2 * job.batch.interval_ms / 1000, WATCH_S_MAX)
    require_quiet(opened.storage, opened.slices, opened.clock, watch_s)


def require_landed_topic(job: Job, topic: str, why_not_sql: str, *, hint: str) -> None:
    """Raise where no table lands a topic: JobFileInvalid, or QueryRefused where SQL reads it.

    `why_not_sql`: why a topic that only SQL reads is no subject of the command; `hint`: what would
    do for it.
    """
    found = [item for item in job.tables if item.matches(topic)]
    if not found:
        raise JobFileInvalid(
            f"no table of {job.path} reads topic {topic}", hint="name a topic of the job file"
        )
    if not any(item.is_landed for item in found):
        raise QueryRefused(f"topic {topic} is read by SQL only, and {why_not_sql}", hint=hint)


def require_whole_log(opened: OpenJob) -> None:
    """Raise LogLost where the tables show entries that the job's log does not have."""
    traces = opened.find_traces(opened.name)
    require_whole(opened.name, LogEnd.of(read_log(opened.storage, opened.name)), traces)
