"""Entries of a batch: `prepare`, whose appending is the commit point, and `commit`.

What `prepare` promises: its ranges begin where the log ends (I1); its records add up, fetched =
landed + dead + filtered + dropped, and its files hold exactly those that landed or are dead. Of a
query only the records that it left aside are counted: its rows come from no single offset. Batches
are numbered without a hole; time and watermarks never go back. A slice lands topics, or the batches
of one query, one after the other from 0, or from where a `begin` says.
What `commit` promises: it closes the last entry on its own, or reports effects that are done since;
it is never written for nothing.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.files import DataFile, PartitionKey, Role, TableCommit, Target
from ashore.log.fold import (
    Changes,
    Closing,
    Fold,
    HasEffects,
    PartitionState,
    Refused,
    ShardState,
    check_commits,
    check_entry_files,
    check_next,
    new_partition,
    require,
    rows_by_partition,
)
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, ShardRange
from ashore.log.query import Letter, Query, QueryState, choose_letters

SENT = "sent"  # the counter of rows that a query has sent to a topic


@dataclass(frozen=True, slots=True)
class ShardRead:
    """What a batch did with the records of one shard's range."""

    key: ShardKey
    offsets: OffsetRange
    table: str
    fetched: int  # of a query: what it left aside
    landed: int  # in the main or the late table
    dead: int
    filtered: int
    dropped: int
    size_bytes: int  # keys and values as fetched
    event_max_ms: int | None  # the highest plausible event time
    # Of the leader that reported the range's end, before it was read.
    leader_epoch: int | None = codec.added(None)


@dataclass(frozen=True, slots=True)
class Prepare(HasEffects):
    """One batch and all that recovery needs. Appending it is the commit point."""

    kind: ClassVar[str] = "prepare"
    batch: int
    time: BatchTime
    shards: tuple[ShardRead, ...]
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    counters: tuple[tuple[str, int], ...]  # unknown_fields, rehomed, far_future ...
    query: Query | None
    commits: tuple[TableCommit, ...] = codec.added(())  # of tables in a table format

    @property
    def read(self) -> int:
        """How many records were fetched; of a query, how many offsets it has read."""
        if self.query is None:
            return sum(each.fetched for each in self.shards)
        return sum(each.offsets.size for each in self.shards)

    @property
    def landed(self) -> int:
        """How many rows landed in main and late tables; of a query, also those it has sent."""
        if self.query is None:
            return sum(each.landed for each in self.shards)
        is_main = [each.role is Role.MAIN for each in self.targets]
        rows = sum(each.rows for each in self.files if is_main[each.target])
        return rows + dict(self.counters).get(SENT, 0)


def fold_prepare(fold: Fold, body: Prepare, number: int) -> Changes:
    """Return what a `prepare` changes in the fold. Raises Refused. `number`: of its entry."""
    require(body.batch == fold.next_batch, f"batch {body.batch}, expected {fold.next_batch}")
    require(body.time.now_ms >= fold.now_ms, "its time is below the log's last")
    generations = fold.generations()
    changed: dict[ShardKey, ShardState] = {}
    for read in body.shards:
        key = read.key
        state = check_next(fold.shards.get(key), key, read.offsets)
        if generations[key.source, key.stream][0] != key.generation:
            raise Refused(f"{key} is not of the current generation")
        changed[key] = _read(state, read, body)
    require(len(changed) == len(body.shards), "a shard is in it twice")
    for table, watermark_ms in body.time.watermarks:
        require(watermark_ms >= fold.watermarks.get(table, watermark_ms), f"{table}: watermark")
    check_entry_files(body.files, body.targets, len(body.shards), has_spans=body.query is None)
    check_commits(body.commits, body.targets)
    if body.query is None:
        require(fold.plan is None, "a batch without its query, in the slice of one")
    else:
        _check_spans_of_query(body)
    _check_counts(body)
    counters = dict(fold.counters)
    for name, count in body.counters:
        counters[name] = counters.get(name, 0) + count
    return {
        "shards": {**fold.shards, **changed},
        "now_ms": body.time.now_ms,
        "next_batch": body.batch + 1,
        "watermarks": {**fold.watermarks, **dict(body.time.watermarks)},
        "partitions": _fill(fold.partitions, body, number),
        "counters": counters,
        "query": _follow(fold.query, body),
        "left_out": _leave_out(fold, body),
        "commits": {**fold.commits, **{each.table: each for each in body.commits}},
    }


