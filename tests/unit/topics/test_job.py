"""From a job file to what slices do: tables, first offsets, topics that come later."""

from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from tests.strategies import Chain

from ashore.errors import (
    JobFileInvalid,
    OffsetsWentBack,
    SchemaConflict,
    StreamMissing,
    StreamReplaced,
)
from ashore.jobs.file import match_topics
from ashore.log.fold import EMPTY, ShardState
from ashore.log.plan_seal import SealRule
from ashore.log.positions import ShardKey, StreamShard
from ashore.topics.loop.job import (
    first_offset_of,
    lake_of,
    landing_spec,
    load_job_file,
    slow_reasons,
    tables_of,
)
from ashore.topics.loop.job_streams import JobStreams
from ashore.topics.loop.joins import (
    check_streams,
    find_replaced,
    plan_join,
    plan_rejoin,
    require_streams,
)
from ashore.topics.loop.table_checks import check_table
from ashore.topics.read.source import FirstOffset
from ashore_lab.testing import RecordedSource

HEAD = """\
job: shop
lake: file:///data/lake
source:
  kafka: {bootstrap_servers: "127.0.0.1:9092"}
  first_start: {default: latest, clicks: {timestamp: 2026-11-21T08:00:00Z}}
tables:
"""
CLICKS = """\
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {column: ts}
"""
LOGS = """\
  - topic: /log_.*/
    table: "ods.{topic}"
    decode: text
    late: {policy: side}
"""


def load(tmp_path: Path, *tables: str):
    path = tmp_path / "job.yaml"
    path.write_text(HEAD + "".join(tables))
    return load_job_file(path)


def test_a_table_comes_with_its_dead_and_late_tables(tmp_path):
    job = load(tmp_path, CLICKS, LOGS)
    resolved = match_topics(job, ["clicks", "log_a"])
    assert tables_of(resolved.values()) == [
        "ods.clicks", "ods.clicks__dead", "ods.log_a", "ods.log_a__dead", "ods.log_a__late",
    ]  # fmt: skip
    spec = landing_spec(resolved["clicks"])
    output = spec.output
    assert (output.event_column, output.event_unit) == ("ts", "ms")
    assert output.partition_by == ("date", "hour")
    assert not spec.is_selected


@pytest.mark.parametrize(
    ("made", "said"),
    [
        ("id BIGINT, m MAP<INT, STRING>, ts BIGINT", "STRING keys"),
        ("id BIGINT, ts STRING", "cannot be a time"),
    ],
)
def test_a_table_that_could_not_be_written_is_refused_with_its_line(tmp_path, made, said):
    """`made`: what Spark has found that `select` makes."""
    job = load(tmp_path, CLICKS)
    resolved = match_topics(job, ["clicks"])["clicks"]
    spec = landing_spec(resolved)
    spec = replace(spec, output=replace(spec.output, schema=made))
    with pytest.raises(JobFileInvalid, match=said) as refused:
        check_table(job, resolved, spec)
    assert refused.value.fields["line"] == 8


SCHEMAS = (
    "id BIGINT",
    "v BINARY",
    "v STRING",
    "id INT, m MAP<BIGINT, STRING>",
    "id INT, m MAP<STRING, ARRAY<MAP<DATE, INT>>>",
    "id INT, m STRUCT<a: TIMESTAMP>, d DECIMAL(38,38)",
    "id INT, m TIMESTAMP_NTZ, d DOUBLE",
    "date STRING, id INT, m BOOLEAN",
)
PARTITIONS = ("[]", "[date]", "[id]", "[m]", "[d, id]", "[v]", "[date, id, m]", "[ID]", "[m, id]")
TIMES = ("m", "m.a", "id", "d", "ID")


