"""A pytest plugin: how long a run of tests took, printed and kept.

Loaded by `make test`, `--history=NAME` for each half. At its end it lists the slowest files, and
appends a line to `build/test-times.tsv`, which git ignores: date, commit, name, seconds, tests that
passed, tests that failed.
"""

import subprocess
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime

import pytest

LISTED = 10
KEPT = "build/test-times.tsv"

_began_s = time.monotonic()
_seconds: dict[str, float] = defaultdict(float)
_outcomes: Counter[str] = Counter()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--history", help=f"keep the time of this run in {KEPT}, by this name")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _seconds[report.nodeid.partition("::")[0]] += report.duration
    if report.when == "call" or report.failed:
        _outcomes[report.outcome] += 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    config = terminalreporter.config
    name = config.getoption("--history")
    if hasattr(config, "workerinput") or not (name and _seconds):
        return
    terminalreporter.write_sep("=", f"slowest {LISTED} files")
    for path, seconds in sorted(_seconds.items(), key=lambda row: -row[1])[:LISTED]:
        terminalreporter.write_line(f"{seconds:9.1f} s  {path}")
    asked = ["git", "rev-parse", "--short=12", "HEAD"]
    commit = subprocess.run(asked, cwd=config.rootpath, capture_output=True, text=True, check=False)
    day = datetime.now(UTC).strftime("%Y-%m-%d %H:%M")
    wall_s = round(time.monotonic() - _began_s)
    row = (day, commit.stdout.strip(), name, wall_s, _outcomes["passed"], _outcomes["failed"])
    kept = config.rootpath / KEPT
    kept.parent.mkdir(exist_ok=True)
    with kept.open("a", encoding="utf-8") as file:
        file.write("\t".join(map(str, row)) + "\n")
    terminalreporter.write_line(f"{name}: {wall_s} s; earlier runs are in {KEPT}")
