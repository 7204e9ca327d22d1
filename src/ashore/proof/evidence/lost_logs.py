"""Whether a job's logs have lost entries, whether it has run, and what the source still has.

What it promises: reads only, a bounded number of listings. What `LogLost` says of a slice is what a
start of the job would say.
"""

from collections.abc import Iterable, Iterator, Sequence

from ashore.errors import LogLost, SourceError
from ashore.jobs.file import match_topics, select_topics
from ashore.log.lost_end import LogEnd, Trace
from ashore.log.names import SliceName
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import StreamShard
from ashore.log.store.traces import require_whole
from ashore.topics.loop.sinks import sink_slice, sinks_of
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Source, StreamInfo


def find_lost_logs(opened: OpenJob) -> Iterator[tuple[SliceName, LogLost]]:
    """Yield what a start of each slice would stop with. Raises LogDamaged, StorageError."""
    folds, now_ms = opened.folds, opened.clock.now_ms()
    for name in slices_of(opened):
        if folds is not None and folds.is_whole(opened.storage, name, now_ms):
            continue
        traces = opened.find_traces(name)
        error = judge_log(name, LogEnd.of(opened.fold(name)), traces)
        if error is not None:
            yield name, error
        elif folds is not None:
            folds.take_whole(opened.storage, name, now_ms)


def slices_of(opened: OpenJob) -> list[SliceName]:
    """Return the slices that the job file names, whether they have a log or not."""
    sinks = [sink_slice(opened.job.job, item) for item in sinks_of(opened.job).values()]
    return [opened.name, *sinks]


def judge_log(name: SliceName, end: LogEnd, traces: Sequence[Trace]) -> LogLost | None:
    """Return what a start of a slice would stop with, or None."""
    try:
        require_whole(name, end, traces)
    except LogLost as error:
        return error
    return None


def read_current(
    source: Source, known: Iterable[tuple[StreamShard, str]], named: Iterable[str] = ()
) -> tuple[dict[str, StreamInfo], dict[StreamShard, ShardOffsets]]:
    """Return the topics of shards, and the offsets of those that the source still has.

    `known`: shards, each with the id of its topic by the log. `named`: topics without offsets.

    Raises SourceError.
    """
    pairs = set(known)
    streams = source.describe_streams(sorted({shard.stream for shard, _ in pairs} | {*named}))
    there = {
        shard
        for shard, stream_id in pairs
        if (info := streams.get(shard.stream)) is not None
        and info.stream_id == stream_id
        and shard.shard in info.shards
    }
    return streams, source.read_offsets(sorted(there)) if there else {}


def count_waiting(opened: OpenJob) -> int | None:
    """Return how many offsets the source holds of the job's topics; None: it does not answer."""
    source, job = opened.source, opened.job
    try:
        topics = match_topics(job, select_topics(job, source.list_streams()))
        streams = source.describe_streams(sorted(topics))
        shards = [StreamShard(each.stream, one) for each in streams.values() for one in each.shards]
        offsets = source.read_offsets(shards) if shards else {}
    except SourceError:
        return None
    return sum(each.end - each.earliest for each in offsets.values())
