"""The words for topics: missing ones, and their ids."""

import pytest
from confluent_kafka import Uuid

from ashore.errors import InvariantBroken, SourceError
from ashore.sources.kafka import KafkaSource, stream_id_of, stream_missing


def test_a_missing_topic_has_the_nearest_name_as_hint() -> None:
    missing = stream_missing("clicsk", ["orders", "clicks", "__consumer_offsets"])
    assert missing.message == "topic clicsk does not exist"
    assert missing.hint.startswith("did you mean `clicks`? Or create clicsk;")
    assert missing.fields == {"stream": "clicsk"}


def test_a_missing_topic_without_a_near_one_is_to_be_created() -> None:
    assert stream_missing("clicks", ["zzz"]).hint.startswith("create clicks;")
    assert stream_missing("__offsets", ["__consumer_offsets"]).hint.startswith("create __offsets;")


def test_a_topic_id_is_shown_as_kafka_s_tools_show_it() -> None:
    assert stream_id_of("clicks", Uuid(-1, 0)) == "__________8AAAAAAAAAAA"


def test_a_broker_without_topic_ids_is_refused() -> None:
    with pytest.raises(SourceError, match="no topic id for clicks"):
        stream_id_of("clicks", Uuid(0, 0))


def test_a_source_is_closed_once_and_for_all() -> None:
    source = KafkaSource("127.0.0.1:1", {}, 1)
    source.close()
    source.close()
    with pytest.raises(InvariantBroken, match="source is closed"):
        source.list_streams()
