"""Kafka as a source.

What it is: the driver's questions to a Kafka cluster: topics and their ids, offsets, open
transactions, ranges to read again.
What it promises: an end is the last stable offset, so that no transaction that is open can add or
drop a record below it. Asked by several threads at once. Nothing is written to Kafka but, where
the job names a group for it, that group's offsets.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import NamedTuple, TypeVar

from confluent_kafka import (
    OFFSET_INVALID,
    Consumer,
    ConsumerGroupTopicPartitions,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
    Uuid,
)
from confluent_kafka.admin import AclOperation, AdminClient, ListOffsetsResultInfo, OffsetSpec

from ashore.base.suggest import suggest
from ashore.base.time_format import FIRST_MS, LAST_MS
from ashore.errors import OffsetsGone, OffsetsWentBack, SourceError, StreamMissing, check, fail
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import (
    ABSENT,
    MAYBE_ABSENT,
    OFFSET_OUT_OF_RANGE,
    OLD_LEADER,
    VERIFICATION,
    Admin,
    Cluster,
    Complaints,
    next_answer,
    read_headers,
    wait_for,
)
from ashore.topics.read.histories import find_refused
from ashore.topics.read.source import (
    FirstOffset,
    OpenTransaction,
    Position,
    Record,
    StreamInfo,
    not_authorized,
)

T = TypeVar("T")

COMMITTED = IsolationLevel.READ_COMMITTED
UNCOMMITTED = IsolationLevel.READ_UNCOMMITTED
NO_ID = str(Uuid(0, 0))
URL_SAFE = str.maketrans("+/", "-_")  # the library shows an id in the other base64 alphabet
NO_OFFSET = -1  # no record at or after the time that was asked for


class _Listed(NamedTuple):
    """The answer of a leader about an offset."""

    offset: int
    leader_epoch: int | None  # None: an old broker does not report it
    timestamp_ms: int  # of the record there, where the newest was asked for; -1: there is none


class KafkaSource:
    """A Kafka cluster. See `Source` for the contract of the calls.

    Arguments:
        bootstrap_servers: brokers to begin with, `host:port` with commas between.
        options: of the Kafka client, under their Java names.
        timeout_s: how long one call may take.

    Raises JobFileInvalid if an option cannot be used. Connects with the first call.

    """

    name = "kafka"

    def __init__(
        self, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float = 30.0
    ) -> None:
        self._cluster = Cluster.of(bootstrap_servers, options, timeout_s)
        self._admin: Admin | None = self._cluster.open_admin()
        self._plain = PlainReader(self._cluster)

    def list_streams(self) -> list[str]:
        """Return the names of all topics that the job's user may see, internal ones left out."""
        topics = self._ask(lambda client, wait_s: client.list_topics(timeout=wait_s).topics)
        return sorted(name for name in topics if not name.startswith("__"))

    def describe_streams(self, streams: Sequence[str]) -> dict[str, StreamInfo]:
        """Return topic id and partitions of these topics. One that does not exist is left out."""
        return self._ask(lambda client, wait_s: _describe(client, streams, wait_s))

    def read_offsets(self, shards: Sequence[StreamShard]) -> dict[StreamShard, ShardOffsets]:
        """Return the earliest offset and the last stable offset of each partition."""
        # In this order: between the calls retention may raise the earliest, never lower the end.
        earliest = self._list_offsets(shards, OffsetSpec.earliest(), COMMITTED)
        ends = self._list_offsets(shards, OffsetSpec.latest(), COMMITTED)
        return {
            shard: ShardOffsets(
                earliest[shard].offset, ends[shard].offset, ends[shard].leader_epoch
            )
            for shard in shards
        }

    def find_truncated(self, positions: Mapping[StreamShard, Position]) -> dict[StreamShard, str]:
        """Return the partitions whose log was cut below a position: see Source."""
        if self._admin is None:
            fail("the source is closed")
        refused = find_refused(self._admin, positions)
        there = self.read_offsets(list(refused))
        return {
            shard: reason
            for shard, reason in refused.items()
            if there[shard].earliest <= positions[shard].offset <= there[shard].end
        }

    def resolve_first(self, shard: StreamShard, first: FirstOffset) -> int:
        """Return the offset that a policy means now. Nothing that young yet: the stable end."""
        if first.policy == "earliest":
            return self._list_offsets([shard], OffsetSpec.earliest(), COMMITTED)[shard].offset
        # The end is asked first: what is produced between the calls lies behind it.
        end = self._list_offsets([shard], OffsetSpec.latest(), COMMITTED)[shard].offset
        if first.policy == "latest":
            return end
        check(first.policy == "timestamp", f"first start {first.policy!r}")
        check(first.timestamp_ms is not None, "first start at a timestamp without one")
        spec = OffsetSpec.for_timestamp(first.timestamp_ms)
        found = self._list_offsets([shard], spec, COMMITTED)[shard].offset
        return end if found == NO_OFFSET else found

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """Return the highest timestamp of a record in each partition that has one.

        By the broker's clock in topics of LogAppendTime, by the producers' in all others.
        """
        found = self._list_offsets(shards, OffsetSpec.max_timestamp(), UNCOMMITTED)
        return [each.timestamp_ms for each in found.values() if each.timestamp_ms >= 0]

    def find_open_transactions(self, shards: Sequence[StreamShard]) -> list[OpenTransaction]:
        """Return the partitions whose last stable offset an open transaction holds up.

        The Kafka client cannot name the producer; the message says where its transaction begins.
        """
        # In this order: what is produced between the calls does not look like a transaction.
        newest = self._list_offsets(shards, OffsetSpec.latest(), UNCOMMITTED)
        stable = self._list_offsets(shards, OffsetSpec.latest(), COMMITTED)
        return [
            OpenTransaction(
                shard, there.offset, newest[shard].offset, f"open since offset {there.offset}"
            )
            for shard, there in stable.items()
            if there.offset < newest[shard].offset
        ]

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, in order.

        Raises OffsetsGone if Kafka no longer has the range, OffsetsWentBack if it does not reach
        so far, SourceError if it sends nothing for `timeout_s`. A new connection for each call.
        """
        there = self.read_offsets([shard])[shard]
        if offsets.size == 0:
            return iter(())
        if there.earliest > offsets.start:
            deleted = OffsetRange(offsets.start, min(there.earliest, offsets.end))
            raise OffsetsGone(
                f"Kafka no longer has {shard.stream}/{shard.shard} {deleted}:"
                f" it begins at {there.earliest}",
                hint="Kafka has deleted these records by retention: they cannot be read again",
                stream=shard.stream,
                shard=shard.shard,
                start=deleted.start,
                end=deleted.end,
            )
        if there.end < offsets.end:
            raise OffsetsWentBack(
                f"{shard.stream}/{shard.shard} is stable only up to {there.end}, {offsets} were "
                "requested",
                hint="check whether the topic was created again, or lost records in a failover",
                stream=shard.stream,
                shard=shard.shard,
            )
        from ashore.topics.read.reading import read_range  # noqa: PLC0415 - loads Arrow

        return read_range(self._cluster, shard, offsets)

    def read_plain(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range, by messages: see Source."""
        return self._plain.read(shard, offsets)

    def show_offsets(self, group: str, offsets: Mapping[StreamShard, int]) -> None:
        """Commit next offsets for a consumer group. Raises SourceError if the group has members."""
        if not offsets:
            return
        shown = [
            TopicPartition(each.stream, int(each.shard), offset) for each, offset in offsets.items()
        ]

        def attempt(client: AdminClient, wait_s: float) -> None:
            groups = [ConsumerGroupTopicPartitions(group, shown)]
            (answer,) = client.alter_consumer_group_offsets(groups, request_timeout=wait_s).values()
            for each in wait_for(answer, wait_s).topic_partitions:
                if each.error is None:
                    continue
                if each.error.code() != KafkaError.UNKNOWN_MEMBER_ID:
                    raise KafkaException(each.error)
                raise SourceError(
                    f"offsets of {each.topic}/{each.partition} cannot be committed to the group "
                    f"{group}: it has members",
                    hint="set `commit_group` to a group without consumers",
                )

        self._ask(attempt)

    def close(self) -> None:
        """Close connections. No question may follow. Closing again does nothing."""
        self._admin = None
        self._plain.close()

    def _ask(self, call: Callable[[AdminClient, float], T]) -> T:
        if self._admin is None:
            fail("the source is closed")
        return self._admin.ask(call)

    def _list_offsets(
        self, shards: Sequence[StreamShard], spec: OffsetSpec, isolation: IsolationLevel
    ) -> dict[StreamShard, _Listed]:
        """Ask all partitions in one call."""

        def attempt(client: AdminClient, wait_s: float) -> dict[StreamShard, _Listed]:
            specs = {TopicPartition(each.stream, int(each.shard)): spec for each in shards}
            answers = client.list_offsets(specs, isolation_level=isolation, request_timeout=wait_s)
            try:
                return {
                    StreamShard(each.topic, str(each.partition)): _offset_of(answer, wait_s)
                    for each, answer in answers.items()
                }
            except KafkaException as error:
                if error.args[0].code() in MAYBE_ABSENT:
                    _check_there(client, shards, wait_s)
                if error.args[0].code() in OLD_LEADER:
                    _look_for_leaders(client, shards, wait_s)
                raise

        return self._ask(attempt)


