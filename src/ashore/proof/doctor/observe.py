"""`observe`: the doctor's look at a job's log, tables and source, and at a former writer.

What it promises: reads only, judges nothing. What cannot be read is seen as damage, and raises only
where nothing at all can be said. Files of the job itself that no entry lists are read whole; of
records that are in no file only the first of each topic partition is looked for: landing continues
there.
"""

import contextlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ashore.base.unique import unique
from ashore.base.units import format_duration
from ashore.errors import LogDamaged, LogLost, OffsetsGone, PathMissing, SourceError, StorageError
from ashore.jobs.file import Job, ResolvedTable, match_topics, select_topics
from ashore.log import names
from ashore.log.entries import EntryInvalid, EntryNewer, Retire
from ashore.log.extend import extend
from ashore.log.files import Role
from ashore.log.fold import EMPTY, Fold
from ashore.log.lost_end import LogEnd
from ashore.log.names import SliceName
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.snapshot import read_snapshot
from ashore.log.store.owner import read_owner
from ashore.log.store.reader import newer, read_history, read_log
from ashore.log.tables import DEAD_DDL, DEAD_SUFFIX, LATE_SUFFIX, SNAPSHOTS
from ashore.proof.doctor.connect_sink import parse_connect
from ashore.proof.doctor.observation import (
    ConnectSeen,
    LoggedSize,
    Observations,
    OwnFile,
    OwnSeen,
    SliceLogSeen,
    SourceSeen,
    SparkSeen,
    StagedDataFile,
    TableSeen,
    TopicSeen,
)
from ashore.proof.doctor.observe_sink import see_lakehouse_sink
from ashore.proof.doctor.spark_sink import SINK_LOG, read_checkpoint, read_sink_log, topics_of
from ashore.proof.evidence.adopted_files import read_adopted
from ashore.proof.evidence.ledger import Ledger, LoggedFile
from ashore.proof.evidence.log_reading import read_ledger
from ashore.proof.evidence.lost_logs import judge_log, slices_of
from ashore.proof.evidence.offsets import checksum_of
from ashore.proof.evidence.reader_process import read_orphan
from ashore.proof.evidence.runs import Runs, subtract, unite
from ashore.queries.state.checkpoint import Checkpoint
from ashore.storage.base import FileStat, Storage
from ashore.storage.open import lake_address
from ashore.tables.readable import walk_readable
from ashore.topics.loop.job import (
    first_offset_of,
    seal_rules,
    storage_options,
    tables_of,
    waiting_tables,
)
from ashore.topics.open_job import DEADLINE_S_MAX, OpenJob
from ashore.topics.read.source import Source


@dataclass(frozen=True, slots=True)
class FormerAt:
    """Where a person says that a former writer left its traces. At most one of the two."""

    spark_checkpoint: str | None = None  # an address, or an absolute path of this machine
    connect_table: str | None = None
    own_files: bool = False  # the job's own log was lost
    lands_missing: bool = False  # with `own_files`: also what may have been retired


def observe(opened: OpenJob, at: FormerAt) -> Observations:
    """Look at a job. Raises StorageError, JobFileInvalid, NotInstalled."""
    storage, job = opened.storage, opened.job
    resolved = _resolve(opened)
    formats = {table: each.spec.format for each in resolved.values() for table in tables_of([each])}
    table_format = formats.get(at.connect_table or "", "")
    if table_format not in SNAPSHOTS:
        opened.refuse_snapshots("ashore doctor")
    # Tables come before the log: what a running job lists meanwhile is then in the log.
    listed = {
        table: [] if each in SNAPSHOTS else _list_visible(storage, table)
        for table, each in sorted(formats.items())
    }
    log, ledger = look_at_log(storage, opened.name)
    adopted = read_adopted(storage, job.job)
    waiting = waiting_tables(job, seal_rules(job, resolved))
    selected = {str(each.table) for each in resolved.values() if each.spec.select}
    tables = tuple(
        replace(
            _see_table(
                storage, table, visible, None if formats[table] in SNAPSHOTS else ledger, adopted
            ),
            waits_for_seal=table in waiting,
            is_made_by_spark=table.removesuffix(LATE_SUFFIX) in selected,
        )
        for table, visible in listed.items()
    )
    into = [topic for topic, each in resolved.items() if str(each.table) == at.connect_table]
    former = (
        see_lakehouse_sink(opened, str(at.connect_table), table_format, sorted(into))
        if table_format in SNAPSHOTS
        else _see_former(opened, at, tables)
    )
    table = former.table if former else None
    own = [topic for topic, each in resolved.items() if at.own_files or str(each.table) == table]
    topics = {topic: _see_topic(job, topic, each) for topic, each in resolved.items()}
    source = _ask(opened.source, own) if own else SourceSeen(opened.source.name)
    return Observations(
        job=job.job,
        name=opened.name,
        token=unique(),
        log=log,
        tables=tables,
        topics=topics,
        source=source,
        skips_gaps=job.source.gap == "skip",
        has_catalog=job.catalog.hive is not None,
        former=former,
        own=see_own(opened, log.fold, tables, topics, source) if at.own_files else None,
        lands_missing=at.lands_missing,
    )


