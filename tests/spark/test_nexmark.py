"""Nexmark over real Kafka: each query gives the rows that it gives over the whole input at once."""

import importlib.util
import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from ruamel.yaml import YAML
from tests.spark.site import Site
from tests.spark.sql_jobs import read_topic
from tests.spark.streams import topic_view

from ashore.errors import QueryRefused
from ashore.jobs.file.source_text import WrittenText, written_file
from ashore.plans.operators import describe_operators
from ashore.queries.spark.internals.reading import check_streaming, read_plan
from ashore.queries.spark.internals.refusals import explain_refusal
from ashore.queries.spark.sql.script import parse_script
from ashore.queries.spark.sql.validate import describe_queries
from ashore.topics.loop.job import load_job_file
from ashore_lab.testing.graph_files import read_graph, write_graph

FOLDER = Path(__file__).parents[2] / "examples" / "nexmark"
GRAPHS = Path(__file__).parents[1] / "golden" / "plans"
EVENTS, STEP_MS = 2_000, 100  # three minutes of the auction house
NOBODY = -1  # in the records that only let time go on
LATER = "2026-11-21T01:00:00.000+00:00"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"nexmark_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


queries = load("queries")
made_up = load("generate")
generate = made_up.generate
QUERIES = queries.load_queries()
JOB = YAML(typ="safe").load(FOLDER / "nexmark.yaml")
SCHEMAS = {item["topic"]: item["schema"] for item in JOB["tables"] if "topic" in item}
# What a row of an update is the newest of.
KEYS = {9: ["id"], 12: ["bidder", "start_time"], 15: ["day"], 16: ["channel", "day"]}
KEYS |= {17: ["auction", "day"], 18: ["bidder", "auction"], 19: ["auction"]}
SIDE_INPUT = "SELECT id AS key, concat('side ', id) AS value FROM range(100)"


# --- what the page says --------------------------------------------------------------------------


def read_script(name: str) -> WrittenText:
    return written_file((FOLDER / name).read_text("utf-8"), name)


def refusals(spark: SparkSession, select: str) -> dict[str, str]:
    """Return why each output mode is refused; empty where it is not."""
    found = {}
    for mode in ("append", "update"):
        try:
            check_streaming(spark.sql(select), mode)
            found[mode] = ""
        except QueryRefused as error:
            found[mode] = error.message
        except PySparkException as error:
            found[mode] = explain_refusal(error).sentence
    return found


@pytest.fixture(scope="module")
def nowhere(spark: SparkSession) -> SparkSession:
    """Views of topics that no broker has: enough to plan with."""
    session = spark.newSession()
    for topic, schema in SCHEMAS.items():
        topic_view(session, topic, schema, "date_time")
    session.sql(SIDE_INPUT).createOrReplaceTempView("side_input")
    return session


@pytest.mark.thirds
@pytest.mark.parametrize("query", QUERIES, ids=lambda each: f"{each.name}-{each.file}")
def test_spark_says_what_the_comments_say(nowhere: SparkSession, query: object) -> None:
    found = refusals(nowhere, query.select)
    if query.refused:
        assert all(found.values())
        assert query.refused in found.values()
        return
    assert found["update" if query.file == queries.UPDATES else "append"] == ""
    operators = describe_operators(read_plan(nowhere.sql(query.select)))
    grows = any(not each.is_bounded for each in operators)
    assert query.grows is grows


PLANNED = [each for each in QUERIES if not each.refused]


@pytest.mark.thirds
@pytest.mark.parametrize("query", PLANNED, ids=lambda each: f"{each.name}-{each.file}")
def test_what_a_query_does_is_what_it_did(nowhere: SparkSession, query: object) -> None:
    """Byte for byte, in any session: nothing of ids, clocks and places is in a graph."""
    graph = read_plan(nowhere.sql(query.select))
    written = write_graph(graph)
    assert read_graph(written) == graph
    as_written = "-as-written" if query.file == queries.AS_WRITTEN else ""
    golden = GRAPHS / f"{query.name}{as_written}.json"
    if not golden.exists():
        GRAPHS.mkdir(exist_ok=True)
        golden.write_text(written, "utf-8")
        pytest.fail(f"{golden} was not there and is written: look at it, and run this again")
    assert written == golden.read_text("utf-8")


