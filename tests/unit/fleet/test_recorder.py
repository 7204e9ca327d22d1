"""What a run writes of itself while its job says a lot."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ashore.fleet.machine import run
from ashore.fleet.machine.run import RunRecorder
from ashore.fleet.records.server_files import RunFiles, RunSeen
from ashore.fleet.records.store import read_record
from ashore.jobs.events import Landed, QueryProgressed, Recovered, StepBegun, WarningEvent
from ashore.log.progress import QueryProgress, Retrying, SliceMeasured, Step
from ashore_lab.testing.clock import FakeClock

BYTES, KEPT, SLICES = 50_000, 3, ("main", "ods.per_minute")
LINE_BYTES_MAX = 1_000


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFiles:
    monkeypatch.setattr(run, "LOG_BYTES", BYTES)
    monkeypatch.setattr(run, "LOGS_KEPT", KEPT)
    return RunFiles(tmp_path)


def take(made: RunRecorder, batches: range) -> None:
    """Have each slice land batches, and warn after each."""
    for batch in batches:
        for name in SLICES:
            made.take(Landed(name, 10, 1, 0, 0, batch, batch + 2, ("ods.events",)))
            made.take(WarningEvent(name, f"a call failed after batch {batch}"))


def logs(files: RunFiles) -> list[Path]:
    """Return the files of the log, the oldest first."""
    rotated = [files.log.with_name(f"{files.log.name}.{each}") for each in range(KEPT + 9, 0, -1)]
    return [path for path in [*rotated, files.log] if path.exists()]


def lines(files: RunFiles) -> Iterator[dict[str, Any]]:
    for path in logs(files):
        for line in path.read_text("utf-8").splitlines():
            yield json.loads(line)


def recording(files: RunFiles) -> RunRecorder:
    made = RunRecorder(files, "run", "clicks", FakeClock())
    for name in SLICES:
        made.take(SliceMeasured(name, 7, 0, (), None, None))
    return made


def test_rotation_loses_no_line_and_each_has_job_slice_epoch_and_batch(files: RunFiles) -> None:
    take(recording(files), range(200))
    assert 2 < len(logs(files)) <= KEPT + 1, "it was rotated, and nothing dropped yet"
    found = [
        (each["job"], each["slice"], each["epoch"], each["batch"], each["kind"])
        for each in lines(files)
    ]
    assert found == [
        ("clicks", name, 7, batch, kind)
        for batch in range(200)
        for name in SLICES
        for kind in ("landed", "warning")
    ]


def test_a_job_that_writes_for_ever_fills_no_disk(files: RunFiles) -> None:
    take(recording(files), range(3_000))
    sizes = [path.stat().st_size for path in logs(files)]
    assert len(sizes) == KEPT + 1
    assert max(sizes) < BYTES + LINE_BYTES_MAX
    batches = [each["batch"] for each in lines(files) if each["slice"] == "main"]
    assert batches[-1] == 2_999, "the newest are there"
    assert batches == sorted(batches)


@pytest.mark.parametrize("over", [Landed("a", 10, 1, 0, 0), Recovered("a", 1_000, 2)])
def test_what_was_tried_again_is_warned_of_until_it_has_passed(
    files: RunFiles, over: Landed | Recovered
) -> None:
    def looked() -> RunSeen:
        made.set_phase("running")  # writes at once
        found = read_record(RunSeen, files.seen)
        assert found is not None
        return found

    def seen() -> tuple[str, ...]:
        return looked().warnings

    made = recording(files)
    made.take(WarningEvent("a", "skipped"))
    for _ in range(2):
        made.take(WarningEvent("a", "No space left on device"))
        made.take(Retrying("a", 500))
        made.take(StepBegun("a", Step.PLAN))
        made.take(StepBegun("a", Step.WRITE))
        made.take(StepBegun("a", Step.IDLE))  # before it looks: it may fail at once
        assert looked().slices[0].state == "retrying"
    since_ms = looked().slices[0].retrying_since_ms
    assert since_ms is not None
    made.take(WarningEvent("b", "no broker answers"))
    made.take(Retrying("b", 500))
    full = "No space left on device"
    assert seen() == ("skipped", full, full, "no broker answers")
    assert looked().slices[0].retrying_since_ms == since_ms, "since the first try"
    made.take(over)
    assert looked().slices[0].retrying_since_ms is None
    assert looked().slices[0].state == "running"
    assert seen() == ("skipped", "no broker answers"), "b goes on trying"


def rate_of(files: RunFiles, made: RunRecorder, name: str = "main") -> int | None:
    made.set_phase("running")
    seen = read_record(RunSeen, files.seen)
    assert seen is not None
    return {each.slice: each.rate for each in seen.slices}[name]


def test_a_rate_is_that_of_the_last_minute(files: RunFiles) -> None:
    clock = FakeClock()
    made = RunRecorder(files, "run", "clicks", clock)
    for batch in range(20):
        clock.advance(10)
        made.take(Landed("main", 600, 1, 0, 0, batch, batch + 2, ("ods.events",)))
    assert rate_of(files, made) == 60
    clock.advance(30)
    assert rate_of(files, made) == 30
    clock.advance(60)
    assert rate_of(files, made) == 0, "not what it was on average since then"
    clock.advance(10)
    made.take(Landed("main", 6_000, 1, 0, 0, 20, 22, ("ods.events",)))
    assert rate_of(files, made) == 60, "6,000 in the 100 s since the last batch"


def test_a_batch_of_many_minutes_has_a_rate_until_the_next_one(files: RunFiles) -> None:
    clock = FakeClock()
    made = RunRecorder(files, "run", "clicks", clock)
    for batch in range(3):
        clock.advance(300)
        made.take(Landed("main", 30_000, 1, 0, 0, batch, batch + 2, ("ods.events",)))
    assert rate_of(files, made) == 100
    clock.advance(150)
    assert rate_of(files, made) == 75, "in a window of ten minutes"


def test_the_rate_of_a_query_is_what_it_reads(files: RunFiles) -> None:
    clock = FakeClock()
    made = RunRecorder(files, "run", "clicks", clock)
    for batch in range(1, 8):
        clock.advance(10)
        made.take(Landed("ods__big", 1, 1, 0, 0, batch, batch + 2, ("ods.big",)))
        read = QueryProgress(batch, None, 5, 600, 7, 0, lag=0, read=500 * batch)
        made.take(QueryProgressed("ods__big", read))
    assert rate_of(files, made, "ods__big") == 50
    made.take(QueryProgressed("ods__big", QueryProgress(8, None, 5, 600, 7, 0, read=100)))
    assert rate_of(files, made, "ods__big") is not None, "started again, it counts from 0"