def _resolve(opened: OpenJob) -> dict[str, ResolvedTable]:
    try:
        return opened.known_topics()
    except LogDamaged:  # then what the source has must do
        with contextlib.suppress(SourceError):
            streams = opened.source.list_streams()
            return match_topics(opened.job, select_topics(opened.job, streams))
        return match_topics(opened.job, select_topics(opened.job, ()))


# ---- the log


def look_at_log(storage: Storage, name: SliceName) -> tuple[SliceLogSeen, Ledger | None]:
    """Return what is to be seen of a log, and the ledger of all its entries if it is whole."""
    found = [each.path for each in storage.list(names.log_directory(name))]
    foreign = tuple(path for path in found if _is_foreign(names.leaf(path)))
    if foreign:
        return SliceLogSeen(None, foreign=foreign), None
    numbers = [number for path in found if (number := names.parse_snapshot(names.leaf(path)))]
    bad = {number: why for number in numbers if (why := _judge_snapshot(storage, name, number))}
    is_newest_bad = bool(bad) and max(numbers) in bad
    try:
        fold = _fold_history(storage, name) if is_newest_bad else read_log(storage, name)
        ledger = read_ledger(storage, name.job)
    except LogDamaged as error:
        return SliceLogSeen(None, error.message, error.hint), None
    return SliceLogSeen(fold, "", "", (), tuple(sorted(bad.items())), is_newest_bad), ledger


def _is_foreign(leaf: str) -> bool:
    parsers = (names.parse_entry, names.parse_snapshot, names.parse_archive)
    return not leaf.startswith(".") and all(parse(leaf) is None for parse in parsers)


def _judge_snapshot(storage: Storage, name: SliceName, number: int) -> str | None:
    """Return what is wrong with a snapshot, or None."""
    try:
        fold = read_snapshot(storage.read(names.snapshot_path(name, number)))
    except PathMissing:
        return None  # the job has written newer ones, and removed it
    except EntryNewer as error:
        raise newer(names.snapshot_path(name, number), error) from None
    except EntryInvalid as error:
        return str(error)
    return None if fold.end == number else f"it ends at entry {fold.end}"


def _fold_history(storage: Storage, name: SliceName) -> Fold:
    """Return the fold of all entries, from archives and files, without any snapshot."""
    fold = EMPTY
    for entry in read_history(storage, name):
        fold = extend(fold, entry)
    return fold


# ---- tables


def _list_visible(storage: Storage, table: str) -> list[FileStat]:
    """Return the files of a table that a reader would see."""
    found: list[FileStat] = []
    for _, files in walk_readable(storage, [table]):
        if isinstance(files, StorageError):
            raise files
        found += files
    return sorted(found)


def _see_table(
    storage: Storage,
    table: str,
    visible: Sequence[FileStat],
    ledger: Ledger | None,
    adopted: Mapping[str, str],
) -> TableSeen:
    path = names.table_path(table)
    owner = read_owner(storage, table)
    files = ledger.files if ledger else ()
    return TableSeen(
        table=table,
        path=path,
        owner=owner.job if owner else None,
        claimed_ms=owner.claimed_ms if owner else 0,
        visible=tuple(visible),
        logged=tuple(
            _see_file(storage, each, is_unclosed=ledger is not None and ledger.is_in_flight(each))
            for each in files
            if each.target.table == table
        ),
        excused=ledger.excused if ledger else frozenset(),
        adopted=frozenset(file for file, of in adopted.items() if of == table),
        has_spark_metadata=storage.stat(names.join(path, SINK_LOG)) is not None,
    )


