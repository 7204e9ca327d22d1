"""`stop`: a running job is asked to end in order, or killed, and is seen to be gone.

What it is: `stop_job` and `kill_job`.
What it promises: when they return, its process is gone. Only where no process of this machine
answers is the user asked to look at the lake; nothing is ever written there.
"""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import JobNotAnswering, JobNotRunning
from ashore.jobs.ask import Patience, RunningJob
from ashore.jobs.heartbeat import Heartbeat
from ashore.jobs.requests import LastEntry, StopDone, StopRequest, read_asked, write_request

GONE_WITHIN_S = 15.0  # from the answer to the end of the process
POLL_S = 0.05


@dataclass(frozen=True, slots=True)
class JobStopped:
    """A job that has stopped."""

    pid: int | None  # of the process that was asked; None: there was none to ask
    host: str | None  # where it was
    logs: tuple[LastEntry, ...]  # the last entries of its logs, where it has reported them
    sentence: str  # what happened


Look = Callable[[JobNotRunning], JobStopped]
"""Looks at the job's logs: returns that it has stopped, or raises what is known."""


def stop_job(running: RunningJob, request: StopRequest, timeout_s: float, look: Look) -> JobStopped:
    """Stop a job in order and return once its process is gone.

    Arguments:
        running: the job.
        request: how it is to stop.
        timeout_s: how long it may take.
        look: is called where the job has no process here.

    Raises JobNotRunning where it has ended, and not in order; JobNotAnswering; and what the job
    failed with meanwhile.

    """
    try:
        beat, answer = running.ask("stop", write_request(request), Patience(timeout_s))
    except JobNotRunning as error:
        return look(error)
    done = read_asked(StopDone, answer)
    _wait_until_gone(beat, running.clock)
    return JobStopped(beat.pid, beat.host, done.logs, f"process {beat.pid} has stopped")


def kill_job(running: RunningJob, look: Look) -> JobStopped:
    """End a job at once, whatever it is at: the next start finishes what was begun.

    Raises JobNotRunning; JobNotAnswering where it is on another machine.
    """
    try:
        beat = running.find_process(must_beat=False)
    except JobNotRunning as error:
        return look(error)
    if beat.is_alive is None:
        message = f"process {beat.pid} is on {beat.host}"
        raise JobNotAnswering(message, hint=f"run the command on {beat.host}")
    with contextlib.suppress(ProcessLookupError):
        if os.getpgid(beat.pid) == beat.pid:  # with its JVM and its workers
            os.killpg(beat.pid, signal.SIGKILL)
        else:
            os.kill(beat.pid, signal.SIGKILL)
    _wait_until_gone(beat, running.clock)
    return JobStopped(beat.pid, beat.host, (), f"process {beat.pid} was ended at once")


def _wait_until_gone(beat: Heartbeat, clock: Clock) -> None:
    until_s = clock.monotonic_s() + GONE_WITHIN_S
    while beat.is_alive:
        if clock.monotonic_s() > until_s:
            message = f"process {beat.pid} has done its last work and does not end"
            raise JobNotAnswering(message, hint=f"kill -9 {beat.pid}; nothing of it is under way")
        clock.sleep(POLL_S)
