"""Checkpoints that the installed Spark writes: every file is known, and written again as it was."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import (
    GOLDEN,
    GOLDEN_FILES,
    PATHS,
    TABLES,
    list_paths,
    shape_of,
    texts_of,
    write_again,
)
from tests.kafka_tools import create_topic
from tests.marks import but
from tests.spark.site import Site

from ashore.queries.spark.sql.settings import CHANGELOG, FORMAT, JOIN_FORMAT, ROCKSDB, STATE
from ashore.queries.state.layout import (
    PROVIDER,
    OffsetsFile,
    SnapshotFile,
    TablePath,
    UnknownPath,
    parse_kafka,
    parse_path,
    write_kafka,
)

STREAMING = "spark.sql.streaming."
SCHEMA = "country STRING, ts TIMESTAMP"
AGGREGATE = "SELECT country, ts, count(*) FROM clicks GROUP BY country, ts"
JOIN = "SELECT c.country, c.ts FROM clicks c JOIN views v ON c.country = v.country AND c.ts = v.ts"
CHAIN = f"SELECT country, ts, count(*) FROM ({JOIN}) GROUP BY country, ts"
UNION = "SELECT country FROM clicks UNION ALL SELECT country FROM views"


@dataclass(frozen=True, slots=True)
class Case:
    """A query, and the settings that say what its checkpoint looks like."""

    select: str
    settings: Mapping[str, str]
    has_names: bool = False  # of its sources


ROCKS = {PROVIDER: ROCKSDB, CHANGELOG: "true"}
NAMES = {
    f"{STREAMING}queryEvolution.enableSourceEvolution": "true",
    f"{STREAMING}offsetLog.formatVersion": "2",
}
CASES = {
    "ashore": Case(AGGREGATE, STATE),
    "bases": Case(AGGREGATE, {PROVIDER: ROCKSDB, CHANGELOG: "false"}),
    "chain": Case(CHAIN, STATE),
    "format-2": Case(AGGREGATE, {**ROCKS, FORMAT: "2"}),
    "join-form-2": Case(JOIN, {**ROCKS, JOIN_FORMAT: "2"}),
    "names": Case(UNION, NAMES, has_names=True),
    "no-rocksdb": Case(AGGREGATE, {}),
}


def run(site: Site, name: str, case: Case) -> Path:
    """Run a query over two lots of records, and return its checkpoint."""
    session, root = site.spark.newSession(), site.directory / "checkpoint"
    for key, value in {**case.settings, "spark.sql.shuffle.partitions": "2"}.items():
        session.conf.set(key, value)
    for view in ("clicks", "views"):
        create_topic(site.servers, f"{name}.{view}", 2)
        open_view(session, site.servers, f"{name}.{view}", view, case)
    for minute in range(2):
        for view in ("clicks", "views"):
            for partition in range(2):
                site.produce(f"{name}.{view}", records(minute), partition)
        writer = session.sql(case.select).writeStream.format("noop")
        writer = writer.option("checkpointLocation", str(root))
        writer.trigger(availableNow=True).start().awaitTermination()
    return root


def open_view(session: SparkSession, servers: str, topic: str, view: str, case: Case) -> None:
    reader = session.readStream.name(view) if case.has_names else session.readStream
    options = {"kafka.bootstrap.servers": servers, "subscribe": topic}
    frame = reader.format("kafka").options(**options, startingOffsets="earliest").load()
    frame = frame.selectExpr(f"from_json(CAST(value AS STRING), '{SCHEMA}') AS record")
    frame.select("record.*").withWatermark("ts", "1 second").createOrReplaceTempView(view)


def records(minute: int) -> list[bytes]:
    time = f"2026-11-21T08:0{minute}:00Z"
    return [json.dumps({"country": each, "ts": time}).encode() for each in ("DE", "CN", "IS")]


# Every day the one that has most of them, and the one whose offsets have a form of their own.
@pytest.mark.parametrize("name", but(pytest.mark.long, CASES, {"chain", "names"}.__contains__))
def test_every_file_of_a_checkpoint_is_known(site: Site, name: str) -> None:
    root = run(site, name, CASES[name])
    paths, texts = list_paths(root), texts_of(root)
    found = [parse_path(path) for path in paths]
    assert [path for path in found if isinstance(path, UnknownPath)] == []
    tables = {path.name for path in found if isinstance(path, TablePath)}
    assert (
        SnapshotFile.parse(texts[TABLES], TABLES).tables.keys() <= tables
        if TABLES in texts
        else not tables
    )
    for path, data in texts.items():
        assert path == TABLES or write_again(path, data) == data
        if path.startswith("offsets"):
            ends = [each.end or "" for each in OffsetsFile.parse(data, path).sources]
            assert [write_kafka(parse_kafka(each, path)) for each in ends] == ends
    shapes = sorted({shape_of(path) for path in paths})

    golden = GOLDEN / name
    if not golden.exists():
        kept = {path: data for path, data in texts.items() if path in GOLDEN_FILES}
        for path, data in {**kept, PATHS: "\n".join([*shapes, ""]).encode()}.items():
            (golden / path).parent.mkdir(parents=True, exist_ok=True)
            (golden / path).write_bytes(data)
        pytest.fail(f"{golden} was not there and is written: look at it, and run this again")
    assert shapes == (golden / PATHS).read_text("utf-8").splitlines()