def test_there_is_a_graph_of_every_query_and_no_other() -> None:
    assert len(list(GRAPHS.iterdir())) == len(PLANNED)


def test_all_queries_are_there_once_as_they_are_and_once_rewritten() -> None:
    run = [each for each in QUERIES if each.file != queries.AS_WRITTEN]
    written = [each for each in QUERIES if each.file == queries.AS_WRITTEN]
    assert {each.number for each in QUERIES} == set(range(23))
    for part in (run, written):
        assert len({each.number for each in part}) == len(part)
    rewritten = {each.number for each in run if each.rewritten}
    assert {each.number for each in written} - {each.number for each in run} == {4, 6}
    assert rewritten == {each.number for each in written} - {4, 6}
    assert [each.name for each in written if not each.refused] == ["q7"]  # it runs, and grows


def test_the_job_feeds_a_table_for_each_query_of_its_file(spark: SparkSession) -> None:
    job = load_job_file(FOLDER / "nexmark.yaml")
    sinks = [item.table for item in job.tables if item.topic is None]
    assert sinks == [f"nexmark.{each.name}" for each in QUERIES if each.file == queries.TABLES]
    script = parse_script(spark, read_script(queries.TABLES))
    assert sinks == [each.table for each in script.inserts]
    assert job.sql is not None
    assert job.sql.file == queries.TABLES


def test_the_job_writes_a_topic_for_each_update(spark: SparkSession) -> None:
    job = load_job_file(FOLDER / "updates.yaml")
    assert job.sql is not None
    assert job.sql.file == queries.UPDATES
    written = {item.topic: list(item.key) for item in job.sql.topics}
    assert written == {f"nexmark.q{number}": KEYS[number] for number in sorted(KEYS)}
    assert sorted(written) == sorted(made_up.UPDATES)
    script = parse_script(spark, read_script(queries.UPDATES))
    assert list(written) == [each.table for each in script.inserts]
    whole = YAML(typ="safe").load(FOLDER / "updates.yaml")
    assert whole["tables"] == [item for item in JOB["tables"] if "topic" in item]


# --- events --------------------------------------------------------------------------------------


def records(start: int, end: int) -> Iterator[tuple[str, bytes]]:
    for number, event in enumerate(generate(end, step_ms=STEP_MS)):
        if number >= start:
            yield event.topic, json.dumps(event.record).encode()


def test_the_same_seed_gives_the_same_events() -> None:
    assert list(generate(500, seed=1)) == list(generate(500, seed=1))
    assert list(generate(500, seed=1)) != list(generate(500, seed=2))
    assert Counter(event.topic for event in generate(500)) == {
        "person": 10,
        "auction": 30,
        "bid": 460,
    }


def closing() -> Iterator[tuple[str, bytes]]:
    """An hour later, of nobody: the watermark passes everything before it."""
    names_of = {"person": ["id"], "auction": ["id", "seller"], "bid": ["auction", "bidder"]}
    for topic, names in names_of.items():
        record = dict.fromkeys(names, NOBODY) | {"date_time": LATER}
        yield topic, json.dumps(record).encode()


def produce(site: Site, topics: Mapping[str, str], events: Iterator[tuple[str, bytes]]) -> None:
    values: dict[str, list[bytes]] = {topic: [] for topic in topics}
    for topic, value in events:
        values[topic].append(value)
    for topic, each in values.items():
        short = each[3::4]  # the other partition is three times as long
        del each[3::4]
        for partition, part in enumerate((each, short)):
            site.produce(topics[topic], part, partition)


def rows_of(frame: DataFrame) -> Counter[str]:
    """Return rows as text, without those of nobody."""
    nobody = [name for name in ("auction", "bidder", "id") if name in frame.columns]
    rows = (row for row in frame.collect() if NOBODY not in [row[name] for name in nobody])
    return Counter(str(sorted(row.asDict(recursive=True).items())) for row in rows)


@pytest.fixture(scope="module")
def whole(spark: SparkSession) -> SparkSession:
    """A session with the whole input at rest."""
    session = spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    session.conf.set("spark.sql.sources.partitionColumnTypeInference.enabled", "false")
    events = [*records(0, EVENTS), *closing()]
    for topic, schema in SCHEMAS.items():
        values = [(value.decode(),) for name, value in events if name == topic]
        frame = session.createDataFrame(values, "value STRING")
        decoded = frame.selectExpr(f"from_json(value, '{schema}') AS record").select("record.*")
        decoded.createOrReplaceTempView(topic)
    session.sql(SIDE_INPUT).createOrReplaceTempView("side_input")
    return session


