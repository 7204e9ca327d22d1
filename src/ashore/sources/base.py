"""The seam to a source of streams, as the driver sees it.

What it is: what the landing loop and the verifier ask: which streams there are, what they hold,
and to read a range again.
What it promises: an end is stable: below it no record can appear or vanish by an open
transaction.
What it must not know: tables, batches, the log.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ashore.protocol.plan_batch import ShardOffsets
from ashore.protocol.positions import OffsetRange


class StreamShard(NamedTuple):
    """One shard of a stream, as it is now: no generation, that is the log's affair."""

    stream: str
    shard: str


class Position(NamedTuple):
    """Where reading goes on, and the leader of the history that was read up to there."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream that exists."""

    stream: str
    stream_id: str  # changes when the stream is deleted and created again
    shards: tuple[str, ...]


Headers = tuple[tuple[str, bytes | None], ...]


class Record(NamedTuple):
    """One record, as read again for verification.

    `headers`: from `read_plain` only; None: the client cannot read them.
    """

    offset: int
    timestamp_ms: int | None  # None: not within the years 1 to 9999
    key: bytes | None
    value: bytes | None
    headers: Headers | None = ()


@dataclass(frozen=True, slots=True)
class FirstOffset:
    """Where the first start of a shard begins."""

    policy: str  # earliest | latest | timestamp
    timestamp_ms: int | None = None


@dataclass(frozen=True, slots=True)
class HeldUp:
    """An open transaction that keeps a shard's stable end below its newest record."""

    shard: StreamShard
    stable_end: int
    newest: int
    transaction: str  # as far as the source can name it


class Source(Protocol):
    """A source of streams. Calls raise SourceUnreachable, StreamMissing or another SourceError."""

    @property
    def name(self) -> str:
        """The name that shard keys carry: `kafka`."""
        ...

    def list_streams(self) -> list[str]:
        """Return the names of all streams that the job may see, internal ones left out."""
        ...

    def describe_streams(self, streams: Sequence[str]) -> dict[str, StreamInfo]:
        """Return what is known of these streams. One that does not exist is left out."""
        ...

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """Return the first offset and the stable end of each shard, and who leads it."""
        ...

    def find_truncated(self, positions: Mapping[StreamShard, Position]) -> dict[StreamShard, str]:
        """Return the shards whose history was cut below a position, with what is known of it.

        A shard that is there again, with other records up to the position and beyond, is found too.
        A position that the shard no longer reaches, or has not any more, is left to `read_offsets`.
        """
        ...

    def resolve_first(self, shard: StreamShard, first: FirstOffset) -> int:
        """Return the offset that a policy means now. `latest` is the stable end."""
        ...

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """Return the highest time of a record in each shard that has one, in any order.

        Whose clock told it is the stream's affair: the source's, or that of who wrote the record.
        """
        ...

    def find_held_up(self, shards: Sequence[StreamShard]) -> list[HeldUp]:
        """Return the shards whose stable end an open transaction holds up."""
        ...

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, in order. Not for the landing path."""
        ...

    def read_plain(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, as `read_again`, but by other code.

        For who checks what was read. Ends where the shard ends. Not to be asked by two threads, nor
        for the next range before the last one has ended. Raises OffsetsGone too.
        """
        ...

    def show_offsets(self, group: str, offsets: Mapping[StreamShard, int]) -> None:
        """Show next offsets under a consumer group, for tools that watch lag.

        Nothing is ever read from there.
        """
        ...

    def close(self) -> None:
        """Let go of connections."""
        ...
