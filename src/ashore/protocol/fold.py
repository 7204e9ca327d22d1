"""The fold: what a landing log says when it is read from its start or from a snapshot.

What it is: `extend(fold, entry)`, one entry at a time.
What it promises: pure and total (I6): any prefix of a log folds; an entry that does not follow is
named and raises LogDamaged, with every rule of the protocol checked again on reading. Ranges of a
shard are contiguous (I1). The fold keeps no closed file; its size grows with shards and unsealed
partitions, not with the log.
What it must not know: where entries are kept, or what time it is.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import NamedTuple, NoReturn

from ashore.errors import LogDamaged, check, fail
from ashore.protocol.effects import Action
from ashore.protocol.entries import (
    Body,
    Closing,
    Commit,
    Entry,
    Join,
    Joined,
    Open,
    Owed,
    Prepare,
    Reland,
    Retire,
    Rewind,
    Seal,
    SealedPartition,
    ShardRead,
    Skip,
)
from ashore.protocol.files import DataFile, PartitionKey, Target
from ashore.protocol.positions import OffsetRange, ShardKey
from ashore.protocol.query import DoesNotFollow, QueryState, follow, go_back
from ashore.protocol.rules import (
    Refused,
    check_counts,
    check_files,
    require,
    rows_of,
)


@dataclass(frozen=True, slots=True)
class ShardState:
    """The ledger's line of one shard."""

    key: ShardKey
    stream_id: str
    first: int
    next: int  # the offset that is read next
    fetched: int
    landed: int
    dead: int
    filtered: int
    dropped: int
    skipped: int  # offsets given up before they were read
    lost: int  # landed rows whose files were given up
    size_bytes: int
    event_max_ms: int | None
    active_ms: int  # `now` of the last batch that found records, or of the join


@dataclass(frozen=True, slots=True)
class PartitionState:
    """What a slice has put into a partition of a table."""

    table: str
    partition: str
    rows: int
    files: int
    entry: int  # the last one that put a file there
    registered: bool
    sealed_version: int  # 0: never
    sealed_rows: int
    sealed_ms: int


@dataclass(frozen=True, slots=True)
class Failing:
    """A kind of owed effects that has been tried in vain so far."""

    action: Action | str
    since_ms: int
    times: int
    last_ms: int
    error: str  # of the last try


@dataclass(frozen=True, slots=True)
class Unclosed:
    """The one entry whose effects may not have happened yet."""

    number: int
    epoch: int
    written_ms: int
    body: Prepare | Reland | Seal | Rewind


@dataclass(frozen=True, slots=True)
class Fold:
    """A landing log up to and with entry `end`."""

    end: int = -1
    epoch: int = 0
    last: str | None = None  # checksum of entry `end`
    written_ms: int = 0
    now_ms: int = 0  # the highest `now` of a batch
    next_batch: int = 0
    shards: Mapping[ShardKey, ShardState] = field(default_factory=lambda: MappingProxyType({}))
    watermarks: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    partitions: Mapping[PartitionKey, PartitionState] = field(
        default_factory=lambda: MappingProxyType({})
    )
    owed: Mapping[str, Owed] = field(default_factory=lambda: MappingProxyType({}))
    failing: Mapping[str, Failing] = field(default_factory=lambda: MappingProxyType({}))
    counters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    unclosed: Unclosed | None = None
    query: QueryState | None = None  # that the slice belongs to
    base: int = -1  # number of the snapshot that the fold began with

    def generation(self, source: str, stream: str) -> tuple[int, str] | None:
        """Return the current generation of a stream and its identity, or None."""
        return _generations(self.shards).get((source, stream))

    def current(self) -> dict[ShardKey, ShardState]:
        """Return the shards of each stream's current generation."""
        newest = _generations(self.shards)
        return {
            key: state
            for key, state in self.shards.items()
            if newest[key.source, key.stream][0] == key.generation
        }


EMPTY = Fold()


