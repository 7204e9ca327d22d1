"""A job process that is talked to: also one that has ended."""

import time
from pathlib import Path

import pytest

from ashore.jobs import launch
from ashore.jobs.launch import JobLaunch, LaunchOptions


def test_who_has_ended_is_told_nothing_and_its_exit_code_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bytes that a pipe did not take are written again when it is closed."""
    monkeypatch.setattr(launch, "process_logs", lambda: tmp_path)
    process = JobLaunch("run", tmp_path / "missing.yaml", LaunchOptions(uses_spark=False))
    process.start()
    wait_for_end(process.pid)
    process.write_line("go on")
    process.write_line("")
    assert process.wait() == 2


def wait_for_end(pid: int) -> None:
    """Wait until a child is a zombie: it has ended, and nobody has asked for its exit code."""
    end_s = time.monotonic() + 30
    while Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[0] != "Z":
        assert time.monotonic() < end_s, "it does not end"
        time.sleep(0.02)
