"""What a job did over an hour, a day and a week, from its process to its page."""

from dataclasses import asdict
from pathlib import Path

import pytest

from ashore.fleet.machine.run import RunRecorder
from ashore.fleet.records.history import (
    SAMPLE_EVERY_MS,
    JobSample,
    read_history,
    split_at_gaps,
    thin,
    write_sample,
)
from ashore.fleet.records.server_files import RunFiles
from ashore.fleet.records.store import append_line
from ashore.fleet.server.pages.job_view import view_history
from ashore.jobs.events import Beat, Landed, StepBegun
from ashore.log.progress import BatchCounted, Step, TableCounts
from ashore_lab.testing.clock import FakeClock

DAY_MS, WEEK_MS = 86_400_000, 604_800_000


def sample(at_ms: int, landed: int = 1, lag: int | None = 0, batch_ms: int | None = 5) -> JobSample:
    return JobSample(at_ms, lag, landed, 0, 0, batch_ms)


def land(made: RunRecorder, clock: FakeClock, batch: int, lag: int) -> None:
    """Land 7 records, 2 of them late, beside 3 dead letters, within a second."""
    counts = (("landed", 5), ("late", 2), ("dead", 3), ("filtered", 100))
    made.take(StepBegun("main", Step.WRITE))
    clock.advance(1)
    tables = tuple(TableCounts("ods.clicks", name, count, 1, 1) for name, count in counts)
    made.take(BatchCounted("main", tables, (), 0))
    made.take(Landed("main", 7, 3, lag, 0, batch, batch + 2))
    made.take(StepBegun("main", Step.IDLE, Step.WRITE, 1_000))


def test_a_run_writes_what_it_did_since_the_sample_before(tmp_path: Path) -> None:
    clock, files = FakeClock(), RunFiles(tmp_path)
    made = RunRecorder(files, "run", "clicks", clock)
    made.take(Beat())
    land(made, clock, 0, 40)
    land(made, clock, 1, 30)
    clock.advance(SAMPLE_EVERY_MS / 1000)
    made.take(Beat())
    clock.advance(SAMPLE_EVERY_MS / 1000)
    made.take(Beat())
    _, busy, idle = read_history(files.history, 0)
    assert (busy.landed, busy.late, busy.dead, busy.lag, busy.batch_ms) == (10, 4, 6, 30, 1_000)
    assert (idle.landed, idle.late, idle.dead, idle.lag, idle.batch_ms) == (0, 0, 0, 30, None)
    assert idle.at_ms - busy.at_ms == SAMPLE_EVERY_MS


def test_a_week_is_kept_and_little_more(tmp_path: Path) -> None:
    path, last = tmp_path / "history.jsonl", 2 * WEEK_MS
    largest = JobSample(10**13, 10**9, 10**7, 10**6, 10**6, 10**5)
    for at_ms in range(0, last, SAMPLE_EVERY_MS):
        line = {**asdict(largest), "at_ms": 10**12 + at_ms}
        append_line(path, line, 2_500_000, 1)
    found = read_history(path, 10**12 + last - WEEK_MS)
    assert len(found) == WEEK_MS // SAMPLE_EVERY_MS
    assert sum(each.stat().st_size for each in tmp_path.iterdir()) < 5_100_000


def test_a_damaged_line_costs_itself_alone(tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    write_sample(path, sample(1))
    with path.open("a") as file:
        file.write('{"at_ms": 2, "lag"\n[]\n{"at_ms": "3"}\n')
    write_sample(path, sample(4))
    assert [each.at_ms for each in read_history(path, 0)] == [1, 4]
    assert [each.at_ms for each in read_history(path, 2)] == [4]
    assert read_history(tmp_path / "none.jsonl", 0) == ()


@pytest.mark.parametrize("count", [1, 7, 240, 2_000])
def test_thinning_loses_no_record_and_no_peak(count: int) -> None:
    samples = [sample(at_ms, at_ms % 5, at_ms % 911, at_ms % 677) for at_ms in range(1_000)]
    found = thin(samples, count)
    assert len(found) == min(count, 1_000)
    assert sum(each.landed for each in found) == sum(each.landed for each in samples)
    assert max(each.lag or 0 for each in found) == 910
    assert max(each.batch_ms or 0 for each in found) == 676
    assert found[-1].at_ms == 999


def test_while_a_job_did_not_run_there_is_no_line() -> None:
    samples = [sample(each * SAMPLE_EVERY_MS) for each in (1, 2, 3, 50, 51)]
    shown = [each is not None for _, each in split_at_gaps(samples)]
    assert shown == [True, True, True, False, False, True, True]


def test_the_page_shows_records_per_second_and_ends_with_the_lag_of_its_figures() -> None:
    samples = [sample(each * 30_000, 300, 7) for each in range(1, 10)]
    view = view_history(samples, "hour", 12, 300_000)
    rate, lag, batch = view["charts"]  # type: ignore[misc]
    assert "records landed per second" in rate
    assert "at most 10" in rate
    assert "at most 12" in lag
    assert "longest batch" in batch


def test_dead_letters_have_a_chart_once_there_are_some() -> None:
    samples = [JobSample(each * 30_000, 0, 1, 0, each == 3, 1) for each in range(1, 10)]
    charts = view_history(samples, "hour", 0, 300_000)["charts"]
    assert [("dead letters" in each, "late" in each) for each in charts][3:] == [(True, False)]  # type: ignore[attr-defined]


def test_a_job_without_samples_has_no_charts() -> None:
    assert not any(view_history([], "week", None, 5)["charts"])  # type: ignore[call-overload]


def test_days_are_named_over_a_week() -> None:
    day = 1_795_046_400_000  # 2026-11-19T00:00:00Z
    samples = [sample(day + each * DAY_MS // 4) for each in range(29)]
    rate = view_history(samples, "week", None, 0)["charts"][0]  # type: ignore[index]
    assert ">11-21<" in rate
    assert "from 11-19 to 11-26 UTC" in rate
