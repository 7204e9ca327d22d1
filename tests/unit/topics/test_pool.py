"""Processes that work for one process: what they return, what they raise, how they end."""

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.topics import calls

from ashore.errors import BadRecord
from ashore.topics.run.processes.pool import WorkerDied, WorkerFrozen, WorkerPool


@pytest.fixture
def pool() -> Iterator[WorkerPool[calls.Call, object]]:
    made: WorkerPool[calls.Call, object] = WorkerPool(calls.work, 2)
    yield made
    made.kill()


def wait_until(condition: Callable[[], bool], within_s: float = 60) -> None:
    deadline_s = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < deadline_s
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_answers_come_in_the_order_of_the_questions_and_workers_are_kept(pool):
    first = pool.map([("pid", None)] * 6)
    assert pool.map([("double", number) for number in range(20)]) == [2 * n for n in range(20)]
    assert 1 <= len(set(first)) <= 2
    assert os.getpid() not in first
    assert set(pool.map([("pid", None)] * 6)) <= set(first), "nobody was replaced"
    assert pool.map([]) == []


def test_an_error_is_what_it_was(pool):
    with pytest.raises(BadRecord, match="offset 7") as raised:
        pool.map([("double", 1), ("refuse", 7)])
    assert raised.value.fields == {"offset": 7}
    assert pool.map([("double", 2)]) == [4], "the next round has workers again"


def test_an_error_that_cannot_travel_is_reported_all_the_same(pool):
    with pytest.raises(RuntimeError, match="Stubborn"):
        pool.map([("raise what cannot travel", None)])


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV])
def test_a_worker_that_dies_fails_its_round_and_is_replaced(pool, number):
    with pytest.raises(WorkerDied) as died:
        pool.map([("double", 1), ("die", int(number)), ("double", 2)])
    assert (died.value.index, died.value.exit_code) == (1, -number)
    assert str(died.value).endswith(f"was killed by {number.name}")
    assert pool.map([("double", 3)]) == [6]


def test_a_frozen_worker_is_killed_and_replaced():
    """A stopped process neither ends nor answers, so the round would wait for ever."""
    pool: WorkerPool[calls.Call, object] = WorkerPool(calls.work, 2, frozen_s=2.0)
    with pytest.raises(WorkerFrozen, match="not respond for 2 s") as frozen:
        pool.map([("double", 1), ("freeze", int(signal.SIGSTOP))])
    assert frozen.value.index == 1
    assert frozen.value.pid is not None
    wait_until(lambda: not is_running(frozen.value.pid))
    assert pool.map([("double", 3)]) == [6]
    pool.kill()


@pytest.mark.slow
def test_a_worker_that_takes_long_is_not_frozen():
    """It beats while it waits; where it computes in C and cannot beat, its processor time tells."""
    pool: WorkerPool[calls.Call, object] = WorkerPool(calls.work, 2, frozen_s=4.0)
    assert pool.map([("sleep", 6.0), ("hold the interpreter", "a" * 26 + "b")]) == [None, None]
    assert pool.map([("double", 3)]) == [6], "no beat is taken for an answer"
    pool.kill()


def test_a_worker_that_ends_by_itself_is_reported_with_its_code(pool):
    with pytest.raises(WorkerDied, match="exited with code 9"):
        pool.map([("exit", 9)])


def test_a_round_that_hangs_is_cut_short_by_another_thread(pool):
    (pid,) = pool.map([("pid", None)])
    threading.Timer(0.2, pool.kill).start()
    with pytest.raises(WorkerDied):
        pool.map([("sleep", 600.0)])
    wait_until(lambda: not is_running(int(str(pid))))


def test_workers_end_when_they_are_closed(pool):
    pids = {int(str(each)) for each in pool.map([("pid", None)] * 4)}
    pool.close()
    wait_until(lambda: not any(map(is_running, pids)))


def test_workers_end_with_the_process_that_started_them_however_it_ends(tmp_path: Path):
    script = (
        "import os, sys\n"
        "from ashore.topics.run.processes.pool import WorkerPool\n"
        "from tests.unit.topics import calls\n"
        "if __name__ == '__main__':\n"
        "    pool = WorkerPool(calls.work, 2)\n"
        "    pids = set(pool.map([('pid', None)] * 4))\n"
        "    print(*pids, flush=True)\n"
        "    pool.map([('sleep', 600.0)])\n"
    )
    path = tmp_path / "parent.py"
    path.write_text(script)
    root = str(Path(__file__).parents[3])
    environment = {**os.environ, "PYTHONPATH": root}
    with subprocess.Popen(
        [sys.executable, str(path)], stdout=subprocess.PIPE, env=environment
    ) as parent:
        assert parent.stdout is not None
        pids = [int(pid) for pid in parent.stdout.readline().split()]
        assert pids
        assert all(map(is_running, pids))
        parent.kill()
    wait_until(lambda: not any(map(is_running, pids)))