def _generations(shards: Mapping[ShardKey, ShardState]) -> dict[tuple[str, str], tuple[int, str]]:
    """Return the current generation of each stream, and its identity."""
    newest: dict[tuple[str, str], tuple[int, str]] = {}
    for key, state in shards.items():
        known = newest.get((key.source, key.stream))
        if known is None or known[0] < key.generation:
            newest[key.source, key.stream] = (key.generation, state.stream_id)
    return newest


def extend(fold: Fold, entry: Entry) -> Fold:
    """Return the fold with one more entry. Raises LogDamaged where `entry` does not follow."""
    _check_chain(fold, entry)
    if isinstance(entry.body, Open):
        return _seen(fold, entry, {"epoch": entry.epoch})
    closed = _close(fold, entry)
    try:
        changes = _apply(closed, entry, fold.unclosed)
    except (Refused, DoesNotFollow) as refused:
        _damaged(entry, str(refused))
    return _seen(closed, entry, changes)


def _damaged(entry: Entry, reason: str) -> NoReturn:
    raise LogDamaged(
        f"entry {entry.number} ({entry.kind}) does not follow: {reason}",
        hint="keep everything as it is; compare the log directory with a backup or its archives",
        entry=entry.number,
    )


def _check_chain(fold: Fold, entry: Entry) -> None:
    if entry.number != fold.end + 1:
        _damaged(entry, f"number {entry.number} after {fold.end}")
    if entry.previous != fold.last:
        _damaged(entry, "it names another predecessor")
    if isinstance(entry.body, Open):
        if entry.epoch != fold.epoch + 1:
            _damaged(entry, f"epoch {entry.epoch} opened after epoch {fold.epoch}")
        if entry.closing is not None:
            _damaged(entry, "it closes something")
    elif entry.epoch != fold.epoch:
        _damaged(entry, f"epoch {entry.epoch} wrote while epoch {fold.epoch} owned the slice")


def _seen(fold: Fold, entry: Entry, changes: Mapping[str, object]) -> Fold:
    return replace(
        fold,
        end=entry.number,
        last=entry.checksum,
        written_ms=entry.written_ms,
        **changes,  # type: ignore[arg-type]
    )


def _close(fold: Fold, entry: Entry) -> Fold:
    """Return the fold after the effects of the unclosed entry, as `entry` tells them."""
    unclosed, closing = fold.unclosed, entry.closing
    expected = unclosed.number if unclosed else None
    if (closing.entry if closing else None) != expected:
        found = closing.entry if closing else None
        _damaged(entry, f"it closes entry {found}, unclosed is {expected}")
    if closing is None:
        return fold
    if closing.entry is None and (closing.owed or closing.moved or closing.already_moved):
        _damaged(entry, "it tells effects of no entry")
    unknown = [done for done in closing.done if done not in fold.owed]
    if unknown:
        _damaged(entry, f"{unknown[0]} is done but was never owed")
    kept = {key: value for key, value in fold.owed.items() if key not in closing.done}
    owed = kept | {owed.id: owed for owed in closing.owed}
    try:
        failing = _fail(fold.failing, closing, {each.action for each in owed.values()})
    except Refused as refused:
        _damaged(entry, str(refused))
    partitions = _register(fold, closing, unclosed, owed)
    return replace(fold, unclosed=None, owed=owed, failing=failing, partitions=partitions)


def _fail(before: Mapping[str, Failing], closing: Closing, owed: set[str]) -> Mapping[str, Failing]:
    """Return what has been tried in vain. `owed`: the actions of which something still is."""
    failing = {action: each for action, each in before.items() if action in owed}
    for failed in closing.failed:
        require(failed.action in owed, f"{failed.action} failed, and nothing of it is owed")
        require(failed.times > 0, f"{failed.action} failed {failed.times} times")
        known = failing.get(failed.action) or Failing(failed.action, failed.last_ms, 0, 0, "")
        failing[failed.action] = replace(
            known, times=known.times + failed.times, last_ms=failed.last_ms, error=failed.error
        )
    return failing


