"""Where a query is, and the records that it has left out, from Spark's progress.

What it promises: each batch is reported once; what is left out is never silent.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from ashore.log.progress import QueryProgress
from ashore.queries.spark.sql.views import BAD, TIMES


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
    batch_id: int = -1
    dropped: int = 0
    last: QueryProgress | None = None


def report(query: StreamingQuery, reported: Reported) -> Iterator[str]:
    """Yield what the batches since the last call have left out."""
    for progress in query.recentProgress:
        batch_id = int(progress["batchId"])
        if batch_id <= reported.batch_id:
            continue
        reported.batch_id = batch_id
        late = sum(int(each["numRowsDroppedByWatermark"]) for each in progress["stateOperators"])
        reported.dropped += late
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
    return QueryProgress(
        batch=int(progress["batchId"]),
        watermark_ms=_to_ms(watermark) if watermark else None,
        state_rows=sum(int(each["numRowsTotal"]) for each in operators),
        state_bytes=sum(_size_of(each) for each in operators),
        commit_ms=sum(int(each["commitTimeMs"]) for each in operators),
        dropped=reported.dropped,
        held_by=held_by,
        held_since_ms=held_since_ms,
        lag=_lag_of(progress.get("sources") or ()),
    )


def _lag_of(sources: Iterable[Mapping[str, Any]]) -> int | None:
    """Return how many offsets a batch has left behind; None: no source, or one does not say."""
    lags: list[int] = []
    for each in sources:
        latest, read = _offsets(each.get("latestOffset")), _offsets(each.get("endOffset"))
        if not latest or not latest.keys() <= read.keys():
            return None
        lags += [max(0, end - read[shard]) for shard, end in latest.items()]
    return sum(lags) if lags else None


def _offsets(offsets: object) -> dict[tuple[str, str], int]:
    """Return the offsets that Spark reports of a Kafka source, by topic and partition."""
    found = json.loads(offsets) if isinstance(offsets, str) else offsets
    if not isinstance(found, Mapping):
        return {}
    return {
        (topic, shard): int(offset)
        for topic, shards in found.items()
        for shard, offset in shards.items()
    }


def _size_of(operator: Mapping[str, Any]) -> int:
    files = (operator.get("customMetrics") or {}).get("rocksdbSstFileSize", 0)
    return int(operator["memoryUsedBytes"]) + int(files)


def _to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
