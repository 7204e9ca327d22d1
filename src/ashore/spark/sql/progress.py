"""Records that a query has left out, as Spark's progress tells.

What it promises: each batch is told of once; what is left out is never silent.
What it must not know: who is told.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from pyspark.sql.streaming import StreamingQuery

from ashore.spark.sql.views import BAD


@dataclass
class Reported:
    """The last batch that was told of."""

    batch_id: int = -1


def report(query: StreamingQuery, reported: Reported) -> Iterator[str]:
    """Yield what the batches since the last call have left out."""
    for progress in query.recentProgress:
        batch_id = int(progress["batchId"])
        if batch_id <= reported.batch_id:
            continue
        reported.batch_id = batch_id
        for name, row in (progress.get("observedMetrics") or {}).items():
            kind, _, view = name.partition(":")
            if kind == BAD and row and row[0]:
                yield f"batch {batch_id}: {row[0]} records of {view} cannot be decoded"
        late = sum(int(each["numRowsDroppedByWatermark"]) for each in progress["stateOperators"])
        if late:
            yield f"batch {batch_id}: {late} rows came later than the watermark allows"