def _register(
    fold: Fold, closing: Closing, unclosed: Unclosed | None, still_owed: Mapping[str, Owed]
) -> Mapping[PartitionKey, PartitionState]:
    """Mark partitions registered: those of the closed entry that are not owed, and those done.

    Not owed by this entry nor by one before it: a batch does not owe what is owed already.
    """
    registered = {
        (owed.table, owed.partition)
        for done in closing.done
        if (owed := fold.owed[done]).action == Action.REGISTER
    }
    if closing.registered and unclosed:
        registered |= _partitions_of(unclosed.body)
    registered -= {
        (owed.table, owed.partition)
        for owed in still_owed.values()
        if owed.action == Action.REGISTER
    }
    changed = {
        key: replace(fold.partitions[key], registered=True)
        for key in registered
        if key in fold.partitions and not fold.partitions[key].registered
    }
    return {**fold.partitions, **changed} if changed else fold.partitions


def _partitions_of(body: Prepare | Reland | Seal | Rewind) -> set[PartitionKey]:
    """Return the partitions that an entry has registered, if anything was."""
    if isinstance(body, Rewind):
        return set()
    if isinstance(body, Seal):
        is_registering = Action.REGISTER in body.actions
        return {(each.table, each.partition) for each in body.partitions if is_registering}
    return {target.key for target in body.targets}


def _apply(fold: Fold, entry: Entry, closed: Unclosed | None) -> Mapping[str, object]:
    """Return what an entry changes in the fold besides having `closed` the one before."""
    body: Body = entry.body
    match body:
        case Join():
            return {"shards": _join(fold, entry, body)}
        case Prepare():
            return _prepare(fold, entry, body)
        case Reland():
            return _reland(fold, entry, body, closed)
        case Skip():
            return _skip(fold, body, closed)
        case Seal():
            return _seal(fold, entry, body)
        case Rewind():
            return _rewind(fold, entry, body)
        case Retire():
            gone = {(each.table, each.partition) for each in body.partitions}
            kept = {key: state for key, state in fold.partitions.items() if key not in gone}
            return {"partitions": kept}
        case Commit():
            require(entry.closing is not None, "it closes nothing")
            return {}
        case Open():
            return fail("open entries close nothing")


def _join(fold: Fold, entry: Entry, body: Join) -> Mapping[ShardKey, ShardState]:
    shards, generations = dict(fold.shards), _generations(fold.shards)
    for joined in body.shards:
        key, stream = joined.key, (joined.key.source, joined.key.stream)
        require(key not in shards, f"{key} joins a second time")
        require(joined.first_offset >= 0, f"{key} begins at offset {joined.first_offset}")
        known = generations.get(stream)
        if known is None:
            require(key.generation == 1, f"{key} begins with generation {key.generation}")
        elif joined.stream_id == known[1]:
            require(key.generation == known[0], f"{key} has the identity of another generation")
        else:
            require(key.generation == known[0] + 1, f"{key} does not follow generation {known[0]}")
        generations[stream] = (key.generation, joined.stream_id)
        # A shard without records holds the watermark up for a while from here on, not from 1970.
        shards[key] = _new_shard(joined, max(fold.now_ms, entry.written_ms))
    return shards


def _new_shard(joined: Joined, now_ms: int) -> ShardState:
    return ShardState(
        key=joined.key,
        stream_id=joined.stream_id,
        first=joined.first_offset,
        next=joined.first_offset,
        fetched=0,
        landed=0,
        dead=0,
        filtered=0,
        dropped=0,
        skipped=0,
        lost=0,
        size_bytes=0,
        event_max_ms=None,
        active_ms=now_ms,
    )


def _check_next(state: ShardState | None, key: ShardKey, offsets: OffsetRange) -> ShardState:
    """Return the shard's state, having checked that `offsets` begin where it ends."""
    if state is None:
        raise Refused(f"{key} was never joined")
    if offsets.start != state.next:
        raise Refused(f"{key}: range {offsets} while {state.next} is the next offset")
    return state


