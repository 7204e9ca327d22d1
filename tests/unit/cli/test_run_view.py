"""What the events of a job process become on a screen."""

import io

from rich.console import Console

from ashore.cli.run_view import RunState

EVENTS = [
    {"event": "starting", "job": "clicks", "lake": "file:///lake"},
    {"event": "started", "job": "clicks"},
    {"event": "step", "slice": "main", "step": "plan"},
    {"event": "step", "slice": "main", "step": "write"},
    {"event": "step", "slice": "main", "step": "move"},
    {"event": "landed", "slice": "main", "rows": 1_000, "files": 2, "lag": 500},
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
    assert state.take({"event": "trouble", "slice": "main", "message": "no broker"}, 1.0)
    assert "no broker" in shown(state, 2.0)
    state.take({"event": "error", "code": "fenced", "message": "gone"}, 3.0)
    assert state.error is not None
