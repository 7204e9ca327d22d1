"""Entries about a slice: its writers (`open`), shards (`join`), tables (`define`) and times.

What `open` promises: epochs are the writers of a slice in their order, 1, 2, 3 ... (I4). It closes
nothing: what is unclosed stays so, and is the new writer's to finish (I5).
What `join` promises: where reading begins is in the log before anything is read, so that a crash
does not resolve `latest` again (I1). A shard joins once. The generations of a stream are 1, 2, 3
..., each with an identity of its own.
What `define` promises: the files that entries before it list were written as the definition before
it says. So what is about to be written is compared with what readers have, without a catalog and
without opening a file.
What `reset_clock` promises: time goes back in no other entry. Nothing that was landed or sealed
changes with it: rows stay in their partitions, versions of sealed partitions continue. Who did it
and why stand in the log for ever.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.files import PartitionKey
from ashore.log.fold import Changes, Closing, Fold, PartitionState, ShardState, require
from ashore.log.positions import ShardKey
from ashore.log.tables import TableDefinition


@dataclass(frozen=True, slots=True)
class Open:
    """A writer takes the slice over. Closes nothing.

    `looks_back`: after each append the writer looks whether its number was archived before. So the
    `open` that comes after its entries may be removed: where it frees the number that this writer
    tries next, this writer notices.
    """

    kind: ClassVar[str] = "open"
    host: str
    process: int
    version: str
    looks_back: bool = codec.added(default=False)


def fold_open(fold: Fold, epoch: int, closing: Closing | None) -> Changes:
    """Return what an `open` changes in the fold. Raises Refused."""
    require(epoch == fold.epoch + 1, f"epoch {epoch} opened after epoch {fold.epoch}")
    require(closing is None, "it closes something")
    return {"epoch": epoch}


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


@dataclass(frozen=True, slots=True)
class Define:
    """Tables as they are from here on, each as a whole."""

    kind: ClassVar[str] = "define"
    tables: tuple[TableDefinition, ...]
    accepted: tuple[str, ...]  # changes that are risky for readers, in words
    by: str  # who accepted them; empty where there are none
    changes: tuple[str, ...] = codec.added(())  # the others, in words


def fold_define(fold: Fold, body: Define) -> Changes:
    """Return what a `define` changes in the fold. Raises Refused."""
    return {"tables": merge_definitions(fold.tables, body.tables)}


def merge_definitions(
    known: Mapping[str, TableDefinition], tables: Iterable[TableDefinition]
) -> dict[str, TableDefinition]:
    """Return the tables of a log after an entry that defines some. Raises Refused."""
    defined: dict[str, TableDefinition] = {}
    for each in tables:
        require(each.table not in defined, "a table is in it twice")
        defined[each.table] = each
    return {**known, **defined}


@dataclass(frozen=True, slots=True)
class ResetClock:
    """The times of the log go back, after a clock that was ahead."""

    kind: ClassVar[str] = "reset_clock"
    now_ms: int  # no time of the log is above it from here on
    watermarks: tuple[tuple[str, int], ...]  # table, ms; other tables have none until a batch
    by: str
    why: str


def fold_reset_clock(fold: Fold, body: ResetClock) -> Changes:
    """Return what a `reset_clock` changes in the fold. Raises Refused."""
    require(0 <= body.now_ms < fold.latest_ms, "it sets nothing back")
    tables = {table for table, _ in body.watermarks}
    require(len(tables) == len(body.watermarks), "a table is in it twice")
    for table, watermark_ms in body.watermarks:
        is_back = table in fold.watermarks and watermark_ms <= fold.watermarks[table]
        require(is_back, f"{table}: the watermark does not go back")
    return {
        "now_ms": min(fold.now_ms, body.now_ms),
        "watermarks": dict(body.watermarks),
        "shards": _set_back(fold.shards, body.now_ms),
        "partitions": _set_seals_back(fold.partitions, body.now_ms),
    }


def _set_back(shards: Mapping[ShardKey, ShardState], now_ms: int) -> dict[ShardKey, ShardState]:
    """Return shards none of which was active, or had an event, after `now_ms`.

    A highest event time was accepted by a clock that was ahead, and would become the watermark.
    """
    return {
        key: replace(
            state,
            active_ms=min(state.active_ms, now_ms),
            event_max_ms=None if state.event_max_ms is None else min(state.event_max_ms, now_ms),
        )
        for key, state in shards.items()
    }


def _set_seals_back(
    partitions: Mapping[PartitionKey, PartitionState], now_ms: int
) -> dict[PartitionKey, PartitionState]:
    """Return partitions none of which was sealed after `now_ms`, so that late rows are reported."""
    return {
        key: replace(state, sealed_ms=now_ms) if state.sealed_ms > now_ms else state
        for key, state in partitions.items()
    }
