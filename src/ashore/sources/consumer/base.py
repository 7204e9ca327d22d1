"""What a reading asks of a consumer.

What it promises: the same of both consumers, the native one and the one of Python's client.
What it must not know: which of them is there, what a range is.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import pyarrow as pa

TopicPartition = tuple[str, int]  # topic, partition


class ConsumerEvent(NamedTuple):
    """What a consumer says instead of a record: the end of a partition, or an error."""

    partition: TopicPartition
    code: int  # of the Kafka client
    offset: int  # where the partition ends
    text: str


@dataclass(frozen=True, slots=True)
class Chunk:
    """What came with one call."""

    records: list[pa.RecordBatch]  # in the columns of FETCHED, or with headers; none of them empty
    events: list[ConsumerEvent]


class RangeConsumer(Protocol):
    """A consumer of partitions that are named to it. It joins no group and commits nothing."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch these partitions at these offsets."""

    def pause(self, partitions: Iterable[TopicPartition]) -> None:
        """Fetch no more of these for now, and drop what was fetched ahead."""

    def resume(self, partitions: Iterable[TopicPartition]) -> None:
        """Go on with these."""

    def consume(self, limit: int, wait_s: float) -> Chunk:
        """Return at most `limit` records and events, those of a partition in order.

        Waits until there are so many, at most `wait_s`. A record may come after a pause.
        """

    def close(self) -> None:
        """Let go of connections. Nothing may follow."""