def _prepare(fold: Fold, entry: Entry, body: Prepare) -> Mapping[str, object]:
    require(body.batch == fold.next_batch, f"batch {body.batch}, expected {fold.next_batch}")
    require(body.now_ms >= fold.now_ms, "its time is below the log's last")
    generations = _generations(fold.shards)
    changed: dict[ShardKey, ShardState] = {}
    for read in body.shards:
        key = read.key
        state = _check_next(fold.shards.get(key), key, read.offsets)
        if generations[key.source, key.stream][0] != key.generation:
            raise Refused(f"{key} is not of the current generation")
        changed[key] = _read(state, read, body)
    require(len(changed) == len(body.shards), "a shard stands in it twice")
    for table, watermark_ms in body.watermarks:
        require(watermark_ms >= fold.watermarks.get(table, watermark_ms), f"{table}: watermark")
    check_files(body.files, body.targets, len(body.shards), has_spans=body.query is None)
    if body.query is None:
        check_counts(body)
    counters = dict(fold.counters)
    for name, count in body.counters:
        counters[name] = counters.get(name, 0) + count
    return {
        "shards": {**fold.shards, **changed},
        "now_ms": body.now_ms,
        "next_batch": body.batch + 1,
        "watermarks": {**fold.watermarks, **dict(body.watermarks)},
        "partitions": _fill(fold.partitions, entry.number, body.files, body.targets),
        "counters": counters,
        "unclosed": Unclosed(entry.number, entry.epoch, entry.written_ms, body),
        "query": follow(fold.query, body),
    }


def _read(state: ShardState, read: ShardRead, body: Prepare) -> ShardState:
    parts = read.landed + read.dead + read.filtered + read.dropped
    if body.query is None:
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
        active_ms=body.now_ms if read.fetched else state.active_ms,
    )


def _fill(
    partitions: Mapping[PartitionKey, PartitionState],
    number: int,
    files: tuple[DataFile, ...],
    targets: tuple[Target, ...],
) -> Mapping[PartitionKey, PartitionState]:
    filled = dict(partitions)
    for key, (rows, count) in rows_of(files, targets).items():
        state = filled.get(key) or PartitionState(*key, 0, 0, number, False, 0, 0, 0)
        filled[key] = replace(
            state, rows=state.rows + rows, files=state.files + count, entry=number
        )
    return filled


def _reland(
    fold: Fold, entry: Entry, body: Reland, closed: Unclosed | None
) -> Mapping[str, object]:
    gone = _lost_files(closed, body.entry, body.lost)
    require(len(gone.files) > 0, "it lands nothing again")
    of = gone.body
    known = {each if isinstance(each, ShardKey) else each.key for each in of.shards}
    require(
        (body.batch, body.now_ms, body.watermarks) == (of.batch, of.now_ms, of.watermarks)
        and known >= set(body.shards),
        "its batch, time, watermarks or shards are not those of the entry",
    )
    check_files(body.files, body.targets, len(body.shards), has_spans=True)
    lost, landed = rows_of(gone.files, of.targets), rows_of(body.files, body.targets)
    partitions = dict(fold.partitions)
    for key in lost.keys() | landed.keys():
        rows, count = landed.get(key, (0, 0))
        lost_rows, lost_count = lost.get(key, (0, 0))
        require(rows == lost_rows, f"{key[1]}: {rows} rows landed again, {lost_rows} were lost")
        if key in partitions:
            left = partitions[key]
            files = left.files - lost_count + count
            partitions[key] = replace(left, files=files, entry=entry.number)
    return {
        "partitions": partitions,
        "unclosed": Unclosed(entry.number, entry.epoch, entry.written_ms, body),
    }


class _Lost(NamedTuple):
    """Files that an entry gives up, and the body that named them."""

    files: tuple[DataFile, ...]
    body: Prepare | Reland


def _lost_files(closed: Unclosed | None, number: int | None, lost: tuple[str, ...]) -> _Lost:
    """Return the files that an entry gives up, all of them of the entry that it closes."""
    if closed is None or closed.number != number:
        raise Refused("lost files of an entry that it does not close")
    if not isinstance(closed.body, Prepare | Reland):
        raise Refused("lost files of an entry that has none")
    files = {file.unique: file for file in closed.body.files}
    require(files.keys() >= set(lost), "lost files that the entry does not name")
    require(len(set(lost)) == len(lost), "a lost file stands in it twice")
    return _Lost(tuple(files[each] for each in lost), closed.body)


