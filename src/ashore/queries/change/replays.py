"""Whether a query could begin anew and read again all that it has read.

What it is: `look_at_replay`.
What it promises: reads only. The source is asked for the earliest offsets that it has now; where it
does not answer, that is said. Missing records are found by offsets; by event times where tables
hold the same records.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ashore.errors import AshoreError
from ashore.log.entries import Entry, Prepare
from ashore.log.files import DataFile, FileSpan
from ashore.log.fold import Fold
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.plans.change.replay import (
    ReplayLook,
    TimeRange,
    find_missing_records,
    find_wrong_windows,
)
from ashore.plans.graph import PlanGraph
from ashore.topics.open_job import OpenJob


def look_at_replay(opened: OpenJob, fold: Fold, graph: PlanGraph | None = None) -> ReplayLook:
    """Return what a replay of a query would miss.

    Arguments:
        opened: the job.
        fold: of the query's log.
        graph: of the new query, whose windows are shown; None: none are.

    Raises LogDamaged, StorageError.

    """
    try:
        earliest = _ask_earliest(opened, fold)
    except AshoreError as error:
        return ReplayLook(unknown=error.message)
    missing = find_missing_records(fold.shards.values(), earliest)
    if not missing:
        return ReplayLook()
    tables, times = _find_times(opened, fold, missing)
    windows = () if graph is None or times is None else find_wrong_windows(graph, times)
    return ReplayLook(missing, tables=tables, times=times, windows=windows)


def _ask_earliest(opened: OpenJob, fold: Fold) -> dict[ShardKey, int]:
    """Return the first offset of each shard whose topic is the one that was read."""
    current = fold.current()
    streams = sorted({key.stream for key in current})
    infos = opened.source.describe_streams(streams)
    shards = {
        key: StreamShard(key.stream, key.shard)
        for key, state in current.items()
        if key.stream in infos
        and infos[key.stream].stream_id == state.stream_id
        and key.shard in infos[key.stream].shards
    }
    offsets = opened.source.read_offsets(list(shards.values()))
    return {key: offsets[shard].earliest for key, shard in shards.items() if shard in offsets}


def _find_times(
    opened: OpenJob, fold: Fold, missing: Sequence[ShardRange]
) -> tuple[tuple[str, ...], TimeRange | None]:
    """Return which tables have landed any of these offsets, and their event times."""
    ranges = {_identify(fold, each.key): each.offsets for each in missing}
    landed = read_log(opened.storage, opened.name)
    shards = {key: ranges.get(_identify(landed, key)) for key in landed.shards}
    expired = {key: offsets for key, offsets in shards.items() if offsets is not None}
    tables, times = set[str](), list[int]()
    for table, file in _find_files(read_history(opened.storage, opened.name), expired):
        if file.event_min_ms is not None and file.event_max_ms is not None:
            tables.add(table)
            times += [file.event_min_ms, file.event_max_ms]
    return tuple(sorted(tables)), TimeRange(min(times), max(times)) if times else None


def _identify(fold: Fold, key: ShardKey) -> tuple[str, str]:
    """Return what a shard is in any log: each counts generations for itself."""
    return fold.shards[key].stream_id, key.shard


def _find_files(
    entries: Iterable[Entry], expired: Mapping[ShardKey, OffsetRange]
) -> Iterator[tuple[str, DataFile]]:
    """Yield files with records of some offsets. Stops where all of them are behind."""
    waiting = dict(expired)
    for entry in entries:
        if not waiting:
            return
        body = entry.body
        if isinstance(body, Prepare):
            for file in body.files:
                if any(_overlaps(body, span, expired) for span in file.spans):
                    yield body.targets[file.target].table, file
            for read in body.shards:
                if read.key in waiting and read.offsets.end >= waiting[read.key].end:
                    del waiting[read.key]


def _overlaps(body: Prepare, span: FileSpan, gone: Mapping[ShardKey, OffsetRange]) -> bool:
    offsets = gone.get(body.shards[span.shard].key)
    return offsets is not None and span.start < offsets.end and offsets.start < span.end
