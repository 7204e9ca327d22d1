"""The options of the source `ashore`."""

import pytest

from ashore.errors import JobFileInvalid
from ashore.log.positions import StreamShard
from ashore.topics.read.limits import ReadLimits
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.source.source_options import SourceOptions, write_epochs

LEAST = {"kafka.bootstrap.servers": "one:1", "subscribe": "a, b", "schema": "id BIGINT NOT NULL"}


def test_the_least_is_servers_topics_and_a_schema() -> None:
    found = SourceOptions.parse(LEAST)
    assert found.topics == ("a", "b")
    assert found.stops_at_gaps
    assert found.records is None
    assert "decoded STRUCT<id: BIGINT>, reason STRING" in found.shape.ddl


def test_names_have_no_case_and_options_of_the_client_are_handed_on() -> None:
    found = SourceOptions.parse(
        {**LEAST, "MAXOFFSETSPERTRIGGER": "7", "kafka.security.protocol": "SSL"}
    )
    assert found.records == 7
    assert found.kafka.options == {"security.protocol": "SSL"}


def test_texts_and_bytes_need_no_schema() -> None:
    options = {name: value for name, value in LEAST.items() if name != "schema"}
    assert "STRUCT<value: STRING>" in SourceOptions.parse({**options, "decode": "text"}).shape.ddl
    assert "STRUCT<value: BINARY>" in SourceOptions.parse({**options, "decode": "bytes"}).shape.ddl


def test_columns_and_fields_that_are_not_used_are_not_handed_over() -> None:
    shape = SourceOptions.parse(
        {
            **LEAST,
            "schema": "id BIGINT, name STRING",
            "columns": "decoded, offset",
            "fields": '["name"]',
        }
    ).shape
    assert shape.ddl == "decoded STRUCT<name: STRING>, offset BIGINT"


def test_leader_epochs_are_read_as_they_are_written() -> None:
    epochs = {StreamShard("a", "0"): {20: 3, 17: 2}, StreamShard("b", "12"): {1: 0}}
    found = SourceOptions.parse({**LEAST, "leaderEpochs": write_epochs(epochs)})
    assert found.epochs == epochs
    assert SourceOptions.parse(LEAST).epochs == {}


def test_all_problems_are_named_at_once() -> None:
    wrong = {
        "subscribe": "a",
        "subscribePattern": "b",
        "schema": "id WORD",
        "startingOffset": "earliest",
        "maxOffsetsPerTrigger": "0",
        "failOnDataLoss": "maybe",
        "startingOffsets": '{"a": 1}',
        "columns": "ofset",
        "leaderEpochs": '{"a": {"0": 3}}',
        "timeout": "soon",
    }
    with pytest.raises(JobFileInvalid) as caught:
        SourceOptions.parse(wrong)
    for name in [*wrong, "kafka.bootstrap.servers"]:
        assert name.lower() in caught.value.message.lower(), name


def test_no_value_of_the_client_is_in_a_message() -> None:
    secret = {"kafka.sasl.jaas.config": "hidden", "subscribe": ""}
    with pytest.raises(JobFileInvalid) as caught:
        SourceOptions.parse({**LEAST, **secret})
    assert "hidden" not in str(caught.value)
    assert "hidden" not in repr(SourceOptions.parse({**LEAST, "kafka.ssl.key.password": "hidden"}))


def test_an_address_is_what_its_options_say() -> None:
    kafka = KafkaAddress("one:1,two:2", {"client.id": "x"}, 12.5, "python", ReadLimits(5, 9))
    options = {
        "kafka.bootstrap.servers": "one:1,two:2",
        "kafka.client.id": "x",
        "timeout": "12.5",
        "reader": "python",
        "maxRecordBytes": "5",
        "maxBatchBytes": "9",
    }
    assert SourceOptions.parse({**LEAST, **options}).kafka == kafka