def _offset_of(answer: "Future[ListOffsetsResultInfo]", wait_s: float) -> _Listed:
    found = wait_for(answer, wait_s)
    offset: int = found.offset
    # So the library answers, without an error, for a broker that went away in the middle of a call.
    if offset == OFFSET_INVALID:
        raise KafkaException(KafkaError(KafkaError.LEADER_NOT_AVAILABLE))
    known = found.leader_epoch is not None and found.leader_epoch >= 0
    return _Listed(offset, found.leader_epoch if known else None, found.timestamp)


def _describe(client: AdminClient, streams: Sequence[str], wait_s: float) -> dict[str, StreamInfo]:
    found = {}
    topics = TopicCollection(list(dict.fromkeys(streams)))
    answers = client.describe_topics(
        topics, include_authorized_operations=True, request_timeout=wait_s
    )
    for name, answer in answers.items():
        try:
            topic = wait_for(answer, wait_s)
        except KafkaException as error:
            code = error.args[0].code()
            if code == KafkaError.TOPIC_AUTHORIZATION_FAILED:
                raise not_authorized(name, "Describe") from error
            if code not in ABSENT:
                raise
        else:
            shards = tuple(str(each.id) for each in topic.partitions)
            allowed = topic.authorized_operations  # none: the broker does not report them
            may_read = not allowed or AclOperation.READ in allowed
            stream_id = stream_id_of(name, topic.topic_id)
            found[name] = StreamInfo(name, stream_id, shards, may_read)
    return found