@pytest.mark.slow
def test_what_no_task_could_write_is_refused_where_the_job_file_is_read(tmp_path):
    """Without Arrow, so that `ashore validate` is quick. Only what `select` makes comes later."""
    refused = tried = 0
    for schema, decode in product(SCHEMAS, ("json", "text", "bytes")):
        table = CLICKS.partition("    schema:")[0] + f'    schema: "{schema}"\n'
        table += f"    decode: {decode}\n"
        parts = [f"    partition_by: {each}\n" for each in PARTITIONS]
        parts += [f"    event_time: {{column: {each}}}\n" for each in TIMES]
        for part in parts if decode == "json" else parts[:2]:
            try:
                job = load(tmp_path, f"{table}{part}    format: orc\n")
            except JobFileInvalid:
                refused += 1
                continue
            tried += 1
            resolved = match_topics(job, ["clicks"])["clicks"]
            check_table(job, resolved, landing_spec(resolved))
    assert (refused > 100, tried > 20) == (True, True)


def test_what_decodes_slowly_is_reported(tmp_path):
    maps = CLICKS.replace("id BIGINT", "id BIGINT, m MAP<STRING, INT>")
    job = load(tmp_path, maps)
    with_map = match_topics(job, ["clicks"])["clicks"]
    assert slow_reasons(with_map, is_native=False) == ["column m holds a MAP"]
    assert slow_reasons(with_map, is_native=True) == []
    job = load(tmp_path, CLICKS + '    where: "id > 0"\n')
    resolved = match_topics(job, ["clicks"])["clicks"]
    assert slow_reasons(resolved, is_native=True) == ["where runs in Spark"]
    assert landing_spec(resolved).is_selected


def test_first_offsets_follow_names_then_the_default_and_what_comes_later_begins_at_the_start(
    tmp_path,
):
    first_of = first_offset_of(load(tmp_path, CLICKS, LOGS))
    assert first_of("clicks", True) == FirstOffset("timestamp", 1_795_248_000_000)
    assert first_of("clicks", False) == FirstOffset("timestamp", 1_795_248_000_000)
    assert first_of("log_a", True) == FirstOffset("latest")
    assert first_of("log_b", False) == FirstOffset("earliest")


def test_a_topic_that_an_expression_finds_later_is_claimed_before_it_is_read(tmp_path):
    source, claimed = RecordedSource(), []
    source.create("clicks")
    streams = JobStreams(load(tmp_path, CLICKS, LOGS), source, claimed.extend)
    assert list(streams()) == ["clicks"]
    source.create("log_a")
    source.create("other")
    assert sorted(streams()) == ["clicks", "log_a"]
    assert streams.tables() == sorted(claimed)
    assert "ods.log_a__late" in claimed


def test_a_table_that_is_refused_is_not_claimed(tmp_path):
    source, claimed = RecordedSource(), []
    source.create("clicks")

    def refuse(spec):
        raise SchemaConflict(f"{spec.table} is another table")

    streams = JobStreams(load(tmp_path, CLICKS), source, claimed.extend, refine=refuse)
    with pytest.raises(SchemaConflict):
        streams()
    wrong = CLICKS.replace("ts BIGINT", "ts STRING")
    with pytest.raises(JobFileInvalid):
        JobStreams(load(tmp_path, wrong), source, claimed.extend)()
    assert claimed == []


def test_how_tables_are_sealed_is_reported_without_another_look_at_the_topics(tmp_path):
    http = CLICKS + '    seal: {delay: 5m, actions: [], http: "http://here/sealed"}\n'
    source = RecordedSource()
    source.create("clicks")
    streams = JobStreams(load(tmp_path, http, LOGS), source, lambda _: None)
    assert streams.seal_address("ods.clicks") == "http://here/sealed"  # a start may defer it
    source.is_reachable = False
    assert streams.seal_rules() == (SealRule("ods.clicks", "UTC", 300_000, ("http",)),)
    assert streams.seal_address("ods.log_a") is None
    source.is_reachable = True
    source.create("log_a")
    streams()
    assert [rule.table for rule in streams.seal_rules()] == ["ods.clicks", "ods.log_a"]
    assert streams.seal_address("ods.log_a") is None