# --- into tables, as a job -----------------------------------------------------------------------

# One of each kind of state; the others are run below, which takes less time. Every day two
# aggregates one upon the other.
EVERY_DAY, OTHER_DAYS = {5}, {3, 7, 8, 20}
IN_JOB = EVERY_DAY | OTHER_DAYS
# Updates that go into topics by a job. They are run below as well, for each batch that they take.
INTO_TOPICS = {12, 18}


def job_file(site: Site, topics: Mapping[str, str], numbers: set[int], limit: int) -> Path:
    """Write the example's job for some of its queries, over topics of this test.

    `limit`: records of a batch.
    """
    sinks = {f"nexmark.q{number}" for number in numbers}
    read = [{**item, "topic": topics[item["topic"]]} for item in JOB["tables"] if "topic" in item]
    tables = [*read, *(item for item in JOB["tables"] if item["table"] in sinks)]
    inserts = [
        f"INSERT INTO nexmark.{each.name} {each.select};"
        for each in QUERIES
        if each.number in numbers and each.file == queries.TABLES
    ]
    sql = {"text": "\n".join(inserts), "state_partitions": 2}
    batch = {"interval": "300ms", "max_records": limit}
    return site.job_file(*tables, job=JOB["job"], sql=sql, batch=batch)


def run(site: Site, path: Path) -> None:
    site.writer(path).job.loop(until_drained=True).run()