def _look_for_leaders(client: AdminClient, shards: Sequence[StreamShard], wait_s: float) -> None:
    """Let the library learn the leaders anew: for minutes it asks by those that it knows."""
    for stream in {each.stream for each in shards}:
        client.list_topics(stream, timeout=wait_s)


def _check_there(client: AdminClient, shards: Sequence[StreamShard], wait_s: float) -> None:
    """Raise StreamMissing if a topic or a partition does not exist."""
    found = _describe(client, [each.stream for each in shards], wait_s)
    for stream, shard in shards:
        if stream not in found:
            raise stream_missing(stream, list(client.list_topics(timeout=wait_s).topics))
        if shard not in found[stream].shards:
            raise StreamMissing(
                f"topic {stream} has no partition {shard}, it has {len(found[stream].shards)}",
                hint="check whether the topic was deleted and created again",
                stream=stream,
                shard=shard,
            )


def stream_missing(stream: str, existing: Sequence[str]) -> StreamMissing:
    """Return the error for a topic that does not exist, with the nearest name as a hint."""
    near = suggest(stream, [each for each in existing if not each.startswith("__")])
    there = f"{near} Or " if near else ""
    return StreamMissing(
        f"topic {stream} does not exist",
        hint=f"{there}create {stream}; a topic on which the job's user has no Describe permission "
        "looks the same",
        stream=stream,
    )


def stream_id_of(stream: str, topic_id: Uuid) -> str:
    """Return the topic id as Kafka's tools show it. Raises SourceError if the brokers have none."""
    if str(topic_id) == NO_ID:  # two Uuid of the library are never equal
        raise SourceError(
            f"Kafka returns no topic id for {stream}",
            hint="Ashore needs brokers of Kafka 2.8 or newer, and an inter.broker.protocol.version "
            "of 2.8 or newer: without topic ids a topic that was created again cannot be "
            "distinguished from the one that was landed",
            stream=stream,
        )
    return str(topic_id).translate(URL_SAFE)


class PlainReader:
    """One connection for many ranges, one after the other. Used by one thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._complaints = Complaints()
        self._consumer: Consumer | None = None

    def read(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        """Yield the committed records of a range. Raises OffsetsGone, SourceError."""
        if self._consumer is None:
            self._consumer = self._cluster.open_client(self._complaints, VERIFICATION)
        partition = TopicPartition(shard.stream, int(shard.shard), offsets.start)
        self._consumer.assign([partition])  # drops what an earlier range has left
        while True:
            message = self._next(self._consumer, shard, offsets)
            offset = None if message is None else message.offset()
            if message is None or offset is None or offset >= offsets.end:
                return
            _, time_ms = message.timestamp()
            is_time = FIRST_MS <= time_ms <= LAST_MS
            key, value = _bytes(message.key()), _bytes(message.value())
            found = read_headers(message)
            headers = None if found is None else tuple(found)
            yield Record(offset, time_ms if is_time else None, key, value, headers)

    def close(self) -> None:
        """Close the connection."""
        if self._consumer is not None:
            self._consumer.close()
            self._consumer = None

    def _next(self, consumer: Consumer, shard: StreamShard, offsets: OffsetRange) -> Message | None:
        """Return the next message; None: the partition ends here."""
        cluster = self._cluster
        deadline_s = cluster.clock.monotonic_s() + cluster.timeout_s
        message = next_answer(cluster, consumer, self._complaints, deadline_s)
        error = message.error()
        if error is None:
            return message
        if error.code() == OFFSET_OUT_OF_RANGE:
            text = f"Kafka no longer has {shard.stream}/{shard.shard} {offsets}: {error.str()}"
            raise OffsetsGone(text, hint="Kafka has deleted these records by retention")
        return None


def _bytes(value: str | bytes | None) -> bytes | None:
    return value.encode() if isinstance(value, str) else value
