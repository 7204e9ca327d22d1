"""A streaming query from its start to its end, in the thread of its turn.

What it is: `StreamWatch`, which waits for the end of a query. Meanwhile it reports progress and
records that were left out, runs deferred actions, cleans older files, and lists the files again
that SQL reads as a table (`Refresher`). `report`, where a query is and what it has left out, from
Spark's progress.
What it promises: each batch is reported once; what is left out is never silent. An error of a batch
is raised as it was, not as Spark reports it. Nothing waits for a listing, however long a NameNode
takes.
"""

import json
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from ashore.base.clock import Clock
from ashore.errors import AshoreError, Fenced
from ashore.jobs.file.source_text import Place
from ashore.log.positions import StreamShard
from ashore.log.progress import QueryProgress
from ashore.queries.spark.internals.reading import reads_files, refresh_files
from ashore.queries.spark.sql.batches import POLL_S, QueryBatches, RunAgain
from ashore.queries.spark.sql.memory import no_answer
from ashore.queries.spark.sql.refusals import explain_failure
from ashore.queries.spark.sql.row_errors import RowError
from ashore.queries.spark.sql.settings import ROW_COUNT
from ashore.queries.spark.sql.views import BAD, TIMES
from ashore.queries.state.cleaner import CheckpointCleaner
from ashore.topics.loop.housekeeping import Housekeeping
from ashore.topics.read.stream_ends import WAITS_FOR, StreamEnd
from ashore.topics.run.spark.causes import outermost_cause


@dataclass
class Inputs:
    """What each view with a watermark has brought since the query was started.

    Spark remembers no longer than that: until a view brings a record, its watermark is the epoch,
    and that of the query, the lowest of all, stays where it was.
    """

    delays_ms: Mapping[str, int] = field(default_factory=dict)  # how late each view's watermark is
    # where the watermarks of idle views are, which the query advances without
    passed_ms: Mapping[str, int] = field(default_factory=dict)
    _newest_ms: dict[str, int] = field(default_factory=dict)
    _brought_ms: dict[str, int] = field(default_factory=dict)
    _silent: set[str] = field(default_factory=set)

    def take(self, observed: Mapping[str, Any], at_ms: int) -> None:
        """Take a batch in that began at `at_ms`. One without records says nothing of silence."""
        brought: set[str] = set()
        for view in self.delays_ms:
            row = observed.get(f"{TIMES}:{view}")
            newest_ms = row[-1] if row else None
            self._brought_ms.setdefault(view, at_ms)
            if newest_ms is not None:
                self._newest_ms[view] = max(newest_ms, self._newest_ms.get(view, newest_ms))
                self._brought_ms[view] = at_ms
                brought.add(view)
        if brought:
            self._silent = self.delays_ms.keys() - brought

    def held_by(self) -> tuple[str | None, int | None]:
        """Return the silent view that the others wait for, and when it brought its last record."""
        marks = {view: self._mark_of(view) for view in self.delays_ms}
        lowest = min(marks, key=lambda view: marks[view], default=None)
        if lowest is None or lowest not in self._silent or len(set(marks.values())) < 2:
            return None, None
        return lowest, self._brought_ms[lowest]

    def _mark_of(self, view: str) -> int:
        newest_ms, passed_ms = self._newest_ms.get(view), self.passed_ms.get(view, 0)
        return passed_ms if newest_ms is None else max(newest_ms - self.delays_ms[view], passed_ms)


@dataclass
class Reported:
    """The last batch that was reported, and rows left out as too late up to it."""

    inputs: Inputs = field(default_factory=Inputs)
    counts_rows: bool = True  # whether Spark counts the rows of the state
    batch_id: int = -1
    dropped: int = 0
    read: int = 0  # offsets
    last: QueryProgress | None = None


