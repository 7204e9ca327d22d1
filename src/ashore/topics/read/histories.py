"""Whether a position still lies on a partition's history: leader epochs.

What it is: one question to the leaders of partitions, for the end of an epoch
(OffsetForLeaderEpoch). The native reader's connections ask it. Where they cannot, Python's client
does: it asks before it fetches from a position that names an epoch, and its first record, or the
partition's end, is the answer.
What it promises: waits as long as another partition answers within the cluster's timeout, or within
PATIENCE_S where that is less; never takes silence for a yes, and names the silent partitions. No
answer depends on the size of a batch.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient

from ashore.errors import SourceUnreachable
from ashore.log.positions import StreamShard
from ashore.topics.read.client import (
    HISTORIES,
    OFFSET_OUT_OF_RANGE,
    PASSING,
    PAUSE_S,
    Admin,
    Cluster,
    Complaints,
    explain_kafka_error,
    next_answer,
    wait_for,
)
from ashore.topics.read.native import (
    BrokerSilent,
    EpochEnd,
    EpochOf,
    GaveUp,
    choose_reader,
    read_epoch_ends,
)
from ashore.topics.read.source import Position

# A command asks with less patience than a job that runs. What a running job would wait for must
# not keep it from starting, so all wait alike here: the brokers have just answered other questions.
PATIENCE_S = 20.0
SHOWN = 10  # silent partitions that an error names


_log = logging.getLogger(__name__)


class _Broker(NamedTuple):
    host: str
    port: int


@dataclass(slots=True)
class _Answers:
    """What is asked, and what was answered so far."""

    cluster: Cluster
    silent: dict[StreamShard, Position]
    total: int
    deadline_s: float = 0.0
    cause: str = ""
    refused: dict[StreamShard, str] = field(default_factory=dict)

    def note(self, shard: StreamShard, reason: str) -> None:
        """Take an answer; a partition with a reason refuses its position."""
        if self.silent.pop(shard, None) is None:
            return
        if reason:
            self.refused[shard] = reason
        self.wait_anew()

    def wait_anew(self) -> None:
        self.deadline_s = self.cluster.clock.monotonic_s() + self.cluster.timeout_s

    @property
    def is_late(self) -> bool:
        return self.cluster.clock.monotonic_s() >= self.deadline_s

    def describe_silence(self) -> SourceUnreachable:
        """Return the error for partitions that did not answer in time."""
        names = [f"{each.stream}/{each.shard}" for each in sorted(self.silent)]
        more = f", and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        cause = f": {self.cause}" if self.cause else ""
        return SourceUnreachable(
            f"the leaders of {len(names)} of {self.total} partitions did not answer within "
            f"{self.cluster.timeout_s:g} s whether their logs were truncated: "
            f"{', '.join(names[:SHOWN])}{more}{cause}",
            hint=f"check the brokers of {self.cluster.bootstrap_servers} that lead these "
            "partitions; nothing was read",
        )


def find_refused(admin: Admin, positions: Mapping[StreamShard, Position]) -> dict[StreamShard, str]:
    """Return the partitions that refuse a position, with the reason.

    A position beyond the end is refused as well; one below the first offset may be.
    Raises SourceError.
    """
    if not positions:
        return {}
    cluster = replace(admin.cluster, timeout_s=max(admin.cluster.timeout_s, PATIENCE_S))
    answers = _Answers(cluster, dict(positions), len(positions))
    answers.wait_anew()
    choice = choose_reader(cluster)
    if choice.is_raw:
        try:
            _ask_leaders(admin, answers)
        except GaveUp as gave_up:
            _log.warning("the native reader gives up, librdkafka asks for epochs: %s", gave_up)
    else:
        _log.info("librdkafka asks for epochs: %s", choice.why_not)
    if answers.silent:
        _ask_by_fetching(answers)
    return answers.refused


# --- by the native reader's connections ----------------------------------------------------------


def _ask_leaders(admin: Admin, answers: _Answers) -> None:
    """Ask until each partition has answered. Raises SourceError, GaveUp."""
    clock = answers.cluster.clock
    while True:
        for broker, shards in _leaders(admin, answers).items():
            epochs = [
                EpochOf(each.stream, int(each.shard), answers.silent[each].leader_epoch)
                for each in shards
            ]
            try:
                ends = read_epoch_ends(answers.cluster, broker.host, broker.port, epochs)
            except BrokerSilent as silent:
                answers.cause = str(silent)
                continue
            for end in ends:
                _note_end(answers, end)
        if not answers.silent:
            return
        if answers.is_late:
            raise answers.describe_silence()
        clock.sleep(PAUSE_S)


def _leaders(admin: Admin, answers: _Answers) -> dict[_Broker, list[StreamShard]]:
    """Return which brokers lead the partitions that have not answered."""
    streams = sorted({each.stream for each in answers.silent})

    def describe(client: AdminClient, wait_s: float) -> dict[StreamShard, _Broker]:
        found = {}
        topics = TopicCollection(streams)
        for stream, answer in client.describe_topics(topics, request_timeout=wait_s).items():
            try:
                partitions = wait_for(answer, wait_s).partitions
            except KafkaException as error:
                if error.args[0].code() not in PASSING:
                    raise
                answers.cause = f"topic {stream}: {error.args[0].str()}"
                continue
            for each in partitions:
                shard = StreamShard(stream, str(each.id))
                if each.leader is None:
                    answers.cause = f"{stream}/{each.id} has no leader"
                else:
                    found[shard] = _Broker(each.leader.host, each.leader.port)
        return found

    leaders: dict[_Broker, list[StreamShard]] = defaultdict(list)
    for shard, broker in admin.ask(describe).items():
        if shard in answers.silent:
            leaders[broker].append(shard)
    return leaders


def _note_end(answers: _Answers, end: EpochEnd) -> None:
    shard = StreamShard(end.stream, str(end.partition))
    position = answers.silent.get(shard)
    if position is None:
        return
    if end.error in PASSING:
        answers.cause = f"{end.stream}/{end.partition}: {KafkaError(end.error).str()}"
        return
    if end.error:
        cluster, error = answers.cluster, KafkaError(end.error)
        raise explain_kafka_error(error, Complaints(), cluster.bootstrap_servers, cluster.timeout_s)
    epoch, reason = position.leader_epoch, ""
    if end.end < 0:
        reason = f"its leader does not know leader epoch {epoch}"
    elif end.end < position.offset:
        reason = f"leader epoch {epoch} ends at offset {end.end} there"
    answers.note(shard, reason)


# --- by Python's client --------------------------------------------------------------------------


def _ask_by_fetching(answers: _Answers) -> None:
    """Fetch from each position until its partition has answered. Raises SourceError."""
    complaints = Complaints()
    consumer = answers.cluster.open_client(complaints, HISTORIES)
    try:
        consumer.assign(
            [
                TopicPartition(each.stream, int(each.shard), at.offset, "", at.leader_epoch)
                for each, at in answers.silent.items()
            ]
        )
        while answers.silent:
            _note_answer(answers, consumer, complaints)
    finally:
        consumer.close()


def _note_answer(answers: _Answers, consumer: Consumer, complaints: Complaints) -> None:
    try:
        message = next_answer(answers.cluster, consumer, complaints, answers.deadline_s)
    except SourceUnreachable:
        answers.cause = complaints.last or answers.cause
        raise answers.describe_silence() from None
    shard, error = _shard_of(message), message.error()
    if shard is None or shard not in answers.silent:
        return
    is_refused = error is not None and error.code() == OFFSET_OUT_OF_RANGE
    answers.note(shard, error.str() if error is not None and is_refused else "")
    # Or the broker would fill the next fetch from it, too: of the others it returns no batch then
    # that is larger than a fetch.
    consumer.pause([TopicPartition(shard.stream, int(shard.shard))])


def _shard_of(message: Message) -> StreamShard | None:
    topic, partition = message.topic(), message.partition()
    return None if topic is None or partition is None else StreamShard(topic, str(partition))
