"""A pytest plugin: the time that each file of tests took, on the clock and of the processors.

Loaded by `make test TIMES=FILE` and `make check TIMES=FILE`: FILE becomes JSON, {path: [seconds on
the clock, seconds of CPU, tests]}, and the dearest files are listed at the end. CPU counts with
every process below this one. A server that several workers share counts where the worker is that
has started it.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

LISTED = 40
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

_times: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0])
_began_s = time.monotonic()


def has_children() -> bool:
    for path in Path("/proc/self/task").glob("*/children"):
        with suppress(FileNotFoundError):  # a thread that has just ended
            if path.read_text():
                return True
    return False


def cpu_seconds() -> float:
    """Return what this process and all below it have used, those that ended included."""
    if not has_children():
        return sum(os.times()[:4])  # to look through all processes takes longer than many tests
    children: dict[int, list[int]] = defaultdict(list)
    used: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children[int(fields[1])].append(int(entry.name))
            used[int(entry.name)] = sum(map(int, fields[11:15]))  # its own, and its children's
    total, left = 0, [os.getpid()]
    while left:
        process = left.pop()
        total += used.get(process, 0)
        left += children[process]
    return total / TICKS_A_SECOND


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--times", help="write what each file of tests took to this file, as JSON")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    began_s, used_s = time.monotonic(), cpu_seconds()
    try:
        return (yield)
    finally:
        row = _times[str(item.path.relative_to(item.config.rootpath))]
        row[0] += time.monotonic() - began_s
        row[1] += cpu_seconds() - used_s
        row[2] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["times"] = dict(_times)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for path, measured in getattr(node, "workeroutput", {}).get("times", {}).items():
        _times[path] = [sum(each) for each in zip(_times[path], measured, strict=True)]


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if target := terminalreporter.config.getoption("--times"):
        Path(target).write_text(json.dumps(_times, indent=0, sort_keys=True), "utf-8")
    terminalreporter.write_sep("=", "time by file: on the clock, of the processors, tests")
    for path, (wall_s, cpu_s, tests) in sorted(_times.items(), key=lambda row: -row[1][1])[:LISTED]:
        terminalreporter.write_line(f"{wall_s:9.1f} {cpu_s:9.1f} {tests:6.0f}  {path}")
    wall_s = time.monotonic() - _began_s
    tests = sum(row[2] for row in _times.values())
    terminalreporter.write_line(f"{wall_s:9.1f} {cpu_seconds():9.1f} {tests:6.0f}  all together")