class StreamWatch:
    """What is done beside the batches of a query while it runs."""

    def __init__(self, batches: QueryBatches) -> None:
        self.batches = batches
        self.plan, self.parts, self.name = batches.plan, batches.parts, batches.name
        self.left: int | None = None  # the last epoch of this process, once nothing of it runs
        self._next_idle_s = 0.0
        around = self.parts.environment
        self._cleaner = CheckpointCleaner(self.name.slice, around.clock, around.progress)
        self._housekeeping = self._open_house()

    def wait(self, query: StreamingQuery, frame: DataFrame) -> None:
        """Wait for the end of the query. Raises as `SqlQuery.tick`."""
        views = (view for view in self.plan.read_views if view.has_watermark)
        delays_ms = {view.name: view.spec.late.after_ms for view in views}
        counts_rows = self.plan.settings.get(ROW_COUNT) == "true"
        reported = Reported(Inputs(delays_ms, self.batches.passed_ms), counts_rows)
        clock, refresh_s = self.parts.environment.clock, self.plan.refresh_ms / 1000
        refresher = Refresher(frame, refresh_s, clock, self.parts.say)
        try:
            while not query.awaitTermination(POLL_S):
                self._report(query, reported)
                self._housekeeping.tick()
                self._cleaner.step()
                refresher.tick()
                self._idle()
                if self.batches.is_stopping:
                    self.batches.let_batch_end()
                    query.stop()
            self._report(query, reported)
        except PySparkException as error:
            if self.batches.is_stopping and not isinstance(self.batches.failure, Fenced):
                return
            if isinstance(self.batches.failure, AshoreError | RunAgain):
                raise self.batches.failure from error
            raise explain_failure(
                str(self.name), error, self.batches.failure, self._locate
            ) from error
        except (Py4JError, ConnectionError) as error:
            with self.batches.under_way:  # which may be finding out why
                raise no_answer(self.name, error, self.batches.failure) from error
        finally:
            with suppress(Py4JError, ConnectionError):  # of a JVM that has ended
                query.stop()
            self._cleaner.end()
            self.left = self.parts.sink.fold.epoch

    def _locate(self, found: RowError) -> Place:
        return self.plan.script.locate(found.view, found.line, found.column, self.plan.insert)

    def _open_house(self) -> Housekeeping:
        """Return what packs and cleans, while a run of the query has its attempt.

        At once, at first: a batch that was killed may have left files.
        """
        sink, around = self.parts.sink, self.parts.environment
        tables = sink.plan.output.tables if sink.plan.output else ()
        return Housekeeping(
            sink.log,
            self.parts.clean,
            storage=around.storage,
            clock=around.clock,
            progress=around.progress,
            tables=lambda: tables,
            cleans_first=True,
            clean_more=self._clean,
        )

    def _clean(self, now_ms: int, ttl_ms: int) -> None:
        self.plan.attempts.clean(self.parts.sink.fold.epoch, now_ms, ttl_ms)
        self._cleaner.begin(self.batches.checkpoint, now_ms, ttl_ms)

    def _idle(self) -> None:
        """Between batches, once an interval: run deferred actions, look whether the log is ours."""
        clock = self.parts.environment.clock
        if clock.monotonic_s() < self._next_idle_s:
            return
        self._next_idle_s = clock.monotonic_s() + self.plan.interval_ms / 1000
        if self.batches.under_way.acquire(blocking=False):
            try:
                self.parts.sink.idle()
            finally:
                self.batches.under_way.release()

    def _report(self, query: StreamingQuery, reported: Reported) -> None:
        before = reported.last
        for message in report(query, reported):
            self.parts.say(message)
        if reported.last is not None and reported.last is not before:
            self.parts.environment.progress.query(self.name.slice, reported.last)


