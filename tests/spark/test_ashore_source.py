"""The source `ashore` on a real Kafka, in streams of PySpark."""

import json
from collections.abc import Callable
from pathlib import Path
from uuid import uuid4

import pytest
from pyspark.errors import PySparkException, StreamingQueryException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.headers import ODD, odd_records
from tests.kafka_tools import (
    Transaction,
    add_partitions,
    create_topic,
    delete_records,
    delete_topic,
)
from tests.raw_headers import produce_raw
from tests.spark.ashore_source import Reader, open_stream, read_batch
from tests.spark.site import SCHEMA, Site, event, events
from tests.spark.streams import CLICKS, NOWHERE, topic_view

from ashore.plans.graph import list_topics
from ashore.plans.operator_graph import describe_graph
from ashore.queries.spark.internals.reading import read_plan
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.source.registration import register_source

MakeReader = Callable[..., Reader]


@pytest.fixture
def reader_of(site: Site, tmp_path: Path) -> MakeReader:
    """Make readers with one checkpoint, as restarts of a query have it."""

    def make(topic: str, **options: str) -> Reader:
        least = {"kafka.bootstrap.servers": site.servers, "subscribe": topic, "schema": SCHEMA}
        return Reader(site.spark, tmp_path / "checkpoint", {**least, **options})

    return make


def places(topic: str, *shards: range) -> list[tuple[str, int, int]]:
    return [(topic, number, offset) for number, each in enumerate(shards) for offset in each]


def test_batches_within_limits_and_a_restart(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic(partitions=2)
    site.produce(topic, events(0, 25), partition=0)
    site.produce(topic, events(25, 2), partition=1)
    first = reader_of(topic, maxOffsetsPerTrigger="10").run()
    assert [len(first.batches[number]) for number in sorted(first.batches)] == [10, 10, 7]
    assert first.offsets() == places(topic, range(25), range(2))
    assert {row.decoded.id for row in first.rows} == set(range(27))

    add_partitions(site.servers, topic, 3)
    site.produce(topic, events(27, 3), partition=2)
    site.produce(topic, events(30, 3), partition=0)
    second = reader_of(topic).run()
    assert second.offsets() == places(topic, range(25, 28), range(0), range(3))


def test_a_batch_that_was_planned_is_read_again_as_it_was(
    site: Site, reader_of: MakeReader
) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 5))
    with pytest.raises(StreamingQueryException):
        reader_of(topic, startingOffsets=json.dumps({topic: {"0": 2}})).run(
            lambda frame: frame.where(F.raise_error(F.lit("stop")).cast("boolean"))
        )
    site.produce(topic, events(5, 5))
    again = reader_of(topic, startingOffsets="latest").run()
    assert [[row.offset for row in again.batches[number]] for number in (0, 1)] == [
        [2, 3, 4],
        [5, 6, 7, 8, 9],
    ]


def test_latest_is_kept_by_an_empty_first_batch(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 5))
    assert reader_of(topic, startingOffsets="latest").run().batches == {0: []}
    site.produce(topic, events(5, 2))
    assert reader_of(topic, startingOffsets="latest").run().offsets() == places(topic, range(5, 7))


def test_only_committed_records_are_read(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic()
    for number, ends in enumerate(("commit", "abort")):
        with Transaction(site.servers, topic, uuid4().hex) as transaction:
            transaction.send(events(number * 10, 3))
            getattr(transaction, ends)()
    with Transaction(site.servers, topic, uuid4().hex) as held:
        held.send(events(50, 3))
        assert [row.decoded.id for row in reader_of(topic).run().rows] == [0, 1, 2]
        held.commit()
    assert [row.decoded.id for row in reader_of(topic).run().rows] == [50, 51, 52]


def test_lost_offsets_stop_the_query_or_are_skipped(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 5))
    reader_of(topic).run()
    site.produce(topic, events(5, 5))
    delete_records(site.servers, topic, 0, 7)
    with pytest.raises(StreamingQueryException, match="no longer has"):
        reader_of(topic).run()
    assert reader_of(topic, failOnDataLoss="false").run().offsets() == places(topic, range(7, 10))


def test_a_topic_that_is_created_again_stops_the_query(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 5))
    reader_of(topic).run()
    delete_topic(site.servers, topic)
    create_topic(site.servers, topic)
    site.produce(topic, events(0, 9))
    with pytest.raises(StreamingQueryException, match="created again"):
        reader_of(topic).run()


