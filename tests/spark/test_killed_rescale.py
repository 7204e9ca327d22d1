"""SIGKILL at any moment of a rescale: the original is as it was, the target whole or refused."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.checkpoint_files import opened, unpack
from tests.spark.programs import contents

from ashore.checkpoints.survey import take_survey
from ashore.errors import CheckpointUnfit

MOMENTS = 50
LONGEST_S = 25.0  # by then it has ended, on a machine with nothing else to do


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_rescale_that_is_killed_leaves_the_original(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "whole")
    before = contents(root)
    ended: set[str] = set()
    for number in range(MOMENTS):
        target = tmp_path / f"target-{number}"
        command = ["checkpoint", "rescale", str(root), "--partitions", "3", "--to", str(target)]
        process = subprocess.Popen(
            [str(Path(sys.executable).with_name("ashore")), *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        wait_until(process, number / MOMENTS * LONGEST_S)
        kill(process)

        assert contents(root) == before, "the original was changed"
        ended.add(state_of(target))
    assert {"not there", "refused"} <= ended


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command alone; Spark, which it started, has to notice."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert not psutil.wait_procs(children, timeout=10)[1], "Spark outlived the command"


def wait_until(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        time.sleep(0.02)


def state_of(target: Path) -> str:
    if not target.exists():
        return "not there"
    try:
        survey = take_survey(opened(target))
    except CheckpointUnfit:
        assert not (target / "metadata").exists(), "Spark would start there"
        return "refused"
    settings = survey.required.offsets.settings
    assert settings is not None
    assert settings.partitions == 3
    return "whole"
