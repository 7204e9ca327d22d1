"""Skipping offsets of one topic partition, from a job file and without Spark.

What it is: the use case behind `skip`: in the log of the job's topics, or of one query.
What it promises: what `plan` shows is what `apply` does, unless Kafka has lost more in between.
"""

from dataclasses import dataclass

from ashore.base.operator import operator
from ashore.errors import JobFileInvalid
from ashore.log.names import SliceName
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.queries.tools.stopped_query import find_query
from ashore.topics.loop.gaps import SkipWish, find_skip, skip
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_landed_topic, require_stopped


@dataclass(frozen=True, slots=True)
class LogSkip:
    """What is to be given up, and in which log."""

    name: SliceName
    wish: SkipWish


def wish_of(opened: OpenJob, place: str, to: int, why: str, table: str | None = None) -> LogSkip:
    """Return what a command line asks for. Raises JobFileInvalid, QueryRefused, CheckpointUnfit.

    Arguments:
        opened: the job.
        place: `topic/partition`.
        to: the offset at which reading resumes.
        why: the reason, kept in the log.
        table: that a query fills, or the topic; None: the job's own tables are meant.

    """
    topic, _, shard = place.rpartition("/")
    if not topic or not shard.isdecimal():
        raise JobFileInvalid(
            f"{place!r} is not a topic partition",
            hint="write topic and partition, such as clicks/3",
        )
    if not why.strip():
        raise JobFileInvalid("the reason is missing", hint='write --why "what has happened"')
    wish = SkipWish(
        StreamShard(topic, str(int(shard))),
        to,
        operator(),
        why,
        lambda shard, offsets: _find_too_large(opened, shard, offsets),
    )
    if table is not None:
        return LogSkip(find_query(opened, table).name, wish)
    require_landed_topic(
        opened.job,
        topic,
        "its offsets are in the checkpoint of a query",
        hint="write to another table from what the topic still has; if the topic was truncated, "
        "name the query's table with --table",
    )
    return LogSkip(opened.name, wish)


def plan(opened: OpenJob, request: LogSkip) -> ShardRange | None:
    """Return what `apply` would give up; None: nothing. Raises what `find_skip` raises."""
    return find_skip(opened.storage, request.name, opened.source, request.wish)


def apply(opened: OpenJob, request: LogSkip, *, takes_over: bool) -> ShardRange | None:
    """Give the offsets up, with an entry that says who and why; None: there was nothing to do.

    Raises LogGrows where the job runs, unless it `takes_over`; and as `skip`.
    """
    if plan(opened, request) is None:
        return None
    require_stopped(opened, takes_over=takes_over)
    return skip(opened.committer(request.name), opened.source, request.wish)


def _find_too_large(
    opened: OpenJob, shard: StreamShard, offsets: OffsetRange
) -> OffsetRange | None:
    """Ask Kafka: called only where offsets are to be skipped that it has."""
    from ashore.topics.loop.assembly import kafka_address  # noqa: PLC0415 - loads Arrow

    return kafka_address(opened.job).find_too_large(shard, offsets)
