"""SIGKILL at any moment of a rescale: the original is as it was, the target whole or refused."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import psutil
import pytest
from tests.checkpoint_files import opened, unpack
from tests.spark.programs import contents

from ashore.errors import CheckpointUnfit
from ashore.queries.state.survey import take_survey

MOMENTS = 50
LONGEST_S = 25.0  # by then it has ended, on a machine with nothing else to do
WITHIN_S = 300.0  # for a moment to come, on a busy machine
SPARK_ENDS_S = 30.0  # once the command is gone
PARTITIONS = 3  # that are wanted
BATCH = 11  # the last one of the checkpoint
AT_ONCE_S = 0.05  # before anything can be imported and written
A_LITTLE_S = 0.3


def has_files(pattern: str, count: int = 1) -> Callable[[Path], bool]:
    """Return whether so many files of the target are there, by a glob."""
    return lambda target: len([*target.glob(pattern)]) >= count


def some_time(seconds: float) -> Callable[[Path], bool]:
    def wait(_: Path) -> bool:
        time.sleep(seconds)
        return True

    return wait


STATE = f"state/0/*/{BATCH + 1}.*"  # of a partition: its first file that counts
# What is in flight when the kill comes, in the order of a rescale; how that is seen; how long then.
IN_FLIGHT: dict[str, tuple[Callable[[Path], bool], float]] = {
    "the command is imported": (some_time(AT_ONCE_S), 0),
    "what is not state is copied": (has_files("*"), 0),
    "offsets are written with the new number": (has_files("offsets/*"), 0),
    "Spark starts": (has_files(f"offsets/{BATCH}"), A_LITTLE_S),
    "Spark has started, and counts rows of the original": (has_files(f"offsets/{BATCH}"), 4),
    "tasks write state": (has_files("state/0/*/SSTs"), 0),
    "the first partition is written": (has_files(STATE), 0),
    "all partitions are written": (has_files(STATE, PARTITIONS), 0),
    "the batch is committed, and rows are compared": (has_files(f"commits/{BATCH}"), A_LITTLE_S),
    "the target has its metadata": (has_files("metadata"), 0),
}


# Before Spark, while it writes, and when all is there.
THREE = ("what is not state is copied", "tasks write state", "the target has its metadata")


@pytest.mark.long  # every day at each call in memory: tests/crash/test_rescaling.py
@pytest.mark.timeout(1800)  # starts of Spark, most of them cut off
@pytest.mark.parametrize(
    "moments",
    [pytest.param(THREE, id="three"), pytest.param([*IN_FLIGHT], id="ten")],
)
def test_killed_at_any_of_these_moments_a_rescale_leaves_the_original(
    tmp_path: Path, moments: Sequence[str]
) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "whole")
    before = contents(root)

    def try_moment(number: int, seen: Callable[[Path], bool], then_s: float) -> str:
        target = tmp_path / f"target-{number}"
        process = start_rescale(root, target)
        end_s = time.monotonic() + WITHIN_S
        while process.poll() is None and not seen(target) and time.monotonic() < end_s:
            time.sleep(0.01)
        time.sleep(then_s)
        if seen(target) and process.poll() is not None:
            return f"ended before, {state_of(target)}"
        kill(process)
        return state_of(target) if seen(target) else "never came"

    ended = {name: try_moment(number, *IN_FLIGHT[name]) for number, name in enumerate(moments)}

    assert contents(root) == before, "the original was changed"
    *half_done, last = ended.values()
    expected = {"not there", "refused"} if len(moments) > len(THREE) else {"refused"}
    assert {*half_done} == expected, ended
    assert last.endswith("whole"), ended


@pytest.mark.long
@pytest.mark.timeout(3600)
def test_a_rescale_that_is_killed_leaves_the_original(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "whole")
    before = contents(root)
    ended: set[str] = set()
    for number in range(MOMENTS):
        target = tmp_path / f"target-{number}"
        process = start_rescale(root, target)
        wait_until(process, number / MOMENTS * LONGEST_S)
        kill(process)

        assert contents(root) == before, "the original was changed"
        ended.add(state_of(target))
    assert {"not there", "refused"} <= ended


def start_rescale(root: Path, target: Path) -> "subprocess.Popen[bytes]":
    wanted = ["--partitions", str(PARTITIONS), "--to", str(target)]
    return subprocess.Popen(
        [
            str(Path(sys.executable).with_name("ashore")),
            "checkpoint",
            "rescale",
            str(root),
            *wanted,
        ],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: "subprocess.Popen[bytes]") -> None:
    """Kill the command alone; Spark, which it started, has to notice."""
    if process.poll() is not None:
        return
    children = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    _, left = psutil.wait_procs(children, timeout=SPARK_ENDS_S)
    # One that has ended stays in the list where nobody of this machine collects orphans.
    alive = [each for each in left if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]
    assert not alive, "Spark outlived the command"


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
    assert settings.partitions == PARTITIONS
    return "whole"