@pytest.mark.parametrize(
    ("numbers", "limit"),
    [
        pytest.param(EVERY_DAY, EVENTS // 10, id="every day"),
        pytest.param(OTHER_DAYS, EVENTS, id="other days", marks=pytest.mark.long),
    ],
)
def test_tables_hold_what_a_run_over_the_whole_input_gives(
    site: Site, whole: SparkSession, numbers: set[int], limit: int
) -> None:
    topics = {topic: site.topic(2, topic) for topic in SCHEMAS}
    path = job_file(site, topics, numbers, limit)
    produce(site, topics, records(0, EVENTS // 2))
    run(site, path)
    produce(site, topics, records(EVENTS // 2, EVENTS))
    produce(site, topics, closing())
    run(site, path)

    wrong = {}
    for query in QUERIES:
        if query.number in numbers and query.file == queries.TABLES:
            expected = rows_of(whole.sql(query.select))
            found = rows_of(whole.read.parquet(str(site.path_of(f"nexmark.{query.name}"))))
            assert expected, query.name
            if found != expected:
                wrong[query.name] = (found - expected, expected - found)
    assert wrong == {}
    site.prove(path)


# --- into topics, as a job -----------------------------------------------------------------------


def updates_file(site: Site, topics: Mapping[str, str], into: Mapping[int, str]) -> Path:
    """Write the example's job for some of its updates, over topics of this test."""
    read = [{**item, "topic": topics[item["topic"]]} for item in JOB["tables"] if "topic" in item]
    inserts = [
        f"INSERT INTO `{into[each.number]}` {each.select};"
        for each in QUERIES
        if each.number in into and each.file == queries.UPDATES
    ]
    written = [
        {"topic": topic, "mode": "upsert", "key": KEYS[number]} for number, topic in into.items()
    ]
    sql = {"text": "\n".join(inserts), "state_partitions": 2, "topics": written}
    return site.job_file(*read, job="nexmark-updates", sql=sql, batch={"interval": "300ms"})


@pytest.mark.long
def test_topics_end_with_what_a_run_over_the_whole_input_gives(
    site: Site, whole: SparkSession
) -> None:
    topics = {topic: site.topic(2, topic) for topic in SCHEMAS}
    job = site.writer(updates_file(site, topics, {each: f"q{each}" for each in KEYS})).job
    planned = describe_queries(job)
    assert {each.topic for each in planned} == {f"q{each}" for each in KEYS}

    into = {number: site.topic(2, f"q{number}") for number in INTO_TOPICS}
    path = updates_file(site, topics, into)
    for start in (0, EVENTS // 2):
        produce(site, topics, records(start, start + EVENTS // 2))
        run(site, path)

    found = {
        number: {key: json.loads(value or b"null") for _, key, value in read_topic(site, topic)}
        for number, topic in into.items()
    }
    select = {each.number: each.select for each in QUERIES if each.file == queries.UPDATES}
    counted = Counter[int]()  # windows of the clock are where they fall: their sums are compared
    for row in found[12].values():
        counted[row["bidder"]] += row["bid_count"]
    expected = (row for row in whole.sql(select[12]).collect() if row.bidder != NOBODY)
    assert counted == {row.bidder: row.bid_count for row in expected}
    expected = (row for row in whole.sql(select[18]).collect() if row.bidder != NOBODY)
    prices = {(row.bidder, row.auction): row["last"].price for row in expected}
    assert len(found[18]) == len(prices)
    last = {(row["bidder"], row["auction"]): row["last"]["price"] for row in found[18].values()}
    assert last == prices


# --- as queries ----------------------------------------------------------------------------------

BY_THE_CLOCK = 12


def newest(rows: Sequence[Row], keys: Sequence[str]) -> list[Row]:
    """Return the last row of each key, in their order."""
    return list({tuple(row[key] for key in keys): row for row in rows}.values())


@pytest.fixture
def streams(site: Site) -> SparkSession:
    """A session with views of the topics, which take three batches."""
    topics = {topic: site.topic(2, topic) for topic in SCHEMAS}
    produce(site, topics, records(0, EVENTS))
    produce(site, topics, closing())
    session = site.spark.newSession()
    session.conf.set("spark.sql.shuffle.partitions", "2")
    for topic, schema in SCHEMAS.items():
        reader = session.readStream.format("kafka").option("subscribe", topics[topic])
        reader = reader.option("kafka.bootstrap.servers", site.servers)
        reader = reader.option("startingOffsets", "earliest")
        decoded = reader.option("maxOffsetsPerTrigger", EVENTS // 2).load()
        decoded = decoded.selectExpr(f"from_json(CAST(value AS STRING), '{schema}') AS record")
        frame = decoded.select("record.*").withWatermark("date_time", "4 seconds")
        frame.createOrReplaceTempView(topic)
    session.sql(SIDE_INPUT).createOrReplaceTempView("side_input")
    return session


def run_streams(session: SparkSession, directory: Path, chosen: Sequence[Any]) -> dict[str, Any]:
    """Return the rows that queries hand on, in the order in which they come."""
    found: dict[str, list[Row]] = {query.name: [] for query in chosen}
    running = []
    for query in chosen:
        keep = found[query.name]
        mode = "update" if query.file == queries.UPDATES else "append"
        writer = session.sql(query.select).writeStream.outputMode(mode)
        writer = writer.foreachBatch(lambda frame, _, keep=keep: keep.extend(frame.collect()))
        writer = writer.option("checkpointLocation", str(directory / query.name))
        running.append(writer.trigger(availableNow=True).start())
    for each in running:
        each.awaitTermination()
    return found


@pytest.mark.long  # they are Spark's queries here: no job runs them
def test_queries_end_in_what_a_run_over_the_whole_input_gives(
    site: Site, streams: SparkSession, whole: SparkSession
) -> None:
    chosen = [each for each in QUERIES if each.file != queries.AS_WRITTEN]
    chosen = [each for each in chosen if each.number not in IN_JOB]
    found = run_streams(streams, site.directory, chosen)
    wrong = {}
    for query in chosen:
        rows, expected = found[query.name], whole.sql(query.select)
        if query.number in KEYS:
            last = newest(rows, KEYS[query.number])
            assert query.number == BY_THE_CLOCK or len(rows) > len(last), "none was updated"
            rows = last
        if query.number == BY_THE_CLOCK:  # windows are where they fall: their sums are compared
            counted = Counter[int]()
            for row in rows:
                counted[row.bidder] += row.bid_count
            assert counted == {row.bidder: row.bid_count for row in expected.collect()}
            continue
        there = rows_of(streams.createDataFrame(rows, expected.schema))
        wanted = rows_of(expected)
        assert wanted, query.name
        if there != wanted:
            wrong[query.name] = (there - wanted, wanted - there)
    assert wrong == {}
