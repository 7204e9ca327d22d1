"""`ashore stop` of a real job: in order, where it is frozen, at once, and where there is none."""

import json
import os
import subprocess
from pathlib import Path

import psutil
from tests.frozen import freeze
from tests.integration.test_terminal import ASHORE, WITHIN_S, job_file, running

from ashore.log.entries import Commit
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job

__all__ = ["job_file"]  # a fixture


def stop(job_file: Path, home: Path, *options: str) -> tuple[int, str, str]:
    """Run the command; it ends within seconds whatever it finds."""
    environment = {**os.environ, "ASHORE_HOME": str(home)}
    ended = subprocess.run(
        [ASHORE, "stop", str(job_file), *options],
        capture_output=True, text=True, check=False, env=environment, timeout=WITHIN_S,
    )  # fmt: skip
    return ended.returncode, ended.stdout, ended.stderr


def has_ended(pid: int) -> bool:
    """Whether a process is gone, or nobody but its parent has to learn of it."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_a_job_is_asked_to_stop_and_the_asker_learns_that_it_did(
    job_file: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    code, out = stop(job_file, home)[:2]
    assert (code, "never started" in out) == (0, True)
    with running(job_file, home) as run:
        pid = int(run.wait_for(r"started, process (\d+)")[1])
        run.wait_for("landed 100 records")
        code, out, err = stop(job_file, home, "--json")
        assert code == 0, err
        document = json.loads(out)
        assert document["pid"] == pid
        assert has_ended(pid), "it has ended when the command returns"
        assert f"asked process {pid} to stop" in err
        assert run.process.wait(timeout=WITHIN_S) == 0
        run.wait_for("asks to stop")
    with open_job(job_file) as opened:
        *_, last = read_history(opened.storage, opened.name)
    assert document["logs"] == [{"slice": "main", "entry": last.number}]
    assert isinstance(last.body, Commit), "nothing is left to recover"
    code, out, _ = stop(job_file, home)
    assert (code, "already stopped" in out) == (0, True)

    with running(job_file, home) as run:
        pid = int(run.wait_for(r"started, process (\d+)")[1])
        freeze(pid)
        code, out, err = stop(job_file, home)
        assert (code, out) == (1, "")
        assert f"process {pid} is there" in err
        assert f"kill -9 {pid}" in err
        code, out = stop(job_file, home, "--now")[:2]
        assert (code, out.startswith(f"process {pid} was ended")) == (0, True)
        assert run.process.wait(timeout=WITHIN_S) == 137
    code, _, err = stop(job_file, home)
    assert code == 1
    assert f"{pid} of job landing exited" in err
    left = [each.name for each in home.glob("jobs/*.asked/*")]
    assert left == [], "requests and answers are taken away"
