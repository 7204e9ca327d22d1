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
from tests.unit.jobs.texts import job

from ashore.cli.run_view import RunState, Style, show_reland, show_run
from ashore.jobs.events import (
    Beat,
    Ended,
    Event,
    Landed,
    Started,
    Starting,
    StepBegun,
    WarningEvent,
)
from ashore.jobs.failure import Failed
from ashore.log.progress import Step
from ashore.topics.use.run_job import failure_of

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
    has_ended = False
    pid = 4_711

    def __init__(
        self, code: int, *reported: Event, sent: int | None = None, times: int = 1
    ) -> None:
        self._code = code
        self._told = reported
        self._sent = sent
        self._times = times
        self.is_killed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to let go of."""

    def events(self) -> Iterator[Event]:
        yield from self._told
        for _ in range(self._times if self._sent is not None else 0):
            os.kill(os.getpid(), self._sent)

    def stop(self) -> None:
        """It ends by itself."""

    def kill(self) -> None:
        """It is asked for the end a second time."""
        self.is_killed = True

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


@pytest.mark.parametrize(
    ("code", "is_killed", "message", "hint"),
    [
        (-9, False, "because memory ran out", "`dmesg`"),
        (137, False, "because memory ran out", "`dmesg`"),
        (-9, True, "SIGKILL by this command", "start it again"),
        (-15, False, "ended by SIGTERM", "start it again"),
        (2, False, "exited with 2", "start it again"),
    ],
)
def test_an_end_without_an_error_says_in_words_what_ended_the_process(
    code: int, is_killed: bool, message: str, hint: str
) -> None:
    process = Played(code)
    process.is_killed = is_killed
    failed = failure_of(code, None, process)
    assert failed is not None
    assert message in failed.message
    assert failed.hint is not None
    assert hint in failed.hint
    assert failed.exit_code == (code if code > 0 else 128 - code)


def test_a_run_that_is_stopped_ends_in_order() -> None:
    for number in (signal.SIGINT, signal.SIGTERM):
        assert show_run(JOB, Played(0, *EVENTS, sent=number), Style.LINES) == 0


def test_a_second_interrupt_ends_it_at_once(capfd: pytest.CaptureFixture[str]) -> None:
    process = Played(-9, *EVENTS, sent=signal.SIGINT, times=2)
    assert show_run(JOB, process, Style.LINES) == 130
    assert process.is_killed
    told = capfd.readouterr().err
    assert "finishing the batch" in told
    assert "stopped at once" in told
    process = Played(0, *EVENTS, sent=signal.SIGTERM, times=2)  # a supervisor may repeat itself
    assert show_run(JOB, process, Style.LINES) == 0
    assert not process.is_killed


def test_the_table_is_there_before_spark_is() -> None:
    state = RunState("clicks", pid=4_711, launched_s=100.0)
    state.take(EVENTS[0], 101.0)
    assert "starting Spark (8 s)" in shown(state, 109.2)
    assert "process 4711" in shown(state, 108.2)
    state.take(EVENTS[1], 109.0)
    assert "starting" not in shown(state, 109.0)
    assert shown(RunState("clicks"), 8.0).split("(")[0].strip().endswith("starting Spark")
    assert "starting (3 s)" in shown(RunState("clicks", uses_spark=False, launched_s=5.0), 8.0)


def test_at_80_columns_no_word_and_no_number_is_broken() -> None:
    state = RunState("clicks", pid=4_711)
    landed = Landed("main", 1_234_567_890, 12_345, 98_765_432, 0, 7_777_777, 8_888_888, ("a.b",))
    for event in (*EVENTS[:-1], landed):
        state.take(event, 100.0)
    console = Console(file=io.StringIO(), width=80)
    console.print(state.render(104.0))
    text = console.file.getvalue()
    for part in ("1,234,567,890", "98,765,432", "308,641,972", "records/s", "main", "move"):
        assert part in text, text


def test_what_has_ended_is_not_shown_as_started() -> None:
    state = RunState("clicks")
    for event in (*EVENTS, Ended()):
        state.take(event, 100.0)
    assert state.slices["main"].step == "ended"
    assert state.take(Started("queries"), 101.0) == "started"


def test_a_process_that_says_nothing_is_reported_in_words_and_in_json(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert show_run(JOB, Played(-9, *EVENTS), Style.EVENTS) == 137
    reported = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert (reported[-1]["event"], reported[-1]["code"]) == ("error", "job-process-ended")
    assert (reported[-1]["exit_code"], reported[-1]["log"]) == (137, "job.log")
    assert show_run(JOB, Played(-9, *EVENTS), Style.LINES) == 137
    assert "killed with SIGKILL" in capsys.readouterr().err


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
