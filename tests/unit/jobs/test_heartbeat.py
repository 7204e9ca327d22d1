"""The heartbeat of a job process: what is written, and what is read of it."""

import os
import threading
from pathlib import Path

import pytest

from ashore.jobs.heartbeat import Heart, heartbeat_path, read_heartbeat

LAKE = "file:///lake"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path))


def beat_once(why: str | None) -> None:
    beaten = threading.Event()
    heart = Heart("clicks", LAKE, lambda: ("write", 7), beaten.set)
    heart.reader = "native, some 1.0"
    heart.start()
    assert beaten.wait(10)
    found = read_heartbeat("clicks", LAKE)
    assert found is not None
    assert (found.pid, found.step, found.step_since_ms) == (os.getpid(), "write", 7)
    assert (found.ended, found.reader) == (None, "native, some 1.0")
    assert found.is_alive
    heart.end(why)


@pytest.mark.parametrize(("why", "ended"), [(None, "stopped"), ("fenced", "failed")])
def test_a_heart_beats_until_the_job_ends_and_says_how(why: str | None, ended: str) -> None:
    beat_once(why)
    found = read_heartbeat("clicks", LAKE)
    assert found is not None
    assert (found.ended, found.why) == (ended, why)
    assert len(list(heartbeat_path("clicks", LAKE).parent.iterdir())) == 1  # nothing is left over


def test_jobs_and_lakes_are_reported_apart() -> None:
    beat_once(None)
    assert read_heartbeat("other", LAKE) is None
    assert read_heartbeat("clicks", "file:///other") is None


@pytest.mark.parametrize("content", [b"", b"[]", b"{}", b"\xff", b'{"job": 1}'])
def test_a_file_that_is_no_heartbeat_is_none(content: bytes) -> None:
    path = heartbeat_path("clicks", LAKE)
    path.parent.mkdir(parents=True)
    path.write_bytes(content)
    assert read_heartbeat("clicks", LAKE) is None