def _see_file(storage: Storage, file: LoggedFile, *, is_unclosed: bool) -> LoggedSize:
    # The final place comes last: a file that a running job moves meanwhile is then seen there.
    places = (file.pending, file.final) if is_unclosed else ()
    is_there = any(storage.stat(place) is not None for place in places)
    size, partition = file.file.size_bytes, file.target.partition
    return LoggedSize(file.final, size, partition, is_unclosed, is_there)


def _see_topic(job: Job, topic: str, resolved: ResolvedTable) -> TopicSeen:
    return TopicSeen(
        table=str(resolved.table),
        side_tables=tuple(str(side.table) for side in (resolved.dead, resolved.late) if side),
        format=resolved.spec.format,
        partition_by=tuple(resolved.spec.partition_by),
        ddl=resolved.spec.ddl,
        is_made_by_spark=bool(resolved.spec.select),
        begins_at_first=first_offset_of(job)(topic, True).policy == "earliest",
        retention=format_duration(kept_ms) if (kept_ms := resolved.spec.retention_ms) else "",
    )


# ---- a former writer, and the source


def _see_former(
    opened: OpenJob, at: FormerAt, tables: Sequence[TableSeen]
) -> SparkSeen | ConnectSeen | None:
    if at.spark_checkpoint is not None:
        return _see_spark(opened, at.spark_checkpoint, tables)
    if at.connect_table is None:
        return None
    table = next((each for each in tables if each.table == at.connect_table), None)
    rows: dict[str, int | None] = {}
    for each in table.visible if table else ():
        if parse_connect(names.leaf(each.path)):
            found = read_orphan(opened.storage, each.path, each.size)
            rows[each.path] = found.rows if found else None
    return ConnectSeen(at.connect_table, rows)


def _see_spark(opened: OpenJob, checkpoint: str, tables: Sequence[TableSeen]) -> SparkSeen:
    there = Checkpoint(open_beside(opened, checkpoint), "", checkpoint)
    offsets, commits, sources, has_state = read_checkpoint(there)
    table = _table_of(opened, topics_of(offsets), tables)
    return SparkSeen(
        checkpoint=checkpoint,
        lake_path=_path_of(opened.job.lake.reveal()),
        table=table.table if table else None,
        sources=sources,
        has_state=has_state,
        offsets=offsets,
        commits=commits,
        sink=read_sink_log(opened.storage, table.path) if table else {},
    )


def _table_of(
    opened: OpenJob, topics: frozenset[str], tables: Sequence[TableSeen]
) -> TableSeen | None:
    """Return the table that a topic of the query fills, if a sink of Spark's wrote it."""
    items = [item for item in opened.job.tables if any(item.matches(topic) for topic in topics)]
    found = {str(item.table_of(topic)) for item in items for topic in topics if item.matches(topic)}
    having = [each for each in tables if each.has_spark_metadata and each.table in found]
    return having[0] if having else None


def open_beside(opened: OpenJob, address: str) -> Storage:
    """Return the storage at an address outside of the lake, with the job's options."""
    uri = address if "://" in address else f"file://{Path(address).absolute()}"
    options = storage_options(opened.job, uri)
    return lake_address(uri, DEADLINE_S_MAX, options).open(opened.clock)


def _path_of(uri: str) -> str:
    scheme, _, rest = uri.partition("://")
    return rest if scheme == "file" else f"/{rest.partition('/')[2]}"


def _ask(source: Source, topics: Sequence[str]) -> SourceSeen:
    try:
        streams = source.describe_streams(topics)
        shards = [
            StreamShard(each.stream, shard) for each in streams.values() for shard in each.shards
        ]
        return SourceSeen(source.name, streams, source.read_offsets(shards))
    except SourceError as error:
        return SourceSeen(source.name, error=error.message)


# ---- files of the job itself


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
