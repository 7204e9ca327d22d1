"""Getting over one gap of one topic partition, from a job file and without Spark.

What it is: the use case behind `skip`.
What it promises: what `plan` shows is what `apply` does, unless Kafka has lost more in between.
What it must not know: terminals.
"""

from ashore.base.operator import operator
from ashore.control.jobs import OpenJob, require_landed_topic, require_stopped
from ashore.errors import JobFileInvalid
from ashore.landing.gaps import SkipWish, find_skip, skip
from ashore.protocol.positions import ShardRange
from ashore.sources.base import StreamShard


def wish_of(opened: OpenJob, place: str, to: int, why: str) -> SkipWish:
    """Return what a command line asks for. Raises JobFileInvalid, QueryRefused.

    Arguments:
        opened: the job.
        place: `topic/partition`.
        to: the offset that reading goes on with.
        why: the reason, kept in the log.

    """
    topic, _, shard = place.rpartition("/")
    if not topic or not shard.isdecimal():
        raise JobFileInvalid(
            f"{place!r} is no topic partition",
            hint="write topic and partition, such as clicks/3",
        )
    if not why.strip():
        raise JobFileInvalid("no reason is given", hint='write --why "what has happened"')
    require_landed_topic(
        opened.job,
        topic,
        "its offsets are in the checkpoint of a query",
        hint="fill another table from what the topic still has",
    )
    return SkipWish(StreamShard(topic, str(int(shard))), to, operator(), why)


def plan(opened: OpenJob, wish: SkipWish) -> ShardRange | None:
    """Return what `apply` would give up; None: nothing. Raises what `find_skip` raises."""
    return find_skip(opened.storage, opened.name, opened.source, wish)


def apply(opened: OpenJob, wish: SkipWish, *, takes_over: bool) -> ShardRange | None:
    """Give the offsets up, with an entry that says who and why; None: there was nothing to do.

    Raises LogGrows where the job runs, unless it `takes_over`; and as `skip`.
    """
    if plan(opened, wish) is None:
        return None
    require_stopped(opened, takes_over=takes_over)
    return skip(opened.committer(opened.name), opened.source, wish)
