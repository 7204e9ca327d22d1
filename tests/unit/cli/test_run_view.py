"""What the events of a job process become on a screen."""

import io
import json
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import pytest
from rich.console import Console
from tests.unit.config.texts import job

from ashore.cli.run_view import RunState, Style, show_reland, show_run
from ashore.jobs.events import (
    Beat,
    Event,
    Failed,
    Landed,
    Started,
    Starting,
    Step,
    StepBegun,
    WarningEvent,
)

JOB = job()
EVENTS = [
    Starting("clicks", "file:///lake"),
    Started("clicks"),
    StepBegun("main", Step.PLAN),
    StepBegun("main", Step.WRITE),
    StepBegun("main", Step.MOVE),
    Landed("main", rows=1_000, files=2, lag=500, hanging=0, batch=7, entry=12, tables=("a.b",)),
]


def shown(state: RunState, now_s: float) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(state.render(now_s))
    return console.file.getvalue()


def test_the_view_shows_records_rate_lag_files_and_the_step() -> None:
    state = RunState("clicks")
    lines = [state.take(event, 100.0 + second) for second, event in enumerate(EVENTS)]
    reported = "landed 1,000 records in 2 files into a.b, 333/s, lag 500"
    assert lines[-1] == f"batch 7, entry 12: {reported}"
    text = shown(state, 107.0)
    for part in ("clicks", "main", "move", "1,000", "500", "200", "2"):
        assert part in text


def test_a_worker_that_stopped_is_shown_as_that_while_others_go_on() -> None:
    state = RunState("clicks")
    for event in (
        *EVENTS,
        StepBegun("ods__big", Step.PLAN),
        WarningEvent("ods__big", "stopped: gone"),
    ):
        state.take(event, 100.0)
    assert state.slices["ods__big"].step == "stopped"
    assert state.slices["main"].step == "move"
    state.take(WarningEvent("main", "no broker"), 101.0)
    assert state.slices["main"].step == "move"


def test_the_rate_of_a_job_that_was_started_again_is_its_own() -> None:
    state = RunState("clicks")
    for second, event in enumerate(EVENTS):
        state.take(event, float(second))
    for second, event in enumerate(EVENTS):
        state.take(event, 10_000.0 + second)
    assert state.slices["main"].rate(10_005.0) > 300
    assert state.slices["main"].rows == 2_000


def test_trouble_is_kept_in_sight_and_errors_are_kept_for_the_end() -> None:
    state = RunState("clicks")
    assert state.take(WarningEvent("main", "no broker"), 1.0)
    assert "no broker" in shown(state, 2.0)
    state.take(Failed(3, "fenced", "gone", None), 3.0)
    assert state.error is not None


class Played:
    """A job process that tells these events and ends so; `sent` comes to the command meanwhile."""

    log_path = Path("job.log")
    lines_read = 0

    def __init__(self, code: int, *reported: Event, sent: int | None = None) -> None:
        self._code = code
        self._told = reported
        self._sent = sent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to let go of."""

    def events(self) -> Iterator[Event]:
        yield from self._told
        if self._sent is not None:
            os.kill(os.getpid(), self._sent)

    def stop(self) -> None:
        """It ends by itself."""

    def kill(self) -> None:
        """It is not silent."""

    def wait(self) -> int:
        return self._code


@pytest.mark.parametrize(
    ("sent", "code", "expected"),
    [
        (signal.SIGINT, -signal.SIGTERM, 130),
        (signal.SIGTERM, -signal.SIGTERM, 0),
        (signal.SIGINT, 0, 130),
        (None, -signal.SIGTERM, 143),
        (None, -signal.SIGKILL, 137),
    ],
)
def test_a_run_that_is_stopped_before_it_began(sent: int | None, code: int, expected: int) -> None:
    assert show_run(JOB, Played(code, EVENTS[0], sent=sent), Style.LINES) == expected


def test_a_run_that_is_stopped_ends_in_order() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        assert show_run(JOB, Played(0, *EVENTS, sent=number), Style.LINES) == 0


def test_a_process_that_says_nothing_is_reported_in_words_and_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_run(JOB, Played(-9, *EVENTS), Style.EVENTS) == 137
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (reported[-1]["event"], reported[-1]["code"]) == ("error", "job-process-ended")
    assert (reported[-1]["exit_code"], reported[-1]["log"]) == (137, "job.log")
    assert show_run(JOB, Played(-9, *EVENTS), Style.LINES) == 137
    assert "exited with 137" in capsys.readouterr().err


def test_a_reland_that_fails_says_why_in_json(capsys: pytest.CaptureFixture[str]) -> None:
    failed = Failed(4, "stopped", "2 rows where 3 are lost", "give them up")
    assert show_reland(Played(4, failed), as_json=True) == 4
    document = json.loads(capsys.readouterr().out)
    assert document["error"]["code"] == "stopped"
    assert document["exit_code"] == 4


AT = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z"


def test_every_line_and_every_event_has_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    reported = (*EVENTS, Beat())
    show_run(JOB, Played(0, *reported), Style.LINES)
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(re.match(f"{AT} ", line) for line in lines)
    show_run(JOB, Played(0, *reported), Style.EVENTS)
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["event"] for each in events] == [each.kind for each in EVENTS]  # no beat
    assert all(re.fullmatch(AT, each["at"]) for each in events)
    assert (events[-1]["batch"], events[-1]["entry"]) == (7, 12)
    show_run(JOB, Played(0, *reported), Style.LOG)
    logged = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [each["event"] for each in logged] == ["starting", "started", "landed"]
    assert logged[-1]["message"] == lines[-1].partition(" ")[2]
    assert all(re.fullmatch(AT, each["at"]) for each in logged)
