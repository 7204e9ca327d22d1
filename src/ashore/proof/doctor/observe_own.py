"""The doctor's look at files of the job itself that no entry lists: they are read whole.

What it promises: reads only. Of records that are in no file only the first of each topic partition
is looked for: landing continues there.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from ashore.errors import LogDamaged, LogLost, OffsetsGone, SourceError
from ashore.log import names
from ashore.log.entries import Retire
from ashore.log.files import Role
from ashore.log.fold import EMPTY, Fold
from ashore.log.lost_end import LogEnd
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.log.tables import DEAD_DDL, DEAD_SUFFIX, LATE_SUFFIX
from ashore.proof.doctor.observation import (
    OwnFile,
    OwnSeen,
    SourceSeen,
    StagedDataFile,
    TableSeen,
    TopicSeen,
)
from ashore.proof.evidence.lost_logs import judge_log, slices_of
from ashore.proof.evidence.offsets import checksum_of
from ashore.proof.evidence.reader_process import read_orphan
from ashore.proof.evidence.runs import Runs, subtract, unite
from ashore.topics.open_job import OpenJob


def see_own(
    opened: OpenJob,
    fold: Fold | None,
    tables: Sequence[TableSeen],
    topics: Mapping[str, TopicSeen],
    source: SourceSeen,
) -> OwnSeen:
    """Return what the job has left in its tables beyond its log. Raises StorageError, SourceError.

    Requires: the tables were listed before the log was read.
    """
    ddls = {each.table: each.ddl for each in topics.values()}
    files = tuple(
        file for table in tables for file in _read_files(opened, table, ddls, opened.name.slice)
    )
    earliest = {shard: there.earliest for shard, there in source.offsets.items()}
    return OwnSeen(
        files=files,
        staged=tuple(file for table in tables for file in _read_staged(opened, table, topics)),
        lost_queries=tuple(_find_lost_queries(opened)),
        end=_find_end(opened, files),
        missing=_find_missing(opened, fold or EMPTY, files, topics, source),
        earliest=earliest,
        retired=_find_retired(opened, fold),
    )


def _find_retired(opened: OpenJob, fold: Fold | None) -> frozenset[str]:
    """Return the tables that what is left of the log has retired partitions from."""
    if fold is None:
        return frozenset()
    return frozenset(
        partition.table
        for entry in read_history(opened.storage, opened.name)
        if isinstance(entry.body, Retire)
        for partition in entry.body.partitions
    )


def _find_lost_queries(opened: OpenJob) -> Iterator[LogLost | LogDamaged]:
    for name in slices_of(opened):
        if name == opened.name:
            continue
        traces = opened.find_traces(name)
        try:
            error = judge_log(name, LogEnd.of(read_log(opened.storage, name)), traces)
        except LogDamaged as damaged:
            yield damaged
            continue
        if error is not None:
            yield error


def _find_end(opened: OpenJob, files: Sequence[OwnFile]) -> LogEnd:
    traces = opened.find_traces(opened.name)
    epochs = [each.epoch for each in traces] + [each.name.epoch for each in files]
    batches = [each.batch for each in traces] + [each.name.batch for each in files]
    return LogEnd(-1, max(epochs, default=0), max(batches, default=-1) + 1)


def _read_files(
    opened: OpenJob, table: TableSeen, ddls: Mapping[str, str], slice_name: str
) -> Iterator[OwnFile]:
    for each in table.orphans:
        name = names.parse_final(names.leaf(each.path))
        if name is None or name.slice != slice_name:
            continue
        role = _role(table.table)
        checksum, size_bytes = checksum_of(opened.storage, each.path)
        found = read_orphan(opened.storage, each.path, size_bytes)
        yield OwnFile(
            path=each.path,
            name=name,
            table=table.table,
            role=role,
            schema=DEAD_DDL
            if role is Role.DEAD
            else ddls.get(table.table.removesuffix(LATE_SUFFIX), ""),
            size_bytes=size_bytes,
            checksum=checksum,
            rows=found.rows if found else 0,
            shards=found.shards if found else None,
        )


def _read_staged(
    opened: OpenJob, table: TableSeen, topics: Mapping[str, TopicSeen]
) -> Iterator[StagedDataFile]:
    """Yield the staged files that are whole: a batch may have counted that was never moved."""
    formats = {
        each.format for each in topics.values() if table.table in {each.table, *each.side_tables}
    }
    root = names.staging_root(table.table, opened.name)
    epochs = [each.path for each in opened.storage.list(root) if each.is_directory]
    for each in (found for epoch in sorted(epochs) for found in opened.storage.list(epoch)):
        if names.parse_pending(names.leaf(each.path)) is None:
            continue
        for extension in sorted(formats):
            offsets = read_orphan(opened.storage, each.path, each.size, extension)
            if offsets is not None and offsets.shards:
                yield StagedDataFile(each.path, offsets.shards)


def _role(table: str) -> Role:
    if table.endswith(DEAD_SUFFIX):
        return Role.DEAD
    return Role.LATE if table.endswith(LATE_SUFFIX) else Role.MAIN


def _find_missing(
    opened: OpenJob,
    fold: Fold,
    files: Sequence[OwnFile],
    topics: Mapping[str, TopicSeen],
    source: SourceSeen,
) -> dict[StreamShard, int]:
    """Return the first record of each topic partition that the source has and no file."""
    runs_of: dict[StreamShard, list[Runs]] = defaultdict(list)
    for file in files:
        for each in file.shards or ():
            runs_of[each.partition].append(each.offsets)
    logged = {
        StreamShard(key.stream, key.shard): state.next
        for key, state in fold.current().items()
        if key.source == source.name
    }
    missing: dict[StreamShard, int] = {}
    for shard, runs in sorted(runs_of.items()):
        there, topic = source.offsets.get(shard), topics.get(shard.stream)
        if there is None or topic is None:
            continue
        offsets = unite(runs)[0]
        first = there.earliest if topic.begins_at_first else offsets.start
        start = max(logged.get(shard, first), there.earliest)
        end = min(offsets.end, there.end)
        if start < end:
            holes = subtract(OffsetRange(start, end), offsets)
            found = _first_record(opened, shard, holes)
            if found is not None:
                missing[shard] = found
    return missing


def _first_record(opened: OpenJob, shard: StreamShard, holes: Runs) -> int | None:
    for hole in holes.ranges():
        try:
            for record in opened.source.read_again(shard, hole):
                return record.offset
        except OffsetsGone as error:
            raise SourceError(f"{shard.stream}/{shard.shard}: {error.message}") from error
    return None
