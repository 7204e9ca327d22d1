"""Metrics at a port and in a file."""

import socket
import time
from pathlib import Path
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from ashore.errors import MetricsNotExported
from ashore.jobs.events import Landed, StepBegun
from ashore.jobs.file.metrics import Metrics
from ashore.jobs.metrics.export import exported
from ashore.jobs.metrics.families import FAMILIES, JOB, Kind
from ashore.jobs.metrics.job_metrics import JobMetrics
from ashore.log.progress import BatchCounted, CallsCounted, Step
from ashore_lab.testing.clock import FakeClock


def fail(message: str) -> None:
    raise AssertionError(message)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def samples_of(text: str) -> list[Sample]:
    return [each for family in text_string_to_metric_families(text) for each in family.samples]


def samples(text: str) -> dict[str, float]:
    found = {}
    for each in samples_of(text):
        own = sorted(value for key, value in each.labels.items() if key != JOB)
        found[f"{each.name}{own}"] = each.value
    return found


def test_a_port_serves_what_was_counted_and_is_free_again() -> None:
    metrics, port = JobMetrics("clicks"), free_port()
    where = Metrics(port=port, host="127.0.0.1")
    with exported(metrics.registry, where, fail):
        metrics.take(Landed("main", 10, 2, 0, 0))
        with urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            text = answer.read().decode()
    assert samples(text)["ashore_batches_total['main']"] == 1
    assert all(each.labels[JOB] == "clicks" for each in samples_of(text))
    assert "_created" not in text
    with exported(metrics.registry, where, fail):
        pass


def test_a_port_that_is_taken_is_refused_before_anything_starts() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = Metrics(port=taken.getsockname()[1], host="127.0.0.1")
        with (
            pytest.raises(MetricsNotExported, match="in use"),
            exported(JobMetrics("clicks").registry, where, fail),
        ):
            pass


def test_a_file_is_replaced_now_and_then_and_keeps_the_end(tmp_path: Path) -> None:
    metrics, path = JobMetrics("clicks"), tmp_path / "clicks.prom"
    with exported(metrics.registry, Metrics(file=str(path), every="20ms"), fail):
        assert samples(path.read_text())["ashore_up[]"] == 0
        metrics.take(Landed("main", 10, 2, 0, 0))
        deadline_s = time.monotonic() + 10
        while samples(path.read_text())["ashore_up[]"] == 0:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
        metrics.end(4)
    assert samples(path.read_text())["ashore_exit_code[]"] == 4
    assert [each.name for each in tmp_path.iterdir()] == ["clicks.prom"]


def test_a_file_that_cannot_be_written_is_refused_at_first_and_told_later(tmp_path: Path) -> None:
    registry, told = JobMetrics("clicks").registry, list[str]()
    away = Metrics(file=str(tmp_path / "none" / "clicks.prom"))
    with pytest.raises(MetricsNotExported), exported(registry, away, fail):
        pass
    folder = tmp_path / "folder"
    folder.mkdir()
    where = Metrics(file=str(folder / "clicks.prom"), every="10ms")
    with exported(registry, where, told.append):
        (folder / "clicks.prom").unlink()
        folder.rmdir()
        deadline_s = time.monotonic() + 10
        while not told:
            assert time.monotonic() < deadline_s
            time.sleep(0.01)
    assert len(told) == 1


def test_calls_are_counted_once_although_they_are_reported_in_all() -> None:
    metrics = JobMetrics("clicks")
    metrics.take(CallsCounted((("move", "ok", 3),), 0))
    metrics.take(CallsCounted((("move", "ok", 5), ("move", "failed", 1)), 2))
    value = metrics.registry.get_sample_value
    calls = "ashore_storage_calls_total"
    assert value(calls, {JOB: "clicks", "call": "move", "result": "ok"}) == 5
    assert value(calls, {JOB: "clicks", "call": "move", "result": "failed"}) == 1
    assert value("ashore_hanging_calls", {JOB: "clicks"}) == 2


def test_a_table_has_the_time_of_its_last_snapshot() -> None:
    clock = FakeClock()
    metrics = JobMetrics("clicks", clock)
    value = metrics.registry.get_sample_value
    metrics.take(BatchCounted("main", (), (), 10, ("ods.clicks",)))
    clock.advance(60)
    metrics.take(BatchCounted("main", (), (), 10))
    name, labels = "ashore_snapshot_time_seconds", {JOB: "clicks", "table": "ods.clicks"}
    assert value(name, labels) == clock.now_ms() / 1000 - 60
    assert value(name, {**labels, "table": "ods.orders"}) is None


def test_a_step_is_observed_when_the_next_begins_and_idle_is_none() -> None:
    clock = FakeClock()
    metrics = JobMetrics("clicks", clock)
    value = metrics.registry.get_sample_value
    for step, before, took_ms in (
        (Step.PLAN, Step.IDLE, 9_000),
        (Step.WRITE, Step.PLAN, 40),
        (Step.PREPARE, Step.WRITE, 1_500),
    ):
        metrics.take(StepBegun("main", step, before, took_ms))
        clock.advance(2)
    name, labels = "ashore_step_seconds", {JOB: "clicks", "slice": "main"}
    assert value(f"{name}_sum", {**labels, "step": "write"}) == 1.5
    assert value(f"{name}_bucket", {**labels, "step": "write", "le": "1.0"}) == 0
    assert value(f"{name}_bucket", {**labels, "step": "write", "le": "2.5"}) == 1
    assert value(f"{name}_sum", {**labels, "step": "idle"}) is None
    assert value("ashore_step_age_seconds", {**labels, "step": "prepare"}) == 2
    assert value("ashore_step_age_seconds", {**labels, "step": "write"}) is None


def test_names_follow_prometheus() -> None:
    assert len({each.name for each in FAMILIES}) == len(FAMILIES)
    for each in FAMILIES:
        assert each.name.startswith("ashore_")
        assert each.name.endswith("_total") == (each.kind is Kind.COUNTER), each.name
        assert JOB not in each.labels
