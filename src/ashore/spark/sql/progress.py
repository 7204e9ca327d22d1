"""Where a query is, and the records that it has left out, as Spark's progress tells.

What it promises: each batch is told of once; what is left out is never silent.
What it must not know: who is told.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pyspark.sql.streaming import StreamingQuery

from ashore.jobs.events import QueryProgress
from ashore.spark.sql.views import BAD, LATE


@dataclass
class Reported:
    """The last batch that was told of, and rows left out as too late up to it."""

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
        reported.last = read_progress(progress, reported.dropped)
        for name, row in (progress.get("observedMetrics") or {}).items():
            kind, _, view = name.partition(":")
            if kind == BAD and row and row[0]:
                yield f"batch {batch_id}: {row[0]} records of {view} cannot be decoded"
            if kind == LATE and row and row[0]:
                yield f"batch {batch_id}: {row[0]} records of {view} are behind the watermark"
        if late:
            yield (
                f"batch {batch_id}: {late} rows came later than the watermark allows: operators "
                "with state left them out (an aggregate counts one for each group of a task)"
            )


def read_progress(progress: Mapping[str, Any], dropped: int) -> QueryProgress:
    """Return what Spark tells of a batch. `dropped`: rows left out since the query was started."""
    operators = progress["stateOperators"]
    watermark = (progress.get("eventTime") or {}).get("watermark")
    return QueryProgress(
        batch=int(progress["batchId"]),
        watermark_ms=_to_ms(watermark) if watermark else None,
        state_rows=sum(int(each["numRowsTotal"]) for each in operators),
        state_bytes=sum(_size_of(each) for each in operators),
        commit_ms=sum(int(each["commitTimeMs"]) for each in operators),
        dropped=dropped,
    )


def _size_of(operator: Mapping[str, Any]) -> int:
    files = (operator.get("customMetrics") or {}).get("rocksdbSstFileSize", 0)
    return int(operator["memoryUsedBytes"]) + int(files)


def _to_ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)
