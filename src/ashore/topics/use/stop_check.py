"""Whether a job that has no process on this machine has stopped, by its logs.

What it is: `look_at_logs`.
What it promises: reads only. A job is said to have stopped where its logs say so, or its heartbeat
does and nothing came to the logs since; otherwise who may still run it is named.
"""

import math
from dataclasses import dataclass

from ashore.errors import JobNotAnswering, JobNotRunning
from ashore.jobs.last_writer import LastWriter, find_writer
from ashore.jobs.state import SILENT_MS, STOPS
from ashore.log.entries import Commit
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log, read_number
from ashore.storage.base import Storage
from ashore.topics.loop.sinks import find_slices
from ashore.topics.open_job import OpenJob
from ashore.topics.use.stop import JobStopped


def look_at_logs(opened: OpenJob, found: JobNotRunning) -> JobStopped:
    """Return that a job has stopped, by its log. Raises what is known where it has not.

    `found`: that no process of it is here, as its heartbeat says.
    """
    job = opened.job.job
    logs = [_read_end(opened.storage, name) for name in find_slices(opened.storage, job)]
    ends = [each for each in logs if each is not None]
    if not ends and "pid" not in found.fields:
        return JobStopped(None, None, (), f"job {job} was never started")
    in_order = JobStopped(None, None, (), f"job {job} has already stopped")
    beat_ms = found.fields.get("beat_ms")
    after_ms = max((each.written_ms for each in ends), default=0) - (
        beat_ms if isinstance(beat_ms, int) else -math.inf
    )
    if ends and after_ms > 0 and all(each.is_stopped for each in ends):
        return in_order
    if after_ms <= SILENT_MS:  # what came to the log later is of a process elsewhere
        if found.fields.get("ended") == "stopped":
            return in_order
        raise found
    for each in ends:
        if each.writer is not None:
            _require_gone(job, each.writer)
    raise found


@dataclass(frozen=True, slots=True)
class _LogEnd:
    """How a log ends: when, whether by a stop, else who opened it last."""

    written_ms: int
    is_stopped: bool
    writer: LastWriter | None


def _read_end(storage: Storage, name: SliceName) -> _LogEnd | None:
    fold = read_log(storage, name)
    last = read_number(storage, name, fold.end) if fold.end >= 0 else None
    if last is None:
        return None
    if isinstance(last.body, Commit) and last.body.reason in STOPS:
        return _LogEnd(last.written_ms, True, None)
    return _LogEnd(last.written_ms, False, find_writer(storage, name, fold))


def _require_gone(job: str, writer: LastWriter) -> None:
    """Raise JobNotAnswering where a process that has opened a log may still be there."""
    process = f"process {writer.pid}"
    if writer.is_alive is None:
        raise JobNotAnswering(
            f"the log of job {job} was opened last by {process} on {writer.host}, and does not "
            "say that it stopped",
            hint=f"run the command on {writer.host}",
        )
    if writer.is_alive:
        raise JobNotAnswering(
            f"job {job} is run by {process} of this machine, which has no heartbeat here",
            hint="run the command as the user that runs the job, with its ASHORE_HOME",
        )
    raise JobNotRunning(
        f"{process} of this machine, which opened the log of job {job} last, is gone, and the log "
        "does not say that it stopped",
        hint="start it: it finishes what was started",
    )
