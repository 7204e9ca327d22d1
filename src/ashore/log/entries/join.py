"""`join`: shards are taken up, before their first read.

What it promises: where reading begins is in the log before anything is read, so that a crash does
not resolve `latest` again (I1). A shard joins once. The generations of a stream are 1, 2, 3 ...,
each with an identity of its own.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.fold import Changes, Fold, ShardState
from ashore.log.positions import ShardKey
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class Joined:
    """One shard that is read from now on."""

    key: ShardKey
    stream_id: str  # the identity of the stream; another one is another generation
    first_offset: int
    policy: str  # how the offset was resolved: earliest, latest, timestamp, rejoin ...


@dataclass(frozen=True, slots=True)
class Join:
    """Shards taken up, before their first read."""

    kind: ClassVar[str] = "join"
    shards: tuple[Joined, ...]


def fold_join(fold: Fold, body: Join, written_ms: int) -> Changes:
    """Return what a `join` changes in the fold. Raises Refused. `written_ms`: of its entry."""
    shards, generations = dict(fold.shards), fold.generations()
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
        shards[key] = _new_shard(joined, max(fold.now_ms, written_ms))
    return {"shards": shards}


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
