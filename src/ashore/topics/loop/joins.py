"""Which shards a slice takes up, where reading begins, and whether known shards are still the same.

What it is: the first half of step 1: compare the streams that exist with those that the log knows.
`Histories` asks the source where a partition has got another leader since its last range was
planned. A leader that lacked records (an unclean election) may have cut the partition below that,
and what has grown since would be read on from the next offset.
What it promises: the offset that a policy was resolved to is in the log before the first read, so
that a crash does not resolve `latest` again. A stream that was created again stops the slice,
also when its offsets look fine. What a broker may report whose metadata lag (fewer shards, an end
that went back, a stream that is not there) stops nothing at once: it is looked at again. A position
whose history was cut is refused, never read on from. Where the leader is the same, or the log knows
none (it is older, or offsets were skipped), nothing is asked.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import (
    HistoryTruncated,
    OffsetsGone,
    OffsetsWentBack,
    StreamMissing,
    StreamReplaced,
)
from ashore.log.entries import Join, Joined
from ashore.log.fold import Fold
from ashore.log.names import parse_insert, parse_query_source
from ashore.log.plan_batch import Gaps, Logged, ShardOffsets, WentBack, find_doubtful
from ashore.log.positions import ShardKey, StreamShard
from ashore.topics.read.source import FirstOffset, Position, Source, StreamInfo

T = TypeVar("T")

EARLIEST = FirstOffset("earliest")
LAG_S = 10.0  # brokers learn of topics and ends from each other; this is many times what it takes
LOOK_AGAIN_S = 0.5


def look_again(clock: Clock, look: Callable[[], T], report: Callable[[str], None]) -> T:
    """Return what `look` returns, having looked again for `LAG_S` where offsets went back.

    `look` asks the source anew each time; `report` gets, once, what will be looked at again.

    Raises OffsetsWentBack where every look raised it, and at once whatever else `look` raises.
    """
    until_s, reported = clock.monotonic_s() + LAG_S, False
    while True:
        try:
            return look()
        except OffsetsWentBack as error:
            if clock.monotonic_s() >= until_s:
                raise
            if not reported:
                report(f"{error.message}; retrying for {LAG_S:.0f} s")
                reported = True
        clock.sleep(LOOK_AGAIN_S)


def check_streams(source: str, fold: Fold, streams: Mapping[str, StreamInfo]) -> None:
    """Raise StreamReplaced where a known stream is another, OffsetsWentBack where it has less."""
    generations, former = fold.generations(), _former_ids(source, fold)
    for name, info in streams.items():
        current = generations.get((source, name))
        if current is None or current[1] == info.stream_id:
            continue
        if info.stream_id in former[name]:
            raise OffsetsWentBack(
                f"topic {name} has the id that it had before it was created again",
                hint="nothing was read; was the cluster restored from a backup?",
                stream=name,
            )
        raise StreamReplaced(
            f"topic {name} was deleted and created again: the log knows {current[1]}, "
            f"Kafka has {info.stream_id}",
            hint=f"to continue with the new topic: ashore rejoin JOB.yaml {name}",
            stream=name,
        )
    _check_shards(source, fold, streams)


def _check_shards(source: str, fold: Fold, streams: Mapping[str, StreamInfo]) -> None:
    shards = {name: frozenset(info.shards) for name, info in streams.items()}
    missing: dict[str, list[str]] = defaultdict(list)
    for key in fold.current():
        if key.source == source and key.stream in shards and key.shard not in shards[key.stream]:
            missing[key.stream].append(key.shard)
    for name in sorted(missing):
        raise OffsetsWentBack(
            f"topic {name} no longer has partition {', '.join(missing[name])}",
            hint="nothing was read; was the topic restored from a backup?",
            stream=name,
        )


def _former_ids(source: str, fold: Fold) -> defaultdict[str, set[str]]:
    """Return the identities that streams had before they were created again."""
    generations = fold.generations()
    former = defaultdict[str, set[str]](set)
    for key, state in fold.shards.items():
        if key.source == source and key.generation < generations[source, key.stream][0]:
            former[key.stream].add(state.stream_id)
    return former


def find_replaced(
    source: str, fold: Fold, known: Mapping[str, str], now: Mapping[str, StreamInfo]
) -> str | None:
    """Return a stream that was created again while it was read, or None.

    `known`: identities of streams before they were read; `now`: streams that exist after.

    Raises StreamMissing where one is not there, which a broker whose metadata lag reports too.
    """
    former = _former_ids(source, fold)
    for stream, stream_id in known.items():
        there = now.get(stream)
        if there is None or there.stream_id in former[stream]:
            raise StreamMissing(
                f"topic {stream} no longer exists; nothing was prepared",
                hint="it is checked again: a broker may not know it yet",
                streams=[stream],
            )
        if there.stream_id != stream_id:
            return stream
    return None


def require_streams(names: Iterable[str], streams: Mapping[str, StreamInfo]) -> None:
    """Raise StreamMissing where a stream that the job names does not exist."""
    missing = sorted(set(names) - streams.keys())
    if missing:
        raise StreamMissing(
            f"topic {', '.join(missing)} does not exist",
            hint="create it, or correct `topic` in the job file",
            streams=missing,
        )


def shown_gaps(gaps: Gaps) -> str:
    """Return what is gone, for people: the first of it."""
    return "; ".join(str(each) for each in gaps.ranges[:5])


def refuse_gaps(gaps: Gaps) -> OffsetsGone:
    """Return the error of a job that does not skip gaps."""
    first = gaps.ranges[0]
    place, to = f"{first.key.stream}/{first.key.shard}", first.offsets.end
    return OffsetsGone(
        f"Kafka no longer has {shown_gaps(gaps)}",
        hint=f'to continue without them: ashore skip JOB.yaml {place} --to {to} --why "..."; '
        "to continue over every gap, write `gap: skip` under `source`: each is recorded",
        streams=sorted({each.key.stream for each in gaps.ranges}),
        ranges=[str(each) for each in gaps.ranges],
    )


def went_back(outcome: WentBack) -> OffsetsWentBack:
    """Return the error of a shard that ends below what was landed."""
    return OffsetsWentBack(
        f"{outcome.key} ends at {outcome.end}, but {outcome.next} is the next offset to read",
        hint="was the topic truncated, or restored from a backup? Nothing was read",
        stream=outcome.key.stream,
        shard=str(outcome.key),
        next=outcome.next,
        end=outcome.end,
    )


def plan_join(
    source: Source,
    fold: Fold,
    streams: Mapping[str, StreamInfo],
    first_of: Callable[[str, bool], FirstOffset],
    name: str | None = None,
) -> Join | None:
    """Return the join of shards that the log does not know yet, or None.

    Arguments:
        source: resolves offsets.
        fold: of the slice's log.
        streams: those of the slice that exist.
        first_of: `(stream, is_first_start)` to where reading begins; asked only for streams that
            the log has never seen. A new shard of a known stream begins at its beginning.
        name: of the source in the keys, where it is not the source's own.

    """
    source_name = name or source.name
    joined: list[Joined] = []
    is_first_start, generations = not fold.shards, fold.generations()
    for stream, info in sorted(streams.items()):
        current = generations.get((source_name, stream))
        first = EARLIEST if current else first_of(stream, is_first_start)
        generation = current[0] if current else 1
        policy = "new_shard" if current else first.policy
        for shard in info.shards:
            key = ShardKey(source_name, stream, generation, shard)
            if key in fold.shards:
                continue
            offset = source.resolve_first(StreamShard(stream, shard), first)
            joined.append(Joined(key, info.stream_id, offset, policy))
    return Join(tuple(joined)) if joined else None


def begin_at(join: Join, begun: Mapping[StreamShard, int]) -> Join:
    """Return a join whose shards begin where their reader continues. `begun`: its offsets."""
    return Join(tuple(_begin(each, begun) for each in join.shards))


def _begin(joined: Joined, begun: Mapping[StreamShard, int]) -> Joined:
    offset = begun.get(StreamShard(joined.key.stream, joined.key.shard))
    if offset is None:
        return joined
    return replace(joined, first_offset=offset, policy="checkpoint")


def plan_rejoin(source: Source, fold: Fold, info: StreamInfo) -> Join | None:
    """Return the join of the next generation of a stream that was created again.

    It begins at the beginning of the new stream. None where the log knows this identity already:
    it is the current one, or a former one that a broker reports whose metadata lag.
    """
    current = fold.generation(source.name, info.stream)
    if current is None or current[1] == info.stream_id:
        return None
    if info.stream_id in _former_ids(source.name, fold)[info.stream]:
        return None
    joined = tuple(
        Joined(
            ShardKey(source.name, info.stream, current[0] + 1, shard),
            info.stream_id,
            source.resolve_first(StreamShard(info.stream, shard), EARLIEST),
            "rejoin",
        )
        for shard in info.shards
    )
    return Join(joined)


def shards_of(keys: Sequence[ShardKey]) -> list[StreamShard]:
    """Return the shards of keys, as a source knows them."""
    return [StreamShard(key.stream, key.shard) for key in keys]


# ---- histories of shards: asked before planning


class Histories:
    """Asks once for each position and leader. Used by one thread."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._confirmed: dict[ShardKey, tuple[int, int | None]] = {}

    def check(self, fold: Fold, offsets: Mapping[ShardKey, ShardOffsets]) -> None:
        """Raise HistoryTruncated where a shard was cut below what was landed; SourceError.

        Arguments:
            fold: of the slice's log.
            offsets: of shards, as the source has just returned them; none of them ends below what
                was landed, or begins above.

        """
        found = self.find((fold.shards[key] for key in sorted(offsets)), offsets)
        for state, reason in found.items():
            raise history_truncated(state.key, state.next, reason, len(found))

    def find(
        self, landed: Iterable[Logged], offsets: Mapping[ShardKey, ShardOffsets]
    ) -> dict[Logged, str]:
        """Return the shards that were cut below what was landed, and why. Raises SourceError.

        A shard whose next offset the source does not have is left out: it is reported elsewhere.
        """
        doubtful = {
            each: (each.next, offsets[each.key].leader_epoch)
            for each in find_doubtful(landed, offsets)
        }
        questions = [each for each, at in doubtful.items() if self._confirmed.get(each.key) != at]
        found = find_truncated(self._source, questions)
        self._confirmed |= {each.key: doubtful[each] for each in questions if each not in found}
        return found