def test_topics_of_a_pattern_are_found_later(site: Site, reader_of: MakeReader) -> None:
    one = site.topic(prefix="pattern")
    site.produce(one, events(0, 2))
    options = {"subscribe": "", "subscribePattern": "pattern-.*"}
    assert reader_of("", **options).run().offsets() == places(one, range(2))
    other = site.topic(prefix="pattern")
    site.produce(other, events(2, 1))
    assert reader_of("", **options).run().offsets() == places(other, range(1))


@pytest.mark.parametrize("reader", ["native", "python"])
def test_keys_headers_and_invalid_records(site: Site, reader_of: MakeReader, reader: str) -> None:
    topic = site.topic()
    site.produce_keyed(topic, [b"k", b"l"], [*events(0, 1), b"no JSON"])
    columns = "key, value, decoded, reason"
    good, bad = reader_of(topic, reader=reader, columns=columns).run().rows
    assert (good.key, good.value, good.decoded.id, good.reason) == (b"k", None, 0, None)
    assert (bad.key, bad.value, bad.decoded, bad.reason) == (b"l", b"no JSON", None, "not-object")


def test_headers_are_those_that_were_sent(site: Site, reader_of: MakeReader) -> None:
    topic = site.topic()
    produce_raw(site.servers, topic, odd_records(list(ODD)))
    rows = reader_of(topic, columns="offset headers").run().rows
    found = {
        row.offset: row.headers and [{"key": each.key, "value": each.value} for each in row.headers]
        for row in rows
    }
    assert found == {number: odd.read for number, odd in enumerate(ODD.values())}


@pytest.mark.parametrize("reader", ["native", "python"])
def test_two_hundred_columns_of_all_types_come_without_loss(
    site: Site, reader_of: MakeReader, reader: str
) -> None:
    kinds = {
        "BIGINT": 2**62,
        "DECIMAL(38,6)": "1" * 32 + ".000001",
        "TIMESTAMP": "9999-12-31T23:59:59.999999Z",
        "ARRAY<STRUCT<x: MAP<STRING, DECIMAL(5,2)>>>": [{"x": {"k": 1.25}}, None],
        "DOUBLE": 0.1,
    }
    schema = ", ".join(f"c{at} {list(kinds)[at % 5]}" for at in range(200))
    value = {f"c{at}": list(kinds.values())[at % 5] for at in range(200)}
    topic = site.topic()
    site.produce(topic, [json.dumps(value).encode(), b"{}"])
    rows = (
        reader_of(topic, schema=schema, reader=reader)
        .run(lambda frame: frame.select(F.to_json("decoded").alias("json"), "decoded.c2"))
        .rows
    )
    found = json.loads(rows[0].json)
    assert [found[f"c{at}"] for at in (0, 3, 4)] == [2**62, [{"x": {"k": 1.25}}, None], 0.1]
    assert str(rows[0].c2) == "9999-12-31 23:59:59.999999"
    assert json.loads(rows[1].json) == {}


def test_a_batch_read_is_what_is_between_two_offsets(site: Site) -> None:
    topic = site.topic(partitions=2)
    site.produce(topic, events(0, 10), partition=0)
    options = {"kafka.bootstrap.servers": site.servers, "subscribe": topic, "schema": SCHEMA}
    between = {
        "startingOffsets": json.dumps({topic: {"0": 2}}),
        "endingOffsets": json.dumps({topic: {"0": 5}}),
    }
    assert [row.offset for row in read_batch(site.spark, {**options, **between}).collect()] == [
        2,
        3,
        4,
    ]
    nothing = {"startingOffsets": "latest"}
    assert read_batch(site.spark, {**options, **nothing}).collect() == []


def test_options_that_are_wrong_are_refused_before_anything_is_read(site: Site) -> None:
    with pytest.raises(PySparkException, match="did you mean `subscribe`"):
        open_stream(site.spark, {"subscrib": "a"})


def test_registering_leaves_the_active_session_as_it_was(site: Site) -> None:
    registered, other = site.spark.newSession(), site.spark.newSession()
    jvm.CLEAR_ACTIVE(site.spark)
    register_source(registered)
    assert not jvm.IS_DEFINED(jvm.GET_ACTIVE(site.spark))
    jvm.SET_ACTIVE(other, jvm.session_of(other))
    try:
        register_source(site.spark.newSession())
        active = jvm.OPTION_GET(jvm.GET_ACTIVE(site.spark))
        assert active.equals(jvm.session_of(other))
    finally:
        jvm.CLEAR_ACTIVE(site.spark)