def _skip(fold: Fold, body: Skip, closed: Unclosed | None) -> Mapping[str, object]:
    shards = dict(fold.shards)
    for each in body.ranges:
        state = _check_next(shards.get(each.key), each.key, each.offsets)
        skipped = state.skipped + each.offsets.size
        shards[each.key] = replace(state, next=each.offsets.end, skipped=skipped)
    partitions, lost_rows = dict(fold.partitions), 0
    if body.lost or body.entry is not None:
        gone = _lost_files(closed, body.entry, body.lost)
        require(len(gone.files) > 0, "it gives up no file of its entry")
        is_query = isinstance(gone.body, Prepare) and gone.body.query is not None
        for key, (rows, count) in rows_of(gone.files, gone.body.targets).items():
            lost_rows += 0 if is_query else rows  # a query's rows are of no shard
            if key in partitions:
                left = partitions[key]
                partitions[key] = replace(left, rows=left.rows - rows, files=left.files - count)
    counted = sum(rows for _, rows in body.lost_rows)
    require(counted == lost_rows, f"{lost_rows} rows of shards are lost, {counted} counted")
    for shard, rows in body.lost_rows:
        require(shard in shards, f"{shard} was never joined")
        require(rows >= 0, f"{shard}: a count below zero")
        shards[shard] = replace(shards[shard], lost=shards[shard].lost + rows)
    return {"shards": shards, "partitions": partitions}


def _rewind(fold: Fold, entry: Entry, body: Rewind) -> Mapping[str, object]:
    require(0 <= body.entry < entry.number, f"it goes back to entry {body.entry}")
    shards = dict(fold.shards)
    for each in body.shards:
        state = shards.get(each.key)
        if state is None or each.offsets.end != state.next or each.offsets.start < state.first:
            raise Refused(f"{each} is given back, which is not the end of what was read")
        shards[each.key] = replace(state, next=each.offsets.start)
    files = tuple(each.file for each in body.files)
    check_files(files, body.targets, 0, has_spans=False)
    partitions = dict(fold.partitions)
    for key, (rows, count) in rows_of(files, body.targets).items():
        left = partitions.get(key)
        if left is None:
            continue  # retired, or sealed long ago and forgotten
        require(not left.sealed_version, f"{key[1]} is sealed")
        require(left.rows >= rows and left.files >= count, f"{key[1]} has no such files")
        partitions[key] = replace(
            left, rows=left.rows - rows, files=left.files - count, entry=entry.number
        )
    return {
        "shards": shards,
        "partitions": partitions,
        "query": go_back(fold.query, body),
        "unclosed": Unclosed(entry.number, entry.epoch, entry.written_ms, body),
    }


def _seal(fold: Fold, entry: Entry, body: Seal) -> Mapping[str, object]:
    partitions = dict(fold.partitions)
    for sealed in body.partitions:
        key = (sealed.table, sealed.partition)
        state = partitions.get(key) or PartitionState(*key, 0, 0, entry.number, False, 0, 0, 0)
        expected = state.sealed_version + 1
        require(sealed.version >= expected, f"{key[1]}: version {sealed.version} is not new")
        partitions[key] = _sealed(state, sealed)
    return {
        "partitions": partitions,
        "unclosed": Unclosed(entry.number, entry.epoch, entry.written_ms, body),
    }


def _sealed(state: PartitionState, sealed: SealedPartition) -> PartitionState:
    return replace(
        state,
        sealed_version=sealed.version,
        sealed_rows=sealed.rows,
        sealed_ms=sealed.now_ms,
    )


def forget_sealed(fold: Fold, before_ms: int) -> Fold:
    """Return the fold without partitions that were sealed before `before_ms`.

    For snapshots: what nothing can ask for any more need not be carried along. A partition of
    which something is owed, or that has more rows than were sealed, is kept.
    """
    check(fold.unclosed is None, "a snapshot ends at a closed entry")
    owed = {(each.table, each.partition) for each in fold.owed.values()}
    kept = {
        key: state
        for key, state in fold.partitions.items()
        if key in owed
        or state.rows > state.sealed_rows
        or not (state.sealed_version and state.sealed_ms < before_ms)
    }
    return replace(fold, partitions=kept)
