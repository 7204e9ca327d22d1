"""A pytest plugin: how long a run of tests took, and each of its files.

`--history=NAME`, as `make test` has for each half: the slowest files are listed at the end, and a
line is appended to `build/test-times.tsv`, which git ignores: date, commit, name, seconds, tests
that passed, tests that failed.

`--times=FILE`, as `make test TIMES=FILE` and `make check TIMES=FILE` have: CPU is measured too, and
FILE becomes JSON, {path: [seconds on the clock, seconds of CPU, tests]}. CPU counts with every
process below this one. A server that several workers share counts where the worker is that has
started it.
"""

import json
import os
import subprocess
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

SLOWEST, DEAREST = 10, 40  # files that are listed
HISTORY = "build/test-times.tsv"
TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")

_wall_s: Counter[str] = Counter()  # by file, as those below
_cpu_s: Counter[str] = Counter()
_tests: Counter[str] = Counter()
_outcomes: Counter[str] = Counter()
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
    parser.addoption("--history", help=f"keep the time of this run in {HISTORY}, by this name")
    parser.addoption("--times", help="write what each file of tests took to this file, as JSON")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    if not item.config.getoption("--times"):
        return (yield)
    used_s = cpu_seconds()
    try:
        return (yield)
    finally:
        _cpu_s[str(item.path.relative_to(item.config.rootpath))] += cpu_seconds() - used_s


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    path = report.nodeid.partition("::")[0]
    _wall_s[path] += report.duration
    _tests[path] += report.when == "setup"
    if report.when == "call" or report.failed:
        _outcomes[report.outcome] += 1


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["cpu_s"] = dict(_cpu_s)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    _cpu_s.update(getattr(node, "workeroutput", {}).get("cpu_s", {}))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config, wall_s = terminalreporter.config, time.monotonic() - _began_s
    if hasattr(config, "workerinput") or not _tests:
        return
    if target := config.getoption("--times"):
        times = {path: [_wall_s[path], _cpu_s[path], _tests[path]] for path in _tests}
        Path(target).write_text(json.dumps(times, indent=0, sort_keys=True), "utf-8")
        times = dict(sorted(times.items(), key=lambda row: -row[1][1])[:DEAREST])
        times["all together"] = [wall_s, cpu_seconds(), _tests.total()]
        terminalreporter.write_sep("=", "time by file: on the clock, of the processors, tests")
        for path, (seconds, used_s, tests) in times.items():
            terminalreporter.write_line(f"{seconds:9.1f} {used_s:9.1f} {tests:6.0f}  {path}")
    if name := config.getoption("--history"):
        terminalreporter.write_sep("=", f"slowest {SLOWEST} files")
        for path, seconds in _wall_s.most_common(SLOWEST):
            terminalreporter.write_line(f"{seconds:9.1f} s  {path}")
        append_history(config.rootpath, name, round(wall_s))
        terminalreporter.write_line(f"{name}: {wall_s:.0f} s; earlier runs are in {HISTORY}")


def append_history(root: Path, name: str, wall_s: int) -> None:
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, cwd=root, capture_output=True, text=True, check=False)
    day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    row = (day, commit.stdout.strip(), name, wall_s, _outcomes["passed"], _outcomes["failed"])
    (root / HISTORY).parent.mkdir(exist_ok=True)
    with (root / HISTORY).open("a", encoding="utf-8") as file:
        file.write("\t".join(map(str, row)) + "\n")
