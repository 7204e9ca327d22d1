"""What a job is at, from its log and from what its process last said."""

import itertools
import os
import socket
from dataclasses import replace

import psutil
import pytest

from ashore.jobs.heartbeat import Heartbeat
from ashore.jobs.state import (
    SILENT_MS,
    STEP_MAX_MS,
    WRITE_MAX_MS,
    JobLogSeen,
    JobState,
    judge_state,
)

NOW_MS = 2_000_000_000_000
INTERVAL_MS = 10_000
STARTED_MS = round(psutil.Process().create_time() * 1000)
HERE = Heartbeat(
    "clicks", "file:///lake", socket.gethostname(), os.getpid(), STARTED_MS, NOW_MS, "plan", NOW_MS
)
LOG = JobLogSeen(NOW_MS - 60_000, is_closed_for_stop=False, lag=5)
RECENT = replace(LOG, last_ms=NOW_MS - 3 * INTERVAL_MS)


@pytest.mark.parametrize(
    ("log", "beat", "state", "since_ms"),
    [
        (None, None, JobState.NEVER_STARTED, None),
        (None, HERE, JobState.RUNNING, STARTED_MS),
        (LOG, HERE, JobState.RUNNING, STARTED_MS),
        (replace(LOG, lag=0), replace(HERE, step="idle", step_since_ms=7), JobState.IDLE, 7),
        (replace(LOG, lag=None), replace(HERE, step="idle", step_since_ms=7), JobState.IDLE, 7),
        (LOG, replace(HERE, step="idle", step_since_ms=7), JobState.RUNNING, STARTED_MS),
        (LOG, replace(HERE, beat_ms=NOW_MS - SILENT_MS), JobState.RUNNING, STARTED_MS),
        (
            LOG,
            replace(HERE, beat_ms=NOW_MS - SILENT_MS - 1),
            JobState.STUCK,
            NOW_MS - SILENT_MS - 1,
        ),
        (LOG, replace(HERE, step_since_ms=NOW_MS - STEP_MAX_MS - 1), JobState.STUCK, None),
        (LOG, replace(HERE, step="write", step_since_ms=NOW_MS - STEP_MAX_MS - 1), "running", None),
        (LOG, replace(HERE, step="write", step_since_ms=NOW_MS - WRITE_MAX_MS - 1), "stuck", None),
        (LOG, replace(HERE, pid=2**22 + 1), JobState.FAILED, NOW_MS),
        (
            LOG,
            replace(HERE, started_ms=STARTED_MS - 9_000),
            JobState.FAILED,
            NOW_MS,
        ),  # its id again
        (LOG, replace(HERE, ended="stopped"), JobState.STOPPED, NOW_MS),
        (LOG, replace(HERE, ended="failed", why="fenced"), JobState.FAILED, NOW_MS),
        (LOG, replace(HERE, host="elsewhere", pid=2**22 + 1), JobState.RUNNING, STARTED_MS),
        # it has run elsewhere since: the log is judged
        (LOG, replace(HERE, ended="stopped", beat_ms=LOG.last_ms - 20_000), JobState.STUCK, None),
        (LOG, None, JobState.STUCK, LOG.last_ms),
        (replace(LOG, lag=0), None, JobState.IDLE, LOG.last_ms),
        (replace(LOG, lag=None), None, JobState.IDLE, LOG.last_ms),
        (replace(LOG, is_closed_for_stop=True), None, JobState.STOPPED, LOG.last_ms),
        (RECENT, None, JobState.RUNNING, RECENT.last_ms),
        (replace(RECENT, last_ms=RECENT.last_ms - 1), None, JobState.STUCK, None),
    ],
    ids=itertools.count(),  # a time in a name would differ between processes
)
def test_the_state_of_a_job(
    log: JobLogSeen | None, beat: Heartbeat | None, state: str, since_ms: int | None
) -> None:
    found = judge_state(log, beat, NOW_MS, INTERVAL_MS)
    assert found.state == state
    assert since_ms is None or found.since_ms == since_ms
    assert found.why
