"""What the events of a job process become on a screen."""

import io

from rich.console import Console

from ashore.cli.run_view import RunState
from ashore.jobs.events import Failed, Landed, Started, Starting, Step, StepBegun, Trouble

EVENTS = [
    Starting("clicks", "file:///lake"),
    Started("clicks"),
    StepBegun("main", Step.PLAN),
    StepBegun("main", Step.WRITE),
    StepBegun("main", Step.MOVE),
    Landed("main", rows=1_000, files=2, lag=500, hanging=0),
]


def shown(state: RunState, now_s: float) -> str:
    console = Console(file=io.StringIO(), width=120)
    console.print(state.render(now_s))
    return console.file.getvalue()


def test_the_view_shows_records_rate_lag_files_and_the_step() -> None:
    state = RunState("clicks")
    lines = [state.take(event, 100.0 + second) for second, event in enumerate(EVENTS)]
    assert lines[-1] == "landed 1,000 records in 2 files, 333/s, lag 500"
    text = shown(state, 107.0)
    for part in ("clicks", "main", "move", "1,000", "500", "200", "2"):
        assert part in text


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
    assert state.take(Trouble("main", "no broker"), 1.0)
    assert "no broker" in shown(state, 2.0)
    state.take(Failed(3, "fenced", "gone", None), 3.0)
    assert state.error is not None