def test_windows_do_not_depend_on_limits_if_partitions_are_read_in_step(
    site: Site, tmp_path: Path
) -> None:
    topic = site.topic(partitions=3)
    for partition, (start_s, step_ms) in enumerate(((0, 250), (0, 2_000), (70, 500))):
        times = [1_795_000_000_000 + start_s * 1_000 + at * step_ms for at in range(80)]
        times[1::2] = [time - 1_900 for time in times[1::2]]
        values = [event(at, ts_ms=time) for at, time in enumerate(times)]
        site.produce(topic, values, partition=partition)

    def count(frame: DataFrame) -> DataFrame:
        timed = frame.select(F.timestamp_millis("decoded.ts").alias("ts"))
        windows = timed.withWatermark("ts", "4 seconds").groupBy(F.window("ts", "10 seconds"))
        return windows.count().select("window.start", "count")

    def windows(limit: int, **options: str) -> list[Row]:
        least = {"kafka.bootstrap.servers": site.servers, "subscribe": topic, "schema": SCHEMA}
        limits = {"maxOffsetsPerTrigger": str(limit)}
        reader = Reader(site.spark, tmp_path / uuid4().hex, {**least, **limits, **options})
        rows = sorted(reader.run(count).rows)
        assert any('"waitsFor"' in each for each in reader.latest) == ("eventTime" in options)
        return rows

    large = windows(2_000_000)
    assert sum(row["count"] for row in large) > 200
    assert windows(40) != large
    assert windows(40, eventTime="decoded.ts", lateAfter="4s") == large


def test_a_checkpoint_of_sparks_own_source_continues(site: Site, reader_of: MakeReader) -> None:
    """Also with the batch that was planned, and not done, when the source was changed."""
    topic = site.topic(partitions=2)
    site.produce(topic, events(0, 5), partition=0)
    reader = reader_of(topic)
    options = {"kafka.bootstrap.servers": site.servers, "subscribe": topic}
    kafka = site.spark.readStream.format("kafka").options(**options, startingOffsets="earliest")
    decoded = F.from_json(F.col("value").cast("string"), SCHEMA)
    rows = kafka.load().select("topic", "partition", "offset", decoded.alias("decoded"))
    for frame in (rows, rows.where(F.raise_error(F.lit("stop")).cast("boolean"))):
        writer = frame.writeStream.foreachBatch(lambda batch, _: batch.collect())
        writer = writer.option("checkpointLocation", str(reader.checkpoint))
        query = writer.trigger(availableNow=True).start()
        if frame is rows:
            query.awaitTermination()
            site.produce(topic, events(5, 2), partition=1)
        else:
            with pytest.raises(StreamingQueryException):
                query.awaitTermination()
    site.produce(topic, events(7, 1), partition=0)
    reader.run()
    assert {number: len(found) for number, found in reader.batches.items()} == {1: 2, 2: 1}
    assert reader.offsets() == [(topic, 0, 5), (topic, 1, 0), (topic, 1, 1)]
    assert '"ashore"' in reader.end(2)


def test_operators_of_a_query_keep_their_ids(spark: SparkSession) -> None:
    """A plan over Spark's own source, and the same over this one: columns are what they were."""
    found = []
    for is_own in (False, True):
        session = spark.newSession()
        if is_own:
            options = {"kafka.bootstrap.servers": NOWHERE, "subscribe": "clicks", "schema": CLICKS}
            view = open_stream(session, options).where("decoded IS NOT NULL").select("decoded.*")
            view.withWatermark("ts", "10 seconds").createOrReplaceTempView("clicks")
        else:
            topic_view(session, "clicks", CLICKS, "ts")
        graph = read_plan(
            session.sql(
                "SELECT window.start AS s, country, sum(amount) AS a FROM clicks WHERE id > 3 "
                "GROUP BY window(ts, '1 minute'), country"
            )
        )
        operators = describe_graph(graph).operators
        found.append([each.id for each in operators if each.state is not None])
        assert list_topics(graph.sources) == [["clicks"]]
    assert found[0] == found[1]
    assert found[0]