def test_shards_join_where_their_policy_says_and_new_ones_at_their_beginning():
    source = RecordedSource()
    source.create("clicks", 1)
    source.append(StreamShard("clicks", "0"), b"a", b"b")
    streams = source.describe_streams(["clicks"])
    join = plan_join(source, EMPTY, streams, lambda _name, _first: FirstOffset("latest"))
    assert join is not None
    assert [(each.first_offset, each.policy) for each in join.shards] == [(2, "latest")]
    chain = Chain()
    chain.open()
    chain.add(join)
    source.add_shard("clicks")
    source.append(StreamShard("clicks", "1"), b"c")
    grown = source.describe_streams(["clicks"])
    later = plan_join(source, chain.fold, grown, lambda *_: FirstOffset("latest"))
    assert later is not None
    assert [(each.key.shard, each.first_offset, each.policy) for each in later.shards] == [
        ("1", 0, "new_shard")
    ]
    assert plan_join(source, chain.fold, streams, lambda *_: FirstOffset("latest")) is None


def test_a_look_at_many_topics_goes_through_the_shards_a_few_times():
    """Once for each topic took 17 s a batch with 5,000 topics."""

    class Counting(dict[ShardKey, ShardState]):
        walks = 0

        def items(self):
            self.walks += 1
            return super().items()

    source, chain = RecordedSource(), Chain()
    names = [f"t{number}" for number in range(50)]
    for name in names:
        source.create(name, 1)
    streams = source.describe_streams(names)
    chain.open()
    join = plan_join(source, EMPTY, streams, lambda *_: FirstOffset("earliest"))
    assert join is not None
    chain.add(join)
    shards = Counting(chain.fold.shards)
    fold = replace(chain.fold, shards=shards)
    check_streams(source.name, fold, streams)
    assert plan_join(source, fold, streams, lambda *_: FirstOffset("earliest")) is None
    assert find_replaced(source.name, fold, {}, streams) is None
    assert shards.walks < 10


def test_a_topic_created_again_stops_the_slice_until_it_is_rejoined():
    source = RecordedSource()
    source.create("clicks", 1)
    first = source.describe_streams(["clicks"])
    chain = Chain()
    chain.open()
    join = plan_join(source, EMPTY, first, lambda *_: FirstOffset("earliest"))
    assert join is not None
    chain.add(join)
    check_streams(source.name, chain.fold, first)
    assert plan_rejoin(source, chain.fold, first["clicks"]) is None
    source.delete_and_recreate("clicks")
    again = source.describe_streams(["clicks"])
    with pytest.raises(StreamReplaced, match="clicks"):
        check_streams(source.name, chain.fold, again)
    rejoin = plan_rejoin(source, chain.fold, again["clicks"])
    assert rejoin is not None
    assert [each.key.generation for each in rejoin.shards] == [2]
    chain.add(rejoin)
    check_streams(source.name, chain.fold, again)
    with pytest.raises(OffsetsWentBack, match="was created again"):
        check_streams(source.name, chain.fold, first)
    known = {"clicks": again["clicks"].stream_id}
    assert find_replaced(source.name, chain.fold, known, again) is None
    with pytest.raises(StreamMissing):  # as told by a broker that has not heard of the new one
        find_replaced(source.name, chain.fold, known, first)


def test_a_topic_or_a_partition_that_is_gone_is_named():
    source = RecordedSource()
    source.create("clicks", 2)
    streams = source.describe_streams(["clicks"])
    chain = Chain()
    chain.open()
    join = plan_join(source, EMPTY, streams, lambda *_: FirstOffset("earliest"))
    assert join is not None
    chain.add(join)
    smaller = {"clicks": type(streams["clicks"])("clicks", streams["clicks"].stream_id, ("0",))}
    with pytest.raises(OffsetsWentBack, match="partition 1"):
        check_streams(source.name, chain.fold, smaller)
    with pytest.raises(StreamMissing, match="orders"):
        require_streams(["clicks", "orders"], streams)


def test_a_lake_on_hdfs_is_reached_as_the_job_says(tmp_path, monkeypatch):
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    path = tmp_path / "job.yaml"
    path.write_text(
        HEAD.replace("file:///data/lake", "hdfs://host:8020/lake")
        + CLICKS
        + 'durability: disk\ndeadline: 5s\nhdfs: {options: {dfs.replication: "2"}}\n'
    )
    job = load_job_file(path)
    address = lake_of(job)
    assert address.deadline_s == 5
    assert address.options == (("dfs.replication", "2"), ("durability", "disk"))
    assert lake_of(job, 2).deadline_s == 2, "a person waits less"