def _leave_out(fold: Fold, body: Prepare) -> tuple[Letter, ...]:
    """Return what is left out of this batch and of those to come: of it all are dead letters."""
    if not fold.left_out:
        return ()
    counts = Counter(
        each.key for each in choose_letters(fold.left_out, [_range(read) for read in body.shards])
    )
    for read in body.shards:
        count = counts[read.key]
        require(read.dead >= count, f"{read.key}: {count} left out, {read.dead} dead")
    # One that runs again has what this batch reads.
    firsts = {read.key: read.offsets.start for read in body.shards}
    return tuple(
        each
        for each in fold.left_out
        if each.offset >= firsts.get(each.key, fold.shards[each.key].next)
    )


def _range(read: ShardRead) -> ShardRange:
    return ShardRange(read.key, read.offsets)


def _read(state: ShardState, read: ShardRead, body: Prepare) -> ShardState:
    parts = read.landed + read.dead + read.filtered + read.dropped
    if read.fetched != parts:
        raise Refused(f"{read.key}: {read.fetched} fetched, {parts} accounted for")
    if read.fetched > read.offsets.end - read.offsets.start:
        raise Refused(f"{read.key}: more records than offsets")
    if min(read.landed, read.dead, read.filtered, read.dropped, read.size_bytes) < 0:
        raise Refused(f"{read.key}: a count below zero")
    event_max_ms = state.event_max_ms
    if event_max_ms is None or (read.event_max_ms is not None and read.event_max_ms > event_max_ms):
        event_max_ms = read.event_max_ms
    # Spelled out, for speed: `replace` takes three times as long, and a long log has many.
    return ShardState(
        key=state.key,
        stream_id=state.stream_id,
        first=state.first,
        next=read.offsets.end,
        fetched=state.fetched + read.fetched,
        landed=state.landed + read.landed,
        dead=state.dead + read.dead,
        filtered=state.filtered + read.filtered,
        dropped=state.dropped + read.dropped,
        skipped=state.skipped,
        lost=state.lost,
        size_bytes=state.size_bytes + read.size_bytes,
        event_max_ms=event_max_ms,
        active_ms=body.time.now_ms if read.fetched else state.active_ms,
        leader_epoch=read.leader_epoch,
    )


def _check_spans_of_query(body: Prepare) -> None:
    """Check that a dead letter of a query has its offset, and that its rows have none."""
    for file in body.files:
        is_dead = body.targets[file.target].role is Role.DEAD
        if is_dead != bool(file.spans):
            raise Refused(f"file {file.unique} of a query: its role and its spans do not fit")


def _check_counts(body: Prepare) -> None:
    """Check that the rows of the files are the records that the shards report."""
    landed, dead = [0] * len(body.shards), [0] * len(body.shards)
    for file in body.files:
        counts = dead if body.targets[file.target].role is Role.DEAD else landed
        for span in file.spans:
            read = body.shards[span.shard]
            if not read.offsets.start <= span.start < span.end <= read.offsets.end:
                raise Refused(f"file {file.unique} holds offsets outside of {read.key}")
            counts[span.shard] += span.rows
    for index, read in enumerate(body.shards):
        if (landed[index], dead[index]) != (read.landed, read.dead):
            raise Refused(
                f"{read.key}: {landed[index]} rows and {dead[index]} dead rows in files, "
                f"{read.landed} landed and {read.dead} dead"
            )


def _fill(
    partitions: Mapping[PartitionKey, PartitionState], body: Prepare, number: int
) -> Mapping[PartitionKey, PartitionState]:
    filled = dict(partitions)
    for key, (rows, count) in rows_by_partition(body.files, body.targets).items():
        state = filled.get(key) or new_partition(key, number)
        filled[key] = replace(
            state, rows=state.rows + rows, files=state.files + count, entry=number
        )
    return filled


def _follow(known: QueryState | None, body: Prepare) -> QueryState | None:
    """Return the state of the slice's query with one more batch; None: the slice has no query."""
    batch = body.query
    if batch is None:
        require(known is None, "a batch without its query, in the slice of one")
        return None
    if known is None:
        require(body.batch == 0, f"query {batch.query_id} in a slice that landed topics")
        require(batch.batch_id == 0, f"batch {batch.batch_id} of a query is its first")
        return QueryState(batch.query_id, 0, batch.lineage, "")
    is_same = batch.query_id == known.query_id
    require(is_same, f"query {batch.query_id} in the slice of query {known.query_id}")
    is_next = batch.batch_id == known.batch_id + 1
    require(is_next, f"batch {batch.batch_id} of a query after its batch {known.batch_id}")
    return replace(known, batch_id=batch.batch_id, lineage=batch.lineage, before=known.lineage)


@dataclass(frozen=True, slots=True)
class Commit:
    """Closes the last entry on its own."""

    kind: ClassVar[str] = "commit"
    reason: str  # idle | stop | snapshot | recovery


def fold_commit(closing: Closing | None) -> Changes:
    """Return what a `commit` changes in the fold beside closing: nothing. Raises Refused."""
    require(closing is not None, "it closes nothing")
    return {}