def find_truncated(source: Source, landed: Sequence[Logged]) -> dict[Logged, str]:
    """Return the shards whose history was cut below what was landed, with the reason."""
    found: dict[Logged, str] = {}
    rest = [each for each in landed if each.leader_epoch is not None]
    while rest:  # a query may read one shard twice, up to different offsets: one a question
        questions = {StreamShard(each.key.stream, each.key.shard): each for each in reversed(rest)}
        truncated = source.find_truncated(
            {
                shard: Position(each.next, each.leader_epoch)
                for shard, each in questions.items()
                if each.leader_epoch is not None
            }
        )
        found |= {questions[shard]: reason for shard, reason in truncated.items()}
        rest = [each for each in rest if each not in questions.values()]
    return found


def history_truncated(
    key: ShardKey, next_offset: int, reason: str, shards: int = 1
) -> HistoryTruncated:
    """Return the error of a shard whose history was cut; one of a number of `shards`."""
    more = f", and {shards - 1} more" if shards > 1 else ""
    of_query = parse_query_source(key.source)
    table = f" --table {_filled_by(of_query.slice)}" if of_query else ""
    return HistoryTruncated(
        f"{key} was truncated below offset {next_offset}, the next to read, and has other records "
        f"below it than those that were landed{more}: {reason}",
        hint="nothing was read; did an unclean leader election lose records? To keep what was "
        f"landed and continue at {next_offset}: ashore skip JOB.yaml "
        f"{key.stream}/{key.shard} "
        f'--to {next_offset}{table} --why "..."',
        stream=key.stream,
        shard=str(key),
        next=next_offset,
    )


def _filled_by(insert: str) -> str:
    """Return what the INSERT of a name fills, as a command line says it."""
    target = parse_insert(insert)
    found = [*target.tables, *([target.topic] if target.topic else [])]
    return found[0] if len(found) == 1 else "TABLE"