class Refresher:
    """Lists the files of a frame again, once an interval. `tick` is called by one thread.

    `say`: takes a sentence, from another thread.
    """

    def __init__(
        self, frame: DataFrame, interval_s: float, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._frame = frame
        self._interval_s = interval_s
        self._clock = clock
        self._say = say
        self._is_needed = reads_files(frame)
        self._next_s = clock.monotonic_s() + interval_s
        self._listing = threading.Thread()

    def tick(self) -> None:
        """Begin a listing where it is time, unless the one before is still under way."""
        is_time = self._clock.monotonic_s() >= self._next_s
        if not self._is_needed or not is_time or self._listing.is_alive():
            return
        self._next_s = self._clock.monotonic_s() + self._interval_s
        self._listing = threading.Thread(target=self._list, name="ashore-refresh", daemon=True)
        self._listing.start()

    def _list(self) -> None:
        try:
            refresh_files(self._frame)
        except (PySparkException, Py4JError) as error:
            why = outermost_cause(error)
            self._say(f"files that SQL reads cannot be listed, so the previous list is used: {why}")


# ---- progress


def report(query: StreamingQuery, reported: Reported) -> Iterator[str]:
    """Yield what the batches since the last call have left out."""
    for progress in query.recentProgress:
        batch_id = int(progress["batchId"])
        if batch_id <= reported.batch_id:
            continue
        reported.batch_id = batch_id
        late = sum(int(each["numRowsDroppedByWatermark"]) for each in progress["stateOperators"])
        reported.dropped += late
        reported.read += _count_read(progress.get("sources") or ())
        observed = progress.get("observedMetrics") or {}
        reported.inputs.take(observed, _to_ms(progress["timestamp"]))
        reported.last = read_progress(progress, reported)
        for name, row in observed.items():
            kind, _, view = name.partition(":")
            if kind == BAD and row and row[0]:
                yield f"batch {batch_id}: {row[0]} records of {view} cannot be decoded"
            if kind == TIMES and row and row[0]:
                yield f"batch {batch_id}: {row[0]} records of {view} are behind the watermark"
            if kind == TIMES and row and row[1]:
                yield (
                    f"batch {batch_id}: {row[1]} records of {view} are left out: their event time "
                    "is further ahead than `future_max`"
                )
        if late:
            yield (
                f"batch {batch_id}: {late} rows were later than the watermark: stateful operators "
                "dropped them (an aggregate counts one for each group of a task)"
            )


def read_progress(progress: Mapping[str, Any], reported: Reported) -> QueryProgress:
    """Return Spark's progress of a batch that `reported` has taken in."""
    held_by, held_since_ms = reported.inputs.held_by()
    operators = progress["stateOperators"]
    watermark = (progress.get("eventTime") or {}).get("watermark")
    rows = sum(int(each["numRowsTotal"]) for each in operators)
    return QueryProgress(
        batch=int(progress["batchId"]),
        watermark_ms=_to_ms(watermark) if watermark else None,
        state_rows=rows if reported.counts_rows else None,
        state_bytes=sum(_size_of(each) for each in operators),
        commit_ms=sum(int(each["commitTimeMs"]) for each in operators),
        dropped=reported.dropped,
        held_by=held_by,
        held_since_ms=held_since_ms,
        lag=_lag_of(progress.get("sources") or ()),
        behind=_behind_of(progress.get("sources") or ()),
        read=reported.read,
    )


def _behind_of(sources: Iterable[Mapping[str, Any]]) -> str | None:
    """Return the topic partition that others waited for when a batch was planned, if any did."""
    for each in sources:
        waits_for = _document(each.get("latestOffset")).get(WAITS_FOR)
        if waits_for:
            return f"{waits_for['topic']}/{waits_for['partition']}"
    return None


def _lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many offsets a batch has left behind; None: no source, or one does not say."""
    lags: list[int] = []
    for each in sources:
        latest, read = _offsets(each.get("latestOffset")), _offsets(each.get("endOffset"))
        if not latest or not latest.keys() <= read.keys():
            return None
        lags += [max(0, end - read[shard]) for shard, end in latest.items()]
    return sum(lags) if lags else None


def _count_read(sources: Iterable[Mapping[str, Any]]) -> int:
    """Return how many offsets a batch has read; of a partition that it was the first to read, 0."""
    ends = [
        (_offsets(each.get("startOffset")), _offsets(each.get("endOffset"))) for each in sources
    ]
    return sum(
        max(0, read[shard] - at)
        for start, read in ends
        for shard, at in start.items()
        if shard in read
    )


def _offsets(offsets: object) -> dict[StreamShard, int]:
    """Return the offsets that Spark reports of a stream of topics; of others none."""
    found = {name: value for name, value in _document(offsets).items() if name != WAITS_FOR}
    try:
        return dict(StreamEnd.parse(found).shards()) if found else {}
    except ValueError:
        return {}


def _document(offsets: object) -> Mapping[str, Any]:
    found = json.loads(offsets) if isinstance(offsets, str) else offsets
    return found if isinstance(found, Mapping) else {}


def _size_of(operator: Mapping[str, Any]) -> int:
    files = (operator.get("customMetrics") or {}).get("rocksdbSstFileSize", 0)
    return int(operator["memoryUsedBytes"]) + int(files)


def _to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
