"""What a job is at: running, idle, stuck, stopped, failed or never started, and since when.

What it promises: pure. A heartbeat that is older than the log is not believed, unless only a
command has written since. Without one the log is judged, and whether its writer is dead.
"""

from dataclasses import dataclass
from enum import StrEnum

from ashore.jobs.heartbeat import Heartbeat

SILENT_MS = 10_000  # a process that has not beaten for so long is frozen, or hangs
STEP_MAX_MS = 300_000  # longer than a step takes
WRITE_MAX_MS = 1_800_000  # the step that reads and writes a batch
RUNNING_INTERVALS = 3  # a log that grew so lately is of a job that runs
RUNNING_MS_MIN = 10_000
STOPS = ("stop", "drained")


class JobState(StrEnum):
    """What a job is at."""

    RUNNING = "running"
    IDLE = "idle"
    STUCK = "stuck"
    STOPPED = "stopped"
    FAILED = "failed"
    NEVER_STARTED = "never started"


@dataclass(frozen=True, slots=True)
class JobLogSeen:
    """What the logs of a job show. Times are in milliseconds."""

    last_ms: int  # when the newest entry of all slices was written
    is_closed_for_stop: bool  # each slice ends with an entry that says that the job stopped
    lag: int | None  # None: of some topic it is not known
    dead_writer: str | None = None  # the job process that wrote last, where it was here and is gone
    is_of_command: bool = False  # the newest entry is that of a command: `skip`, `retire` ...


@dataclass(frozen=True, slots=True)
class Judged:
    """A state, since when in milliseconds, and why it is thought so."""

    state: JobState
    since_ms: int | None
    why: str


def believe(log: JobLogSeen | None, beat: Heartbeat | None) -> Heartbeat | None:
    """Return a heartbeat, unless its job has run elsewhere since."""
    is_newer = beat is not None and (log is None or log.last_ms <= beat.beat_ms + SILENT_MS)
    return beat if is_newer else None


def judge_state(
    log: JobLogSeen | None, beat: Heartbeat | None, now_ms: int, interval_ms: int
) -> Judged:
    """Return what a job is at.

    Arguments:
        log: what its logs show; None: it has none.
        beat: its last heartbeat on this machine.
        now_ms: the machine's time.
        interval_ms: of the job's batches.

    """
    believed = believe(log, beat)
    if believed is not None:
        return _judge_process(believed, now_ms, log.lag if log else None)
    if log is None:
        return Judged(JobState.NEVER_STARTED, None, "it has no log")
    if log.is_of_command and log.dead_writer is None:
        if beat is not None:
            return _judge_process(beat, now_ms, log.lag)
        why = "the last entry was written by a command: the job was not started since"
        return Judged(JobState.STOPPED, log.last_ms, why)
    return _judge_log(log, now_ms, interval_ms)


def _judge_process(beat: Heartbeat, now_ms: int, lag: int | None) -> Judged:
    if beat.ended is not None:
        is_stopped = beat.ended == "stopped"
        state = JobState.STOPPED if is_stopped else JobState.FAILED
        return Judged(state, beat.beat_ms, beat.why or "its process exited normally")
    process = f"process {beat.pid}"
    if beat.is_alive is False:
        return Judged(
            JobState.FAILED, beat.beat_ms, f"{process} no longer runs, and reported no error"
        )
    if now_ms - beat.beat_ms > SILENT_MS:
        return Judged(JobState.STUCK, beat.beat_ms, f"{process} runs but does not respond")
    step_max_ms = WRITE_MAX_MS if beat.step == "write" else STEP_MAX_MS
    if beat.step == "idle" and lag:  # of one look: a job for which records wait is not idle
        why = f"{process}, between two batches: {lag:,} offsets wait"
        return Judged(JobState.RUNNING, beat.started_ms, why)
    if beat.step == "idle":
        return Judged(JobState.IDLE, beat.step_since_ms, f"{process} waits for records")
    if now_ms - beat.step_since_ms > step_max_ms:
        return Judged(
            JobState.STUCK, beat.step_since_ms, f"{process} has not finished step {beat.step}"
        )
    return Judged(JobState.RUNNING, beat.started_ms, f"{process}, in step {beat.step}")


def _judge_log(log: JobLogSeen, now_ms: int, interval_ms: int) -> Judged:
    if log.is_closed_for_stop:
        return Judged(JobState.STOPPED, log.last_ms, "its log says so")
    if log.dead_writer is not None:
        why = f"its log does not say that it stopped, and {log.dead_writer} is gone"
        return Judged(JobState.FAILED, log.last_ms, why)
    if now_ms - log.last_ms <= max(RUNNING_INTERVALS * interval_ms, RUNNING_MS_MIN):
        return Judged(JobState.RUNNING, log.last_ms, "its log has just grown")
    if log.lag is None:
        return Judged(JobState.IDLE, log.last_ms, "its log does not grow; the lag is not known")
    if log.lag == 0:
        return Judged(JobState.IDLE, log.last_ms, "its log does not grow; nothing waits")
    why = "records wait, its log does not grow, and there is no heartbeat here"
    return Judged(JobState.STUCK, log.last_ms, why)
