"""Places in a stream, and the time of a batch.

What it is: a shard of one generation of a stream, and half-open ranges of its offsets; `BatchTime`,
fixed when a batch is planned, and recorded.
What it promises: offsets are ordered integers; a shard is an opaque string. A stream that was
deleted and created again is another generation, so that equal offsets never collide.
A batch that is written a second time, by any process at any time, is filed the same way, since its
writers have no other source of time.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from ashore.base import codec
from ashore.errors import fail


@dataclass(frozen=True, slots=True, order=True)
class ShardKey:
    """One shard of one generation of a stream: the ledger's key."""

    source: str
    stream: str
    generation: int  # counts the stream's identities, from 1
    shard: str

    def __str__(self) -> str:
        """Return the name for people: `clicks/3`, or `clicks#2/3` from the second generation on."""
        generation = f"#{self.generation}" if self.generation > 1 else ""
        return f"{self.stream}{generation}/{self.shard}"


class StreamShard(NamedTuple):
    """One shard of a stream as it is now. The log alone counts generations."""

    stream: str
    shard: str


@dataclass(frozen=True, slots=True, order=True)
class OffsetRange:
    """The offsets from `start` up to, without, `end`. Not every offset needs to hold a record."""

    start: int
    end: int

    def __post_init__(self) -> None:
        if not 0 <= self.start <= self.end:
            fail(f"offset range {self.start} to {self.end}")

    @property
    def size(self) -> int:
        """The number of offsets, an upper bound of the number of records."""
        return self.end - self.start

    def overlaps(self, other: "OffsetRange") -> bool:
        """Return whether some offset is in both."""
        return self.start < other.end and other.start < self.end

    def __str__(self) -> str:
        """Return `[start, end)`."""
        return f"[{self.start}, {self.end})"


@dataclass(frozen=True, slots=True, order=True)
class ShardRange:
    """A range of one shard."""

    key: ShardKey
    offsets: OffsetRange

    def __str__(self) -> str:
        """Return `clicks/3 [10, 20)`."""
        return f"{self.key} {self.offsets}"


@dataclass(frozen=True, slots=True)
class Seam:
    """Where two neighbouring ranges of a shard do not meet: a hole or an overlap."""

    key: ShardKey
    expected: int
    found: int

    def __str__(self) -> str:
        """Return a sentence that names the offsets."""
        if self.found > self.expected:
            return f"{self.key}: hole {OffsetRange(self.expected, self.found)}"
        return f"{self.key}: overlap {OffsetRange(self.found, self.expected)}"


def find_seams(key: ShardKey, first: int, ranges: Iterable[OffsetRange]) -> list[Seam]:
    """Return the holes and overlaps of `ranges`, in their order, from offset `first` on."""
    seams, expected = [], first
    for offsets in ranges:
        if offsets.start != expected:
            seams.append(Seam(key, expected, offsets.start))
        expected = max(expected, offsets.end)
    return seams


@codec.inlined
@dataclass(frozen=True, slots=True)
class BatchTime:
    """What lateness is judged by, and where rows without a time of their own go."""

    now_ms: int  # the driver's clock, never below the log's last
    watermarks: tuple[tuple[str, int], ...] = ()  # table, ms; none of tables that have none yet

    def watermark_ms(self, table: str) -> int | None:
        """Return the watermark of a table; None: it has none."""
        return dict(self.watermarks).get(table)
