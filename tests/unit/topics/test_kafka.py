"""The words for topics: missing ones, and their ids; leaders that the library has kept."""

from concurrent.futures import Future

import pytest
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition, Uuid
from confluent_kafka.admin import AclOperation, ListOffsetsResultInfo, TopicDescription

from ashore.errors import InvariantBroken, SourceError, SourceUnreachable
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import StreamShard
from ashore.topics.read.client import OLD_LEADER, Admin, Cluster, Complaints
from ashore.topics.read.kafka import KafkaSource, stream_id_of, stream_missing
from ashore.topics.read.source import StreamInfo
from ashore_lab.services.ports import LOOPBACK, find_free_ports
from ashore_lab.testing import FakeClock


def test_a_missing_topic_has_the_nearest_name_as_hint() -> None:
    missing = stream_missing("clicsk", ["orders", "clicks", "__consumer_offsets"])
    assert missing.message.startswith("topic clicsk does")
    assert missing.hint.startswith("did you mean `clicks`? ")
    assert missing.fields == {"stream": "clicsk"}


def test_a_missing_topic_without_a_near_one_is_to_be_created() -> None:
    assert stream_missing("clicks", ["zzz"]).hint.startswith("create clicks;")
    assert stream_missing("__offsets", ["__consumer_offsets"]).hint.startswith("create __offsets;")


def test_a_topic_id_is_shown_as_kafka_s_tools_show_it() -> None:
    assert stream_id_of("clicks", Uuid(-1, 0)) == "__________8AAAAAAAAAAA"


def test_a_broker_without_topic_ids_is_refused() -> None:
    with pytest.raises(SourceError, match="no topic id"):
        stream_id_of("clicks", Uuid(0, 0))


def test_a_closed_port_is_the_cause_also_where_no_try_to_connect_is_due() -> None:
    """The library complains once, and tries to connect again after a pause that grows."""
    (port,) = find_free_ports(1)
    pauses = {"reconnect.backoff.ms": "60000", "reconnect.backoff.max.ms": "60000"}
    source = KafkaSource(f"{LOOPBACK}:{port}", pauses, timeout_s=1.0)
    for _ in range(3):
        with pytest.raises(SourceUnreachable, match="refused"):
            source.list_streams()
    source.close()


def test_a_source_is_closed_once_and_for_all() -> None:
    source = KafkaSource("127.0.0.1:1", {}, 1)
    source.close()
    source.close()
    with pytest.raises(InvariantBroken, match="source is closed"):
        source.list_streams()


class OldLeaderClient:
    """Asks the leader that it knows until it is let look for leaders, as librdkafka does."""

    def __init__(self, code: int) -> None:
        self._code = code
        self.looked_for: list[str] = []

    def poll(self, _timeout_s: float) -> int:
        return 0

    def list_topics(self, topic: str, timeout: float) -> None:
        assert timeout > 0
        self.looked_for.append(topic)

    def list_offsets(
        self, asked: dict[TopicPartition, object], **_: object
    ) -> dict[TopicPartition, "Future[ListOffsetsResultInfo]"]:
        answers = {each: Future[ListOffsetsResultInfo]() for each in asked}
        for each, answer in answers.items():
            if each.topic in self.looked_for:
                answer.set_result(ListOffsetsResultInfo(7, -1, 3))
            else:
                answer.set_exception(KafkaException(KafkaError(self._code)))
        return answers


@pytest.mark.parametrize("code", sorted(OLD_LEADER))
def test_offsets_are_asked_of_the_new_leader_once_an_old_one_says_so(code: int) -> None:
    client, clock = OldLeaderClient(code), FakeClock()
    source, shard = KafkaSource("127.0.0.1:1", {}, 20), StreamShard("clicks", "0")
    source._admin = Admin(Cluster("127.0.0.1:1", {}, 20.0, clock), client, Complaints())

    assert source.read_offsets([shard]) == {shard: ShardOffsets(7, 7, 3)}
    assert client.looked_for == ["clicks"], "once, as it is known then"


class DescribingClient:
    """Answers a question for one topic with a description, or with an error."""

    def __init__(self, answer: TopicDescription | KafkaError) -> None:
        self._answer = answer

    def poll(self, _timeout_s: float) -> int:
        return 0

    def describe_topics(
        self, topics: TopicCollection, **options: object
    ) -> dict[str, "Future[TopicDescription]"]:
        assert options["include_authorized_operations"]
        found = Future[TopicDescription]()
        if isinstance(self._answer, KafkaError):
            found.set_exception(KafkaException(self._answer))
        else:
            found.set_result(self._answer)
        return dict.fromkeys(topics.topic_names, found)


def describe(answer: TopicDescription | KafkaError) -> dict[str, StreamInfo]:
    source = KafkaSource("127.0.0.1:1", {}, 20)
    cluster = Cluster("127.0.0.1:1", {}, 20.0, FakeClock())
    source._admin = Admin(cluster, DescribingClient(answer), Complaints())
    return source.describe_streams(["clicks"])


def test_a_topic_without_a_right_is_not_a_missing_one() -> None:
    assert describe(KafkaError(KafkaError.UNKNOWN_TOPIC_OR_PART)) == {}
    with pytest.raises(SourceError, match="topic clicks: Describe is missing"):
        describe(KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED))


@pytest.mark.parametrize(
    ("allowed", "may_read"),
    [([AclOperation.DESCRIBE], False), ([AclOperation.READ], True), (None, True)],
)
def test_a_topic_says_whether_it_may_be_read(
    allowed: list[AclOperation] | None, *, may_read: bool
) -> None:
    topic = TopicDescription("clicks", Uuid(-1, 0), False, [], allowed)
    assert describe(topic)["clicks"].may_read is may_read
