"""What a job is at, from its log and from what its process last said."""

import itertools
import os
import socket
from dataclasses import replace

import psutil
import pytest

from ashore.control.state import SILENT_MS, STEP_MAX_MS, WRITE_MAX_MS, LogSeen, State, judge_state
from ashore.jobs.heartbeat import Heartbeat

NOW_MS = 2_000_000_000_000
INTERVAL_MS = 10_000
STARTED_MS = round(psutil.Process().create_time() * 1000)
HERE = Heartbeat(
    "clicks", "file:///lake", socket.gethostname(), os.getpid(), STARTED_MS, NOW_MS, "plan", NOW_MS
)
LOG = LogSeen(NOW_MS - 60_000, is_closed_for_stop=False, lag=5)
RECENT = replace(LOG, last_ms=NOW_MS - 3 * INTERVAL_MS)


@pytest.mark.parametrize(
    ("log", "beat", "state", "since_ms"),
    [
        (None, None, State.NEVER_STARTED, None),
        (None, HERE, State.RUNNING, STARTED_MS),
        (LOG, HERE, State.RUNNING, STARTED_MS),
        (LOG, replace(HERE, step="idle", step_since_ms=7), State.IDLE, 7),
        (LOG, replace(HERE, beat_ms=NOW_MS - SILENT_MS), State.RUNNING, STARTED_MS),
        (LOG, replace(HERE, beat_ms=NOW_MS - SILENT_MS - 1), State.STUCK, NOW_MS - SILENT_MS - 1),
        (LOG, replace(HERE, step_since_ms=NOW_MS - STEP_MAX_MS - 1), State.STUCK, None),
        (LOG, replace(HERE, step="write", step_since_ms=NOW_MS - STEP_MAX_MS - 1), "running", None),
        (LOG, replace(HERE, step="write", step_since_ms=NOW_MS - WRITE_MAX_MS - 1), "stuck", None),
        (LOG, replace(HERE, pid=2**22 + 1), State.FAILED, NOW_MS),
        (LOG, replace(HERE, started_ms=STARTED_MS - 9_000), State.FAILED, NOW_MS),  # its id again
        (LOG, replace(HERE, ended="stopped"), State.STOPPED, NOW_MS),
        (LOG, replace(HERE, ended="failed", why="fenced"), State.FAILED, NOW_MS),
        (LOG, replace(HERE, host="elsewhere", pid=2**22 + 1), State.RUNNING, STARTED_MS),
        # it has run elsewhere since: the log is judged
        (LOG, replace(HERE, ended="stopped", beat_ms=LOG.last_ms - 20_000), State.STUCK, None),
        (LOG, None, State.STUCK, LOG.last_ms),
        (replace(LOG, lag=0), None, State.IDLE, LOG.last_ms),
        (replace(LOG, lag=None), None, State.IDLE, LOG.last_ms),
        (replace(LOG, is_closed_for_stop=True), None, State.STOPPED, LOG.last_ms),
        (RECENT, None, State.RUNNING, RECENT.last_ms),
        (replace(RECENT, last_ms=RECENT.last_ms - 1), None, State.STUCK, None),
    ],
    ids=itertools.count(),  # a time in a name would differ between processes
)
def test_the_state_of_a_job(
    log: LogSeen | None, beat: Heartbeat | None, state: str, since_ms: int | None
) -> None:
    found = judge_state(log, beat, NOW_MS, INTERVAL_MS)
    assert found.state == state
    assert since_ms is None or found.since_ms == since_ms
    assert found.why
