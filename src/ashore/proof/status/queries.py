"""Where the query of a slice stands: from its log, and from the heartbeat of its job process.

What it promises: pure. What only the job process knows (watermark, state, why the query stopped) is
None without a heartbeat that is believed.
"""

from dataclasses import dataclass

from ashore.jobs.heartbeat import WorkerBeat
from ashore.jobs.state import JobState, Judged
from ashore.log.entries.batch import SENT
from ashore.log.fold import Fold
from ashore.log.plan_query import NO_BATCH
from ashore.log.tables import DEAD_SUFFIX
from ashore.topics.loop.sinks import FAR_FUTURE, LATE


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The query whose rows a slice takes. Times are in milliseconds."""

    query_id: str  # Spark's; empty before its first batch
    batch_id: int  # the last batch that is in the table; -1: none
    state: JobState
    why: str | None  # it stopped
    since_ms: int | None  # when it stopped, or ended its last batch
    late: int  # records that it has read behind its watermark
    far_future: int  # records that are in no view, as their event time is too far ahead
    dropped: int | None  # rows left out as too late, since it was started
    watermark_ms: int | None
    state_rows: int | None
    state_bytes: int | None
    commit_ms: int | None  # how long it took to commit the state of the last batch
    held_by: str | None  # the view whose silence holds the watermark back
    held_since_ms: int | None  # when that brought its last record, or the query was started
    behind: str | None  # TOPIC/PARTITION that the others of its topics are read in step with
    begins_after: int | None = None  # the batch of the savepoint that its log begins with


def count_records(fold: Fold) -> tuple[int, int]:
    """Return how many records a slice has fetched, and how many have landed.

    Of a query: how many offsets it has read, and how many rows are in its table, in partitions that
    the log keeps in mind, or went into its topic.
    """
    shards = fold.shards.values()
    if fold.query is None:
        return sum(each.fetched for each in shards), sum(each.landed for each in shards)
    tables = (each for each in fold.partitions.values() if not each.table.endswith(DEAD_SUFFIX))
    rows = sum(each.rows for each in tables) + fold.counters.get(SENT, 0)
    return sum(each.next - each.first for each in shards), rows


def read_query(fold: Fold, job: Judged, worker: WorkerBeat | None) -> QueryStatus | None:
    """Return where a query stands; None: the slice lands topics.

    Arguments:
        fold: of its log.
        job: what the job is at.
        worker: what the heartbeat says of the query.

    """
    if fold.query is None and fold.plan is None:
        return None
    counters, known = dict(fold.counters), fold.query
    stopped, reported = (worker.stopped, worker.query) if worker else (None, None)
    return QueryStatus(
        query_id=known.query_id if known else "",
        batch_id=known.batch_id if known and known.batch_id >= known.first else NO_BATCH,
        state=job.state if stopped is None else JobState.STOPPED,
        why=stopped,
        since_ms=worker.since_ms if worker else None,
        late=counters.get(LATE, 0),
        far_future=counters.get(FAR_FUTURE, 0),
        dropped=reported.dropped if reported else None,
        watermark_ms=reported.watermark_ms if reported else None,
        state_rows=reported.state_rows if reported else None,
        state_bytes=reported.state_bytes if reported else None,
        commit_ms=reported.commit_ms if reported else None,
        held_by=reported.held_by if reported else None,
        held_since_ms=reported.held_since_ms if reported else None,
        behind=reported.behind if reported else None,
        begins_after=known.first - 1 if known and known.first else None,
    )
