"""A pytest plugin: a run that leaves a test out fails. Loaded by make with `-p`.

A skip is allowed only if its reason begins with an entry of ALLOWED, which says why it may be. What
is not chosen has to be marked: `slow` is left to `make test`, `long` to `make test-all`, and of
`thirds` the next commits play the rest (tests/shares.py).
"""

from collections.abc import Sequence
from typing import Any

import pytest

ALLOWED = {
    "no Chromium on the path": "a browser is no Python package: `make setup` cannot bring one",
}
LEFT_TO_ANOTHER_RUN = ("slow", "long", "thirds")

_left_out: list[str] = []


def _note(report: pytest.TestReport | pytest.CollectReport) -> None:
    if report.skipped:
        reason = str(report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr)
        reason = reason.removeprefix("Skipped: ")
        if not reason.startswith(tuple(ALLOWED)):
            _left_out.append(f"{report.nodeid}: {reason}")


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _note(report)


def pytest_collectreport(report: pytest.CollectReport) -> None:
    _note(report)


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    _left_out.extend(
        f"{item.nodeid}: not chosen, and not marked"
        for item in items
        if not any(item.get_closest_marker(name) for name in LEFT_TO_ANOTHER_RUN)
    )


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a worker of xdist has not chosen; each of them chooses the same."""
    for each in getattr(node, "workeroutput", {}).get("left_out", ()):
        if each not in _left_out:
            _left_out.append(each)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = _left_out
    elif _left_out and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for left_out in _left_out:
        terminalreporter.write_line(f"LEFT OUT {left_out}", red=True)
