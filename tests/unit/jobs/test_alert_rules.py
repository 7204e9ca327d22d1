"""The alert rules of `examples/monitoring`, on jobs that are made to fail, in time that is moved.

A job runs in memory: its loop, its log, its moves. Its events go to the metrics as `ashore run`
gets them, the metrics are scraped each half minute, and the rules are evaluated as Prometheus does
(`tests/promql.py`).
"""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from tests.promql import Samples, evaluate
from tests.specs import landing

from ashore.base.unique import unique
from ashore.errors import OffsetsGone, SourceUnreachable, StorageError
from ashore.jobs.events import Event, QueryProgressed, decode_event, encode_event
from ashore.jobs.metrics.families import FAMILIES, JOB, Kind
from ashore.jobs.metrics.job_metrics import JobMetrics
from ashore.jobs.writer import EventWriter
from ashore.log.names import SliceName
from ashore.log.plan_batch import Limits
from ashore.log.positions import StreamShard
from ashore.log.progress import BatchCounted, QueryProgress, SliceMeasured, Step, TableCounts
from ashore.log.store.log import LandingLog, LogContext
from ashore.storage import DeadlineStorage, MemoryStorage, Storage, count_calls
from ashore.storage.base import Staged
from ashore.storage.open import LakeAddress
from ashore.topics.loop.housekeeping import CleanRule
from ashore.topics.loop.job_loop import JobLoop, Rhythm
from ashore.topics.loop.slice_loop import SliceLoop, SliceParts, SlicePlan
from ashore.topics.read.source import FirstOffset
from ashore_lab.testing.clock import FakeClock
from ashore_lab.testing.runner import RecordedRunner
from ashore_lab.testing.source import RecordedSource
from ashore_lab.testing.wrapper import WrappedStorage

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "examples" / "monitoring"
SCRAPE_S = 30.0
MINUTE_S = 60.0
SHARD = StreamShard("clicks", "0")


def load_rules(name: str = "alerts.yaml") -> list[Mapping[str, Any]]:
    document = YAML(typ="safe").load((FOLDER / name).read_text("utf-8"))
    return [rule for group in document["groups"] for rule in group["rules"]]


RULES = load_rules()


class Monitor:
    """Prometheus: scrapes a registry and evaluates the rules, each time one is due."""

    def __init__(self, metrics: JobMetrics, scrape_s: float = SCRAPE_S) -> None:
        self._metrics = metrics
        self.scrape_s = scrape_s
        self._pending: dict[tuple[str, frozenset[tuple[str, str]]], float] = {}
        self.samples = Samples()
        self.fired: set[str] = set()
        self.now_s = 0.0

    def tick(self) -> None:
        self.samples.scrape(self.now_s, self._metrics.registry)
        for rule in RULES:
            self._evaluate(rule)
        self.now_s += self.scrape_s

    def _evaluate(self, rule: Mapping[str, Any]) -> None:
        name, wait_s = rule["alert"], _seconds(rule.get("for", "0s"))
        found = evaluate(self.samples, rule["expr"], self.now_s)
        for key in [each for each in self._pending if each[0] == name and each[1] not in found]:
            del self._pending[key]
        for labels in found:
            since_s = self._pending.setdefault((name, labels), self.now_s)
            if self.now_s - since_s >= wait_s:
                self.fired.add(name)


def _seconds(text: str) -> float:
    return float(text[:-1]) * {"s": 1, "m": 60, "h": 3600}[text[-1]]


class Time(FakeClock):
    """Time that passes a second at a time, so that who looks now and then can look."""

    def __init__(self) -> None:
        super().__init__()
        self.on_second: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        left_s = seconds
        while left_s > 0:
            super().advance(min(1.0, left_s))
            left_s -= 1.0
            self.on_second()


