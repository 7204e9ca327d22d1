"""`JobMetrics`: from the events of a job process to metrics.

What it promises: counters only grow while `ashore run` lives; ages are those of the moment that
asks. Every sample follows from events: nothing is asked of the lake, of Kafka or of Spark.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import cast

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric

from ashore import __version__
from ashore.base.clock import Clock, SystemClock
from ashore.jobs.events import Ended, Event, Landed, QueryProgressed, StepBegun, WarningEvent
from ashore.jobs.failure import Failed
from ashore.jobs.metrics import families
from ashore.jobs.metrics.families import FAMILIES, JOB, OUTCOMES, STEP_BUCKETS_S, Family, Kind
from ashore.log.progress import (
    STOPPED,
    BatchCounted,
    CallsCounted,
    CheckpointCleaned,
    FilesCompacted,
    FilesMoved,
    QueryProgress,
    Retrying,
    SliceMeasured,
    Step,
)

RUNNING, RETRYING, STOPPED_STATE = "running", "retrying", "stopped"
STATES = (RUNNING, RETRYING, STOPPED_STATE)
_Metric = Counter | Gauge | Histogram


@dataclass
class _Slice:
    step: Step | None = None
    step_began_s: float = 0.0
    is_open: bool = False  # it has been opened once
    is_query: bool = False
    lag: int | None = None
    complete_ms: int | None = None
    newest_ms: int | None = None
    dropped: int = 0
    deferred: set[str] = field(default_factory=set)


class _Registry(CollectorRegistry):
    def collect(self) -> Iterator[Metric]:
        for metric in super().collect():
            metric.samples = [each for each in metric.samples if not each.name.endswith("_created")]
            yield metric


class JobMetrics:
    """The metrics of one `ashore run`.

    Arguments:
        job: its name, the label of every sample.
        clock: for ages.

    """

    def __init__(self, job: str, clock: Clock | None = None) -> None:
        self.registry = _Registry()
        self._job = job
        self._clock = clock or SystemClock()
        self._made = {each.name: _make(each, self.registry) for each in FAMILIES}
        self._slices: dict[str, _Slice] = {}
        self._calls: dict[tuple[str, str], int] = {}
        self._start_ms = self._clock.now_ms()
        self._heard_s = self._clock.monotonic_s()
        self._gauge(families.INFO, __version__).set(1)
        self._gauge(families.UP).set(0)
        self._gauge(families.STARTED).set(self._start_ms / 1000)
        self._gauge(families.HANGING).set(0)
        silent = self._gauge(families.SILENT)
        silent.set_function(lambda: self._clock.monotonic_s() - self._heard_s)

    def take(self, event: Event) -> None:
        """Take an event of the job process in. Called by one thread."""
        self._heard_s = self._clock.monotonic_s()
        self._gauge(families.UP).set(1)
        match event:
            case StepBegun():
                self._begin(event)
            case Landed():
                self._counter(families.BATCHES, event.slice).inc()
            case QueryProgressed():
                self._query(event.slice, event.progress)
            case WarningEvent():
                self._warn(event)
            case Ended() | Failed():
                self._gauge(families.UP).set(0)
            case _:
                self._take_measure(event)

    def _take_measure(self, event: Event) -> None:
        match event:
            case BatchCounted():
                self._count_batch(event)
            case FilesMoved():
                self._count_moves(event)
            case SliceMeasured():
                self._measure(event)
            case CallsCounted():
                self._count_calls(event)
            case Retrying():
                self._set_state(event.slice, RETRYING)
            case CheckpointCleaned():
                self._counter(families.CLEANED_FILES, event.slice).inc(event.files)
                self._counter(families.CLEANED_BYTES, event.slice).inc(event.size_bytes)
            case FilesCompacted():
                place = event.slice, event.table
                self._counter(families.COMPACTED_FILES, *place).inc(event.files)
                self._counter(families.COMPACTED_BYTES, *place).inc(event.size_bytes)

    def end(self, exit_code: int) -> None:
        """Take in that the job process has ended."""
        self._gauge(families.UP).set(0)
        self._gauge(families.EXIT_CODE).set(exit_code)

    # ---- each kind of event

    def _begin(self, event: StepBegun) -> None:
        known = self._slice(event.slice)
        if event.before is not None and event.took_ms is not None and event.before != Step.IDLE:
            taken = self._histogram(families.STEPS, event.slice, str(event.before))
            taken.observe(event.took_ms / 1000)
        if event.step is Step.OPEN:
            self._counter(families.RESTARTS, event.slice).inc(1 if known.is_open else 0)
            known.is_open = True
        if event.step is not known.step or event.step is not Step.IDLE:  # a retry begins it anew
            if known.step is not None:
                self._remove(families.STEP_AGE, event.slice, str(known.step))
            known.step, known.step_began_s = event.step, self._clock.monotonic_s()
            age = self._gauge(families.STEP_AGE, event.slice, str(event.step))
            age.set_function(lambda: self._clock.monotonic_s() - known.step_began_s)
        self._set_state(event.slice, RUNNING)

    def _count_batch(self, event: BatchCounted) -> None:
        for each in event.tables:
            key = each.table, each.outcome
            self._counter(families.RECORDS, *key).inc(each.records)
            self._counter(families.FILES, *key).inc(each.files)
            self._counter(families.BYTES, *key).inc(each.size_bytes)
            if each.outcome == "landed":
                # From 0 on: Prometheus sees no increase in the first value of a series.
                self._counter(families.RECORDS, each.table, "dead")
        for name, count in event.counters:
            self._counter(families.COUNTED, event.slice, name).inc(count)
        self._counter(families.FETCHED, event.slice).inc(event.fetched_bytes)
        for table in event.snapshots:
            self._gauge(families.SNAPSHOT_TIME, table).set(self._clock.now_ms() / 1000)

    def _count_moves(self, event: FilesMoved) -> None:
        self._counter(families.PREPARED, event.slice).inc(event.prepared)
        for outcome in OUTCOMES:
            count = getattr(event, outcome)
            self._counter(families.MOVES, event.slice, outcome).inc(count)

    def _measure(self, event: SliceMeasured) -> None:
        known = self._slice(event.slice)
        self._gauge(families.EPOCH, event.slice).set(event.epoch)
        counts = {**dict.fromkeys(known.deferred, 0), **dict(event.deferred)}
        for action, count in counts.items():
            self._gauge(families.DEFERRED, event.slice, action).set(count)
        known.deferred |= counts.keys()
        if event.newest_ms is not None:
            known.newest_ms = event.newest_ms
            age = self._gauge(families.NEWEST_AGE, event.slice)
            age.set_function(lambda: self._age_s(known.newest_ms or 0))
        if event.lag is not None:
            known.complete_ms = event.complete_ms
            self._set_lag(event.slice, event.lag)

    def _query(self, name: str, progress: QueryProgress) -> None:
        known = self._slice(name)
        known.is_query = True
        if progress.state_rows is not None:
            self._gauge(families.STATE_ROWS, name).set(progress.state_rows)
        self._gauge(families.STATE_BYTES, name).set(progress.state_bytes)
        if progress.watermark_ms is not None:
            self._gauge(families.WATERMARK, name).set(progress.watermark_ms / 1000)
        # It counts from the start of the query, which may be a later one than that of the job.
        new = progress.dropped - known.dropped
        self._counter(families.DROPPED, name).inc(new if new >= 0 else progress.dropped)
        known.dropped = progress.dropped
        if progress.lag is not None:
            if progress.lag == 0:
                known.complete_ms = self._clock.now_ms()
            self._set_lag(name, progress.lag)

    def _count_calls(self, event: CallsCounted) -> None:
        self._gauge(families.HANGING).set(event.hanging)
        for call, result, count in event.calls:
            new = count - self._calls.get((call, result), 0)
            self._counter(families.CALLS, call, result).inc(max(0, new))
            self._calls[call, result] = count

    def _warn(self, event: WarningEvent) -> None:
        self._counter(families.WARNINGS, event.slice).inc()
        if event.slice and event.message.startswith(STOPPED):
            self._set_state(event.slice, STOPPED_STATE)

    # ---- samples

    def _set_lag(self, name: str, lag: int) -> None:
        known = self._slice(name)
        known.lag = lag
        self._gauge(families.LAG, name).set(lag)
        self._gauge(families.LAG_SECONDS, name).set_function(lambda: self._lag_s(known))

    def _lag_s(self, known: _Slice) -> float:
        if known.is_query and not known.lag:
            return 0.0  # a query that has nothing to do reports no batch
        since_ms = self._start_ms if known.complete_ms is None else known.complete_ms
        return self._age_s(since_ms)

    def _age_s(self, since_ms: int) -> float:
        return max(0, self._clock.now_ms() - since_ms) / 1000

    def _set_state(self, name: str, state: str) -> None:
        for each in STATES:
            self._gauge(families.STATE, name, each).set(each == state)

    def _slice(self, name: str) -> _Slice:
        if name not in self._slices:
            self._slices[name] = _Slice()
            for outcome in OUTCOMES:  # from 0 on, so that the first one is an increase
                self._counter(families.MOVES, name, outcome)
            self._counter(families.RESTARTS, name)
        return self._slices[name]

    def _counter(self, family: Family, *labels: str) -> Counter:
        return cast("Counter", self._made[family.name].labels(self._job, *labels))

    def _gauge(self, family: Family, *labels: str) -> Gauge:
        return cast("Gauge", self._made[family.name].labels(self._job, *labels))

    def _histogram(self, family: Family, *labels: str) -> Histogram:
        return cast("Histogram", self._made[family.name].labels(self._job, *labels))

    def _remove(self, family: Family, *labels: str) -> None:
        self._made[family.name].remove(self._job, *labels)


def _make(family: Family, registry: CollectorRegistry) -> _Metric:
    labels = (JOB, *family.labels)
    match family.kind:
        case Kind.COUNTER:
            return Counter(family.name, family.meaning, labels, registry=registry)
        case Kind.GAUGE:
            return Gauge(family.name, family.meaning, labels, registry=registry)
        case Kind.HISTOGRAM:
            buckets = STEP_BUCKETS_S
            return Histogram(
                family.name, family.meaning, labels, registry=registry, buckets=buckets
            )
