"""Reading again what is in no file: only the source distinguishes a lost record from a hole.

What it promises: few contiguous ranges per shard. What the source no longer has is never taken for
a hole: its bounds and the stream's identity are read once more after the records.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ashore.errors import OffsetsGone, OffsetsWentBack, SourceError, SourceUnreachable
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.evidence.ledger import PartKey
from ashore.proof.evidence.result import NAMED_MAX, Progress
from ashore.proof.evidence.runs import (
    NO_OFFSETS,
    NO_RUNS,
    Offsets,
    Runs,
    bridge,
    intersect,
    offsets_within,
    unite,
)
from ashore.topics.read.source import Source

GAP_OFFSETS = 10_000  # reading this many records costs less than another request
PIECE_RECORDS = 100_000

Generations = Mapping[tuple[str, str], tuple[int, str]]
"""The newest generation of each (source, stream), and its identity."""


@dataclass(frozen=True, slots=True, eq=False)
class Unaccounted:
    """Offsets of a shard's part that are in no file and that no count explains."""

    key: PartKey
    missing: Runs


@dataclass(frozen=True, slots=True)
class Answer:
    """What the source says of them."""

    records: int  # how many of these offsets hold a record
    unavailable: int  # for how many the source does not know it, or no longer
    offsets: tuple[int, ...]  # the first that hold a record


@dataclass(frozen=True, slots=True)
class Answers:
    """What the source says of everything that was asked."""

    parts: dict[PartKey, Answer]
    notes: tuple[str, ...]
    failed: frozenset[ShardKey] = frozenset()  # the source did not answer: it may do so later


@dataclass(slots=True, eq=False)
class _ShardAnswer:
    records: list[Offsets] = field(default_factory=list)
    available: Runs = NO_RUNS  # read, and still there afterwards

    def of(self, missing: Runs) -> Answer:
        records = offsets_within(np.concatenate([*self.records, NO_OFFSETS]), missing)
        reported = intersect(missing, self.available).size
        # A record that has expired since it was read is known to have been there.
        reported += len(records) - len(offsets_within(records, self.available))
        return Answer(len(records), missing.size - reported, tuple(records[:NAMED_MAX].tolist()))


def read_again(
    source: Source, unaccounted: Sequence[Unaccounted], generations: Generations, progress: Progress
) -> Answers:
    """Read offsets again and say which of them hold records.

    A source that fails, or does not answer, is no error here: what it does not answer is
    unavailable, and a note says why.
    """
    by_shard: dict[ShardKey, list[Unaccounted]] = defaultdict(list)
    for each in unaccounted:
        by_shard[each.key.shard].append(each)
    parts: dict[PartKey, Answer] = {}
    notes: list[str] = []
    failed: set[ShardKey] = set()
    is_reachable = True
    for done, (shard, of_shard) in enumerate(sorted(by_shard.items()), 1):
        found = _ShardAnswer()
        newest, stream_id = generations.get((shard.source, shard.stream), (0, ""))
        is_asked = shard.source == source.name and shard.generation == newest
        if is_asked and not is_reachable:
            failed.add(shard)
        elif is_asked:
            try:
                _read_shard(source, shard, unite([each.missing for each in of_shard])[0], found)
                _confirm(source, shard, stream_id, found)
            except (SourceError, OffsetsGone, OffsetsWentBack) as error:
                found = _ShardAnswer()
                is_reachable = not isinstance(error, SourceUnreachable)
                notes.append(f"{shard} could not be read again: {error.message}")
                if isinstance(error, SourceError):
                    failed.add(shard)
        for each in of_shard:
            parts[each.key] = found.of(each.missing)
        progress("kafka", done, len(by_shard))
    return Answers(parts, tuple(notes), frozenset(failed))


def _read_shard(source: Source, shard: ShardKey, missing: Runs, found: _ShardAnswer) -> None:
    there = StreamShard(shard.stream, shard.shard)
    bounds = source.read_offsets([there])[there]
    to_read = bridge(missing.clip(bounds.earliest, bounds.end), GAP_OFFSETS)
    for offsets in to_read.ranges():
        piece: list[int] = []
        for record in source.read_again(there, offsets):
            piece.append(record.offset)
            if len(piece) == PIECE_RECORDS:
                found.records.append(offsets_within(np.array(piece, np.int64), missing))
                piece.clear()
        found.records.append(offsets_within(np.array(piece, np.int64), missing))
    found.available = to_read


def _confirm(source: Source, shard: ShardKey, stream_id: str, found: _ShardAnswer) -> None:
    """Keep of an answer what the source still had when all was read."""
    there = StreamShard(shard.stream, shard.shard)
    bounds = source.read_offsets([there])[there]
    info = source.describe_streams([shard.stream]).get(shard.stream)
    if info is None or info.stream_id != stream_id:
        raise SourceError(
            f"topic {shard.stream} was deleted and created again after it was landed",
            hint=f"to continue with the new topic: ashore rejoin JOB.yaml {shard.stream}",
        )
    found.available = found.available.clip(bounds.earliest, bounds.end)