class Wire(EventWriter):
    """The events of a job process, as its parent gets them."""

    def __init__(self, take: Callable[[Event], None], clock: Time) -> None:
        super().__init__(int, count_calls)
        self._clock = clock  # type: ignore[assignment]
        self._take = take

    def send(self, event: Event) -> None:
        read = decode_event(json.loads(json.dumps(encode_event(event))))
        assert read == event
        self._take(read)


class Weak(WrappedStorage):
    """A lake that refuses kinds of calls while it is told to."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.refuses_moves = False

    def publish(self, staged: Staged, final: str) -> None:
        if self.refuses_moves:
            raise StorageError("the NameNode is in safe mode")
        super().publish(staged, final)


class Site:
    """A job, its metrics and who watches it. `run` ends after so many minutes of its time."""

    def __init__(self, *, records: int = 10) -> None:
        self.clock = Time()
        self.metrics = JobMetrics("clicks", self.clock)
        self.monitor = Monitor(self.metrics)
        self.wire = Wire(self.metrics.take, self.clock)
        self.lake = Weak(MemoryStorage(clock=self.clock))
        self.storage = DeadlineStorage(self.lake, 30.0)
        self.source = RecordedSource(clock=self.clock)
        self.source.create("clicks", 1)
        self.produce(records)
        self.at: dict[float, Callable[[], None]] = {}
        self._passed_s = 0
        self.loop = self._loop()
        self.is_frozen = False
        self.clock.on_second = self._second

    def _loop(self) -> JobLoop:
        name = SliceName("job", "main")
        plan = SlicePlan(
            LakeAddress("memory:"), name,
            lambda: {"clicks": landing(table="ods.clicks")}, frozenset({"clicks"}),
            lambda _name, _first: FirstOffset("earliest"), False,
            Limits(100, 1 << 30, 2), 1,
        )  # fmt: skip
        log = LandingLog(LogContext(self.storage, self.clock, unique), name)
        runner = RecordedRunner(self.source, self.storage)
        parts = SliceParts(self.storage, self.source, runner, log, self.clock, self.wire)
        rhythm = Rhythm(10.0, CleanRule(1e9, 0), 2.0, until_drained=False)
        return JobLoop(
            [SliceLoop(plan, parts)], [], rhythm,
            storage=self.storage, clock=self.clock, progress=self.wire, tables=list,
        )  # fmt: skip

    def produce(self, count: int, value: bytes | None = None) -> None:
        now_ms = self.clock.now_ms()
        self.source.append(SHARD, *[value or b'{"ts": %d}' % now_ms] * count)

    def run(self, minutes: float, **at: Callable[[], None]) -> set[str]:
        """Run the job, and return which alerts fired. `at`: what happens in which minute, `m5`."""
        self.at = {float(name[1:]) * MINUTE_S: act for name, act in at.items()}
        self.at[minutes * MINUTE_S] = self.loop.stop
        self.loop.run()
        return self.monitor.fired

    def _second(self) -> None:
        self._passed_s += 1
        if not self.is_frozen and self._passed_s % 5 == 0:
            self.wire.beat()
        if self._passed_s % 30 == 0:
            self.produce(2)
        if self._passed_s % self.monitor.scrape_s == 0:
            self.monitor.tick()
        self.at.pop(float(self._passed_s), lambda: None)()

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {JOB: "clicks", **labels})


def test_a_job_that_goes_well_fires_nothing() -> None:
    site = Site()
    assert site.run(10) == set()
    assert (site.value("ashore_records_total", table="ods.clicks", outcome="landed") or 0) >= 30
    assert site.value("ashore_lag_records", slice="main") == 0


def test_kafka_that_is_away_is_a_lag_and_retries() -> None:
    site = Site()

    def away(_shards: object) -> Any:
        raise SourceUnreachable("no broker")

    found = site.run(40, m5=lambda: setattr(site.source, "read_offsets", away))
    assert found == {"AshoreRetrying", "AshoreLagging"}


@pytest.mark.slow
def test_a_lake_that_refuses_moves_is_seen_and_the_moves_add_up() -> None:
    site = Site()
    found = site.run(
        40,
        m5=lambda: setattr(site.lake, "refuses_moves", True),
        m35=lambda: setattr(site.lake, "refuses_moves", False),
    )
    assert found == {"AshoreRetrying", "AshoreLagging", "AshoreStorageFailing"}
    moves = {
        outcome: site.value("ashore_moves_total", slice="main", outcome=outcome) or 0
        for outcome in ("moved", "already_moved", "lost", "conflict", "pending")
    }
    assert moves["pending"] > 10
    assert moves["moved"] > 0
    assert sum(moves.values()) == site.value("ashore_prepared_files_total", slice="main")
    assert (site.value("ashore_restarts_total", slice="main") or 0) > 10


def test_a_lake_that_loses_files_stops_the_job_and_pages() -> None:
    site = Site()

    def lose(staged: Staged, _final: str) -> None:
        site.lake.delete(staged.path)
        raise StorageError("no answer")

    with pytest.raises(Exception, match="are gone"):
        site.run(30, m2=lambda: setattr(site.lake, "publish", lose))
    end(site, 4)
    assert site.monitor.fired == {"AshoreFilesLost", "AshoreSliceStopped", "AshoreDown"}


def end(site: Site, exit_code: int) -> None:
    """Let the process end, and ten minutes pass."""
    site.is_frozen = True
    site.metrics.end(exit_code)
    site.clock.advance(10 * MINUTE_S)
    assert site.value("ashore_exit_code") == exit_code


def test_a_gap_stops_the_job_and_pages() -> None:
    site = Site()

    def expire() -> None:
        site.produce(50)
        site.source.expire(SHARD, 60)

    with pytest.raises(OffsetsGone):
        site.run(30, m2=expire)
    end(site, 4)
    assert site.monitor.fired == {"AshoreSliceStopped", "AshoreDown"}


def test_a_frozen_process_is_silent_then_stuck_then_behind() -> None:
    site = Site()
    site.run(10)
    site.wire.step("main", Step.WRITE)
    site.is_frozen = True
    site.clock.advance(MINUTE_S)
    assert site.monitor.fired == {"AshoreSilent"}
    site.clock.advance(30 * MINUTE_S)
    assert site.monitor.fired == {"AshoreSilent", "AshoreStepStuck", "AshoreLagging"}


@pytest.mark.slow
def test_producers_that_are_silent_are_no_lag() -> None:
    site = Site()
    site.produce = lambda *_: None  # type: ignore[method-assign]
    assert site.run(150) == {"AshoreNoNewRecords"}


def test_records_that_cannot_be_decoded_are_seen() -> None:
    site = Site()
    produce = site.produce
    site.produce = lambda count, *_: produce(count, b"no json")  # type: ignore[method-assign]
    assert site.run(30) == {"AshoreDeadRecords"}


def test_few_dead_letters_among_many_records_fire_nothing() -> None:
    site = Site()
    produce = site.produce

    def produce_mixed(_count: int, _value: bytes | None = None) -> None:
        produce(150)
        produce(1, b"no json")

    site.produce = produce_mixed  # type: ignore[method-assign,assignment]
    assert site.run(30) == set()
    assert (site.value("ashore_records_total", table="ods.clicks", outcome="dead") or 0) >= 30


# What takes a query, a catalog or a supervisor is reported as these do.


def told(events: Callable[[float], Iterator[Event]], hours: float) -> set[str]:
    """Return which alerts fire while a job reports `events` of an hour, every two minutes."""
    clock = FakeClock()
    metrics = JobMetrics("clicks", clock)
    monitor = Monitor(metrics, 2 * MINUTE_S)
    for number in range(round(hours * 30)):
        for event in events(number / 30):
            metrics.take(event)
        monitor.tick()
        clock.advance(2 * MINUTE_S)
    return monitor.fired


def test_a_catalog_that_is_away_is_seen() -> None:
    def measured(hour: float) -> Iterator[Event]:
        owed = (("register", 3),) if hour > 0.5 else ()
        yield SliceMeasured("main", 1, None, owed, None, None)

    assert told(measured, 2) == {"AshoreDeferredActions"}


def test_late_records_are_seen() -> None:
    def counted(_hour: float) -> Iterator[Event]:
        tables = (TableCounts("ods.clicks", "landed", 80, 1, 10),)
        yield BatchCounted("main", tables, (("late", 20),), 800)

    assert told(counted, 2) == {"AshoreLateRecords"}


def test_state_that_doubles_in_a_day_is_seen() -> None:
    def progress(hour: float) -> Iterator[Event]:
        size = round(1e8 * 1.2**hour)
        yield QueryProgressed("ods__big", QueryProgress(1, None, 5, size, 7, 0, lag=0))

    assert told(progress, 30) == {"AshoreStateGrows"}


def test_a_job_that_is_started_again_and_again_is_seen() -> None:
    site = Site(records=0)
    for start_ms in range(5):
        site.metrics = JobMetrics("clicks", site.clock)
        site.monitor._metrics = site.metrics
        site.wire._take = site.metrics.take
        site.clock.advance(MINUTE_S + start_ms)
    assert site.monitor.fired == {"AshoreRestarting"}


def test_calls_that_hang_are_seen() -> None:
    site = Site(records=0)
    site.wire._count_hanging = lambda: 20
    site.clock.advance(10 * MINUTE_S)
    assert site.monitor.fired == {"AshoreHangingCalls"}


def test_nothing_at_the_port_is_seen() -> None:
    site = Site(records=0)
    for minute in range(10):
        site.monitor.samples.add(minute * MINUTE_S, "up", {"job": "ashore", "instance": "a"}, 0)
        site.clock.advance(MINUTE_S)
    assert site.monitor.fired == {"AshoreGone"}


# ---- what rules and dashboard name

SAMPLES = {
    f"{each.name}{suffix}": {JOB, *each.labels}
    for each in FAMILIES
    for suffix in (("_bucket", "_sum", "_count") if each.kind is Kind.HISTOGRAM else ("",))
}
SELECTOR = re.compile(r"\b(ashore_[a-z_]+)(?:\{([^}]*)\})?")


def panel_expressions() -> list[str]:
    document = json.loads((FOLDER / "dashboard.json").read_text("utf-8"))
    found = [target["expr"] for panel in document["panels"] for target in panel.get("targets", [])]
    return [each.replace("$__rate_interval", "5m").replace("$job", ".*") for each in found]


@pytest.mark.parametrize("expression", [each["expr"] for each in RULES] + panel_expressions())
def test_expressions_are_promql_over_metrics_that_there_are(expression: str) -> None:
    evaluate(Samples(), expression, 0.0)
    named = SELECTOR.findall(expression)
    for name, matchers in named:
        if name == JOB:
            continue
        assert name in SAMPLES, name
        labels = set(re.findall(r"([a-z_]+)\s*(?:=~|!=|!~|=)", matchers))
        assert labels <= SAMPLES[name] | {"le"}, (name, labels)


def test_each_metric_is_on_the_dashboard_or_in_a_rule() -> None:
    text = " ".join([*(each["expr"] for each in RULES), *panel_expressions()])
    assert {each.name for each in FAMILIES if each.name not in text} <= {"ashore_exit_code"}


def test_each_alert_has_a_section_that_says_what_to_do() -> None:
    page = (ROOT / "docs" / "operate" / "at-3am.md").read_text("utf-8")
    rules = [*RULES, *load_rules("fleet-alerts.yaml")]
    for rule in rules:
        assert f"\n### {rule['alert']}\n" in page, rule["alert"]
        assert rule["annotations"]["runbook"] == f"docs/operate/at-3am.md#{rule['alert'].lower()}"
    headings = set(re.findall(r"^### (Ashore\w+)$", page, re.MULTILINE))
    assert headings == {rule["alert"] for rule in rules}
