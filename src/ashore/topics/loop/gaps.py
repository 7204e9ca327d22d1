"""Giving up offsets that the source no longer has, by a command.

What it is: what may be skipped, looked up, and the `skip` entry that says who did it and why.
What it promises: what the source still has is never given up, unless it is too large to be read.
Where there is nothing to skip, the
slice is not taken over. Where a history was cut below the next offset, a `skip` of no offsets says
that an operator continues all the same; of a query nothing else can be given up, as Spark's
checkpoint says what it reads next.
"""

from collections.abc import Callable
from dataclasses import dataclass

from ashore.errors import OffsetsWentBack, Stopped, StreamMissing, StreamReplaced
from ashore.log.entries import Skip
from ashore.log.fold import Fold, ShardState
from ashore.log.names import SliceName, parse_query_source
from ashore.log.plan_batch import ShardOffsets, leaders_of
from ashore.log.positions import OffsetRange, ShardRange, StreamShard
from ashore.log.store.committer import Committer
from ashore.log.store.reader import read_log
from ashore.storage.base import Storage
from ashore.topics.loop.joins import find_truncated
from ashore.topics.read.source import Source, StreamInfo

TooLarge = Callable[[StreamShard, OffsetRange], OffsetRange | None]


def nothing_too_large(_shard: StreamShard, _offsets: OffsetRange) -> None:
    """Say that whatever the source has can be read."""


@dataclass(frozen=True, slots=True)
class SkipWish:
    """The offsets that an operator gives up."""

    shard: StreamShard
    to: int  # the offset at which reading resumes
    by: str
    why: str
    # Of offsets that the source has: those that the first of them is too large to be read with.
    find_too_large: TooLarge = nothing_too_large


def find_skip(
    storage: Storage, name: SliceName, source: Source, wish: SkipWish
) -> ShardRange | None:
    """Return the range that `skip` would give up, or None: the log continues there already.

    Looks only, beside whatever runs. Raises StreamMissing, StreamReplaced, OffsetsWentBack, and
    Stopped where the wish goes beyond the gap, or back.
    """
    planned = _plan(read_log(storage, name), source, wish)
    return planned.ranges[0] if planned else None


def skip(committer: Committer, source: Source, wish: SkipWish) -> ShardRange | None:
    """Give up the offsets below `wish.to`: a `skip` entry says so for ever. Returns the range.

    Takes the slice over, unless there is nothing to skip. Raises what `find_skip` raises, and what
    finishing the unclosed entry raises: FilesLost, FileConflict, Fenced, StorageError.
    If interrupted: nothing is skipped, or all of it; doing it again is harmless.
    """
    log = committer.log
    if find_skip(committer.storage, log.name, source, wish) is None:
        return None
    log.open()
    closing = committer.finish()
    planned = _plan(log.fold, source, wish)
    if planned is not None:
        log.append(planned, closing)
    return planned.ranges[0] if planned else None


def _plan(fold: Fold, source: Source, wish: SkipWish) -> Skip | None:
    if fold.plan is not None or fold.query is not None:
        return _plan_of_query(fold, source, wish)
    state = _find_shard(fold, source, wish.shard)
    there = source.read_offsets([wish.shard])[wish.shard]
    skipped = ShardRange(state.key, OffsetRange(state.next, max(state.next, wish.to)))
    leaders = leaders_of([state.key], {state.key: there})
    planned = Skip((skipped,), None, (), (), wish.by, wish.why, leaders)
    if wish.to == state.next:
        # No offset is given up, but that what is below is what the topic holds.
        return planned if find_truncated(source, [state]) else None
    if wish.to < state.next:
        raise Stopped(
            f"{state.key} is landed or skipped below {state.next}: no earlier offset can be "
            "skipped",
            hint="ashore status shows the next offset",
        )
    if there.end < state.next:
        raise OffsetsWentBack(
            f"{state.key} ends at {there.end}, but {state.next} is the next offset to read",
            hint="this is not a gap: was the topic truncated, or restored from a backup?",
        )
    if wish.to > there.earliest and not _is_too_large(wish, state, there):
        is_gap, first = there.earliest > state.next, max(there.earliest, state.next)
        raise Stopped(
            f"Kafka has {state.key} from {first} on: offsets that can be read are never skipped",
            hint=f"write --to {first}" if is_gap else "nothing to skip: start the job",
            earliest=there.earliest,
        )
    return planned


def _is_too_large(wish: SkipWish, state: ShardState, there: ShardOffsets) -> bool:
    """Return whether all that is to be skipped is what readers refuse as too large."""
    if not there.earliest <= state.next < wish.to <= there.end:
        return False
    found = wish.find_too_large(wish.shard, OffsetRange(state.next, wish.to))
    return found is not None and wish.to <= found.end


def _plan_of_query(fold: Fold, source: Source, wish: SkipWish) -> Skip | None:
    """Return the `skip` of no offsets that continues where a topic of a query was cut."""
    readings = [
        state
        for key, state in fold.current().items()
        if (key.stream, key.shard) == wish.shard and parse_query_source(key.source) is not None
    ]
    if not readings:
        raise _unknown(wish.shard)
    there = _describe(source, wish.shard.stream)
    if any(state.stream_id != there.stream_id for state in readings):
        raise StreamReplaced(
            f"topic {wish.shard.stream} is not the topic that the query has read",
            hint="write to another table from the new topic: a new table starts with new state",
        )
    meant = [state for state in readings if state.next == wish.to]
    if not meant:
        at = " and ".join(sorted({str(state.next) for state in readings}))
        raise Stopped(
            f"the query continues at offset {at} of {readings[0].key.stream}/{wish.shard.shard}: "
            "its checkpoint has that position, and no offset of it can be skipped",
            hint=f"write --to {readings[0].next}, if its topic was truncated below that",
        )
    found = source.read_offsets([wish.shard])[wish.shard]
    cut = sorted(each.key for each in find_truncated(source, meant))
    return (
        Skip(
            tuple(ShardRange(key, OffsetRange(wish.to, wish.to)) for key in cut),
            *(None, (), (), wish.by, wish.why),
            leaders_of(cut, dict.fromkeys(cut, found)),
        )
        if cut
        else None
    )


def _find_shard(fold: Fold, source: Source, shard: StreamShard) -> ShardState:
    """Return what the log knows of a shard, having checked that its stream is the same."""
    found = _describe(source, shard.stream)
    current = fold.generation(source.name, shard.stream)
    for key, state in fold.current().items():
        if (key.source, key.stream, key.shard) != (source.name, shard.stream, shard.shard):
            continue
        if current is not None and current[1] != found.stream_id:
            raise StreamReplaced(
                f"topic {shard.stream} is not the topic of the log",
                hint=f"ashore rejoin JOB.yaml {shard.stream}, which starts at its beginning",
            )
        return state
    raise _unknown(shard)


def _describe(source: Source, stream: str) -> StreamInfo:
    found = source.describe_streams([stream]).get(stream)
    if found is None:
        raise StreamMissing(f"topic {stream} does not exist", hint="create it first")
    return found


def _unknown(shard: StreamShard) -> StreamMissing:
    return StreamMissing(
        f"the log has no {shard.stream}/{shard.shard}",
        hint="a partition that the job has not joined yet has no gap",
    )
