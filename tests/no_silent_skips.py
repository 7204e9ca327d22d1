"""A pytest plugin: a run that leaves a test out fails. Loaded by make with `-p`.

A skip is allowed only if its reason begins with an entry of ALLOWED, which says why it may be.
"""

import pytest

ALLOWED: dict[str, str] = {}

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


def pytest_sessionfinish(session: pytest.Session) -> None:
    if _left_out and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for left_out in _left_out:
        terminalreporter.write_line(f"LEFT OUT {left_out}", red=True)
