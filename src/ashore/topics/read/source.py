"""The seam to a source of streams, as the driver sees it.

What it is: what the landing loop and the verifier ask: which streams there are, what they hold,
and to read a range again.
What it promises: an end is stable: below it no record can appear or vanish by an open
transaction.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from ashore.errors import SourceError
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard


class Position(NamedTuple):
    """The next offset to read, and the leader epoch of the records before it."""

    offset: int
    leader_epoch: int


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """A stream that exists."""

    stream: str
    stream_id: str  # changes when the stream is deleted and created again
    shards: tuple[str, ...]
    may_read: bool = True  # whether the source lets the job's user read it


def not_authorized(stream: str, right: str) -> SourceError:
    """Return the error for a stream on which the job's user lacks a right, as its ACLs name it."""
    return SourceError(
        f"Kafka does not authorize the job's user for topic {stream}: {right} is missing",
        hint=f"grant it, for example: kafka-acls.sh --add --allow-principal User:NAME --operation "
        f"Read --topic {stream}; Read and Write include Describe",
        stream=stream,
    )


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
class OpenTransaction:
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
        """Describe these streams. Those that do not exist are left out."""
        ...

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """Return the first offset, the stable end and the leader epoch of each shard."""
        ...

    def find_truncated(self, positions: Mapping[StreamShard, Position]) -> dict[StreamShard, str]:
        """Return the shards that were truncated below a position, with a sentence about it.

        Also found are shards that have grown again since, up to the position and beyond, with other
        records. A position above the end of a shard, or below its first offset, is not found here:
        `read_offsets` shows it.
        """
        ...

    def resolve_first(self, shard: StreamShard, first: FirstOffset) -> int:
        """Return the offset that a policy resolves to now. `latest` is the stable end."""
        ...

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """Return the highest record timestamp, in ms, of each shard that has one, in any order.

        It is by the clock of the source or of the producer, as the stream is configured.
        """
        ...

    def find_open_transactions(self, shards: Sequence[StreamShard]) -> list[OpenTransaction]:
        """Return the shards whose stable end is blocked by an open transaction."""
        ...

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, in order. Not for the landing path."""
        ...

    def read_plain(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, as `read_again`, by an independent client.

        For verification. Ends where the shard ends. Must be called by one thread only, and for one
        range after the other. Raises OffsetsGone too.
        """
        ...

    def show_offsets(self, group: str, offsets: Mapping[StreamShard, int]) -> None:
        """Commit next offsets to a consumer group, for tools that monitor lag.

        Ashore never reads them back.
        """
        ...

    def close(self) -> None:
        """Close connections."""
        ...
