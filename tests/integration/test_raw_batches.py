"""The native reader over batches of every size, codec and kind, of a healthy broker."""

from uuid import uuid4

from tests.fetched_rows import rows
from tests.integration import test_raw_reader
from tests.integration.test_raw_reader import CODECS, body, read_raw, send, whole
from tests.kafka_tools import Sender, Transaction, create_topic

from ashore.protocol.positions import OffsetRange
from ashore.services.kafka import Kafka
from ashore.sources.base import StreamShard

small_steps = test_raw_reader.small_steps


def test_batches_larger_than_a_fetch_come_whole(kafka: Kafka) -> None:
    topic = f"large-{uuid4().hex[:8]}"
    create_topic(kafka.bootstrap_servers, topic, 2, {"max.message.bytes": "5000000"})
    bodies = [bytes([each]) * 1_000_000 for each in range(4)]
    limits = {"message.max.bytes": 5_000_000}
    for partition in (0, 1):
        with Sender(kafka.bootstrap_servers, topic, **limits) as sender:
            sender.send(bodies, partition=partition)
    wanted = {StreamShard(topic, str(each)): list(enumerate(bodies)) for each in (0, 1)}

    assert rows(read_raw(kafka.bootstrap_servers, whole(wanted)).read()) == wanted


def test_codecs_transactions_and_ends_within_batches(kafka: Kafka) -> None:
    servers, topic = kafka.bootstrap_servers, f"mixed-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    wanted: list[tuple[int, bytes]] = []
    end = 0
    for turn, codec in enumerate(CODECS * 2):
        values = [body(turn, each) for each in range(150)]
        send(servers, topic, values, codec=codec)
        wanted += enumerate(values, end)
        end += len(values)
        with Transaction(servers, topic, topic) as transaction:
            inside = [b"%s %d" % (codec.encode(), turn)] * 3
            transaction.send(inside, partition=0)
            if turn % 2:
                transaction.abort()
            else:
                transaction.commit()
                wanted += enumerate(inside, end)
        end += 4  # three records and a marker
    shard = StreamShard(topic, "0")

    for start, stop in [(0, end), (3, end - 3), (149, 151), (150, 154), (153, 154), (end - 1, end)]:
        found = rows(read_raw(servers, {shard: OffsetRange(start, stop)}).read())
        assert found.get(shard, []) == [each for each in wanted if start <= each[0] < stop]
