"""Following another writer: where it stopped, and every reason not to."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest

from ashore.log.fold import EMPTY, Fold, PartitionState, ShardState
from ashore.log.names import SliceName
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.doctor.connect_sink import looks_like_connect, parse_connect
from ashore.proof.doctor.observation import (
    ConnectSeen,
    ControlSeen,
    LakehouseSinkSeen,
    LoggedSize,
    Observations,
    SliceLogSeen,
    SourceSeen,
    SparkSeen,
    TableSeen,
    TopicSeen,
)
from ashore.proof.doctor.repair_plan import Diagnosis, plan_doctor
from ashore.proof.doctor.steps import JoinAdopted, ListAdopted, MoveAside, RegisterTable
from ashore.storage.base import FileStat
from ashore.topics.read.source import StreamInfo

TABLE, PATH = "ods.clicks", "ods.db/clicks"
CHECKPOINT = {"clicks": {"0": 100, "1": 40}}
BEFORE = {"clicks": {"0": 60, "1": 0}}


def offsets(document: object) -> bytes:
    return f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(document)}'.encode()


def part(number: int) -> str:
    return f"{PATH}/part-{number:05}-00000000-0000-4000-8000-{number:012}-c000.snappy.parquet"


def sink(*numbers: int, root: str = "file:///data/lake", modified_ms: int = 1_000) -> bytes:
    lines = [
        json.dumps(
            {
                "path": f"{root}/{part(each)}",
                "modificationTime": modified_ms + each,
                "action": "add",
            }
        )
        for each in numbers
    ]
    return "\n".join(["v1", *lines]).encode()


def visible(*numbers: int, modified_ms: int = 1_000) -> tuple[FileStat, ...]:
    return tuple(FileStat(part(each), 10, modified_ms + each, False) for each in numbers)


SPARK = SparkSeen(
    checkpoint="/checkpoint",
    lake_path="/data/lake",
    table=TABLE,
    sources=1,
    has_state=False,
    offsets={0: offsets(BEFORE), 1: offsets(CHECKPOINT)},
    commits=frozenset({0, 1}),
    sink={"0": sink(0), "1": sink(1)},
)
CLICKS = TableSeen(
    table=TABLE,
    path=PATH,
    owner=None,
    claimed_ms=0,
    visible=visible(0, 1),
    logged=(),
    excused=frozenset(),
    adopted=frozenset(),
    has_spark_metadata=True,
)
SEEN = Observations(
    job="clicks",
    name=SliceName("clicks", "main"),
    token="0123456789abcdef",
    log=SliceLogSeen(EMPTY),
    tables=(CLICKS,),
    topics={"clicks": TopicSeen(TABLE, (f"{TABLE}__dead",), "parquet", ())},
    source=SourceSeen(
        "kafka",
        {"clicks": StreamInfo("clicks", "id-1", ("0", "1", "2"))},
        {
            StreamShard("clicks", "0"): ShardOffsets(10, 150),
            StreamShard("clicks", "1"): ShardOffsets(0, 40),
            StreamShard("clicks", "2"): ShardOffsets(7, 9),
        },
    ),
    skips_gaps=False,
    has_catalog=False,
    former=SPARK,
)
ASIDE = f"{PATH}/_aside-0123456789abcdef"


def with_spark(**changes: object) -> Observations:
    return replace(SEEN, former=replace(SPARK, **changes))


def with_files(files: tuple[FileStat, ...]) -> Observations:
    return replace(SEEN, tables=(replace(CLICKS, visible=files),))


def begins(found: Diagnosis) -> dict[str, int]:
    """Return where each partition joins."""
    assert not found.refusals, found.refusals
    (join,) = [step for step in found.steps if isinstance(step, JoinAdopted)]
    assert {each.policy for each in join.join.shards} == {"adopted"}
    assert {each.stream_id for each in join.join.shards} == {"id-1"}
    return {each.key.shard: each.first_offset for each in join.join.shards}


def refused(seen: Observations) -> str:
    """Return why nothing is adopted, having checked that nothing at all is done."""
    found = plan_doctor(seen)
    assert found.steps == ()
    texts = [each.text for each in found.refusals if each.subject == "adoption"]
    assert len(texts) == 1, found.refusals
    return texts[0]


# --- Spark


def test_landing_begins_where_the_query_stopped():
    found = plan_doctor(SEEN)
    assert begins(found) == {"0": 100, "1": 40, "2": 7}  # 2 came later: from its beginning
    listed, join, hides = found.steps
    assert isinstance(listed, ListAdopted)
    assert listed.files == (part(0), part(1))
    assert isinstance(join, JoinAdopted)
    assert join.tables == (TABLE, f"{TABLE}__dead")
    # Last: until the join is in the log, Spark must see what the query wrote, and nothing else.
    assert isinstance(hides, MoveAside)
    assert (hides.source, hides.target) == (f"{PATH}/_spark_metadata", f"{ASIDE}/_spark_metadata")


def test_a_batch_that_is_in_the_sinks_log_alone_was_readable():
    found = plan_doctor(with_spark(commits=frozenset({0})))
    assert begins(found) == {"0": 100, "1": 40, "2": 7}


def test_a_batch_that_is_in_the_offsets_alone_was_not():
    seen = with_spark(commits=frozenset({0}), sink={"0": sink(0)})
    found = plan_doctor(replace(seen, tables=with_files(visible(0, 1)).tables))
    assert begins(found) == {"0": 60, "1": 0, "2": 7}
    stray = found.steps[0]  # before Spark can see it
    assert isinstance(stray, MoveAside)
    assert (stray.source, stray.target) == (part(1), f"{ASIDE}/{part(1).rpartition('/')[2]}")


def test_a_packed_sink_log_counts_from_its_newest_pack():
    seen = with_spark(
        offsets={8: offsets(BEFORE), 9: offsets(BEFORE), 10: offsets(CHECKPOINT)},
        commits=frozenset({8, 9, 10}),
        sink={"9.compact": sink(0), "10": sink(1)},
    )
    assert begins(plan_doctor(seen)) == {"0": 100, "1": 40, "2": 7}


def test_a_sink_log_may_end_at_a_pack():
    seen = with_spark(sink={"1.compact": sink(0, 1)})
    assert begins(plan_doctor(seen)) == {"0": 100, "1": 40, "2": 7}


def test_what_an_adoption_that_was_cut_short_left_is_finished():
    """The join is in the log, `_spark_metadata` still there; the job may even have run since."""
    states = {
        key: _state(key, first)
        for key, first in (
            (ShardKey("kafka", "clicks", 1, "0"), 100),
            (ShardKey("kafka", "clicks", 1, "1"), 40),
            (ShardKey("kafka", "clicks", 1, "2"), 5),  # retention has gone on since
        )
    }
    seen = replace(
        SEEN,
        log=SliceLogSeen(Fold(end=1, epoch=1, shards=states)),
        tables=(replace(CLICKS, owner="clicks", adopted=frozenset({part(0), part(1)})),),
    )
    found = plan_doctor(seen)
    assert not found.refusals
    (hides,) = found.steps
    assert isinstance(hides, MoveAside)
    assert hides.source == f"{PATH}/_spark_metadata"


def _state(key: ShardKey, first: int, stream_id: str = "id-1") -> ShardState:
    return ShardState(key, stream_id, first, first + 1, 1, 1, 0, 0, 0, 0, 0, 0, None, 0)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"table": None}, "topics fill has a _spark_metadata"),
        ({"offsets": {}}, "has no offsets"),
        ({"has_state": True}, "is stateful"),
        ({"sources": 2}, "reads 2 sources"),
        ({"sink": {}, "commits": frozenset()}, "never finished a batch"),
        ({"sink": {"0": sink(0)}}, "batch 1 is committed in"),
        ({"sink": {"0": sink(0), "2": sink(1)}}, "has no batch 1"),
        ({"sink": {"1": sink(1)}}, "has no batch 0"),
        ({"commits": frozenset()}, "commits up to -1"),
        ({"offsets": {0: offsets(BEFORE)}}, "commits up to 1"),
        ({"offsets": SPARK.offsets | {3: offsets(CHECKPOINT)}}, "offsets up to 3"),
        ({"offsets": SPARK.offsets | {1: b"v2\n{}\n{}"}}, "starts with 'v2'"),
        ({"offsets": SPARK.offsets | {1: b""}}, "starts with 'nothing'"),
        ({"offsets": SPARK.offsets | {1: b"v1\n\xff\n"}}, "is not text"),
        ({"offsets": SPARK.offsets | {1: b"v1\n{}\n-"}}, "not JSON"),
        ({"offsets": SPARK.offsets | {1: b"v1\n{}\n12"}}, "no Kafka offsets"),
        ({"offsets": SPARK.offsets | {1: b"v1\n{}\n{}\n{}"}}, "names 2 sources"),
        ({"offsets": SPARK.offsets | {1: offsets({"clicks": {"0": -1}})}}, "has -1 for clicks/0"),
        ({"offsets": SPARK.offsets | {1: offsets({"clicks": 1})}}, "no Kafka offsets"),
        ({"sink": {"0": sink(0), "1": b"v1\nx"}}, "not JSON"),
        ({"sink": {"0": sink(0), "1": b"v1\n1"}}, "without a file name"),
        ({"sink": {"0": sink(0, root="file:///old"), "1": sink(1)}}, "which is not in /data/lake"),
        ({"offsets": SPARK.offsets | {1: offsets({"views": {"0": 1}})}}, "does not land it"),
    ],
)
def test_a_query_that_cannot_be_followed(changes: Mapping[str, object], why: str):
    assert why in refused(with_spark(**changes))


def test_files_of_the_last_batch_that_are_gone():
    assert "query's last batch" in refused(with_files(visible(0)))


def test_older_files_may_have_been_dropped_on_purpose():
    found = plan_doctor(with_files(visible(1)))
    assert begins(found)["0"] == 100
    assert any("1 files that _spark_metadata names" in note for note in found.notes)


@pytest.mark.parametrize(
    "files",
    [
        (*visible(0, 1), *visible(2, modified_ms=-5_000)),  # `retention` may have dropped it
        (*visible(0, 1), FileStat(f"{PATH}/mine.parquet", 1, 9_999, False)),
        (*visible(0, 1, modified_ms=99_000), *visible(2, modified_ms=100_000)),  # a copied table
    ],
)
def test_files_that_nothing_shows_to_be_of_a_failed_attempt(files: tuple[FileStat, ...]):
    assert "a failed attempt" in refused(with_files(files))


def test_files_that_ashore_landed_since_are_no_failed_attempts():
    ours = FileStat(f"{PATH}/a-main-1-0-0001-00000000c0ffee00.parquet", 1, 9_999, False)
    found = plan_doctor(with_files((*visible(0, 1), ours)))
    assert begins(found)["0"] == 100
    assert [step.source for step in found.steps if isinstance(step, MoveAside)] == [
        f"{PATH}/_spark_metadata"
    ]


# --- against the job, the log and Kafka


def shard_offsets(shard: str, earliest: int, end: int) -> SourceSeen:
    there = {**SEEN.source.offsets, StreamShard("clicks", shard): ShardOffsets(earliest, end)}
    return replace(SEEN.source, offsets=there)


def joined(first: int, generation: int = 1, stream_id: str = "id-1") -> SliceLogSeen:
    key = ShardKey("kafka", "clicks", generation, "0")
    return SliceLogSeen(Fold(end=1, epoch=1, shards={key: _state(key, first, stream_id)}))


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"source": SourceSeen("kafka", error="no broker")}, "no broker"),
        ({"source": SourceSeen("kafka")}, "topic clicks does not exist"),
        ({"source": shard_offsets("0", 0, 99)}, "reached offset 100 in clicks/0, which ends at 99"),
        (
            {"source": shard_offsets("0", 101, 150)},
            "Kafka starts at 101",
        ),
        (
            {
                "source": replace(
                    SEEN.source, streams={"clicks": StreamInfo("clicks", "id-1", ("0",))}
                )
            },
            "wrote clicks/1, ",
        ),
        ({"topics": {}}, "does not land it"),
        ({"topics": {"clicks": TopicSeen("ods.x", (), "parquet", ())}}, "lands it in ods.x"),
        ({"topics": {"clicks": TopicSeen(TABLE, (), "orc", ())}}, "is not in orc"),
        ({"topics": {"clicks": TopicSeen(TABLE, (), "parquet", ("date",))}}, "partitions of []"),
        ({"log": joined(99)}, "begins clicks/0 at 99 already"),
        ({"log": joined(100, stream_id="id-0")}, "already"),
        ({"log": joined(100, generation=2)}, "already"),
        ({"log": SliceLogSeen(None, "entry 3 is damaged")}, "log cannot be read"),
    ],
)
def test_a_place_that_does_not_fit(changes: Mapping[str, object], why: str):
    assert why in refused(replace(SEEN, **changes))


def test_a_table_of_another_job_is_not_adopted():
    found = plan_doctor(replace(SEEN, tables=(replace(CLICKS, owner="other"),)))
    assert found.steps == ()
    assert "belongs to job other" in found.refusals[0].text


def test_what_kafka_has_no_more_is_left_to_a_job_that_skips():
    seen = replace(SEEN, source=shard_offsets("0", 101, 150), skips_gaps=True)
    assert (
        begins(plan_doctor(seen))["0"] == 100
    )  # the job's first batch records the rest as skipped


def test_without_being_reported_nothing_is_adopted():
    found = plan_doctor(replace(SEEN, former=None))
    assert found.steps == ()
    (refusal,) = found.refusals
    assert "--from-spark" in refusal.hint


# --- the catalog


def registered(found: Diagnosis) -> tuple[str, ...]:
    return next((each.partitions for each in found.steps if isinstance(each, RegisterTable)), ())


def landed(partition: str) -> LoggedSize:
    return LoggedSize(f"{PATH}/{partition}/a", 1, partition, is_unclosed=False)


def in_catalog(**changes: object) -> Observations:
    """Return a table with two partitions that landed, of which one is registered."""
    logged = (landed("date=1"), landed("date=2"))
    files = tuple(FileStat(each.path, 1, 0, False) for each in logged)
    states = {
        (TABLE, each): PartitionState(TABLE, each, 1, 1, 2, each == "date=1", 0, 0, 0)
        for each in ("date=1", "date=2")
    }
    table = replace(CLICKS, owner="clicks", visible=files, logged=logged, has_spark_metadata=False)
    return replace(
        SEEN,
        former=None,
        has_catalog=True,
        log=SliceLogSeen(Fold(end=3, epoch=1, partitions=states)),
        tables=(replace(table, **changes),),
    )


def test_partitions_that_have_files_are_registered():
    assert registered(plan_doctor(in_catalog())) == ("date=1", "date=2")
    assert registered(plan_doctor(replace(in_catalog(), has_catalog=False))) == ()


def test_a_partition_that_waits_for_its_seal_is_not_registered():
    assert registered(plan_doctor(in_catalog(waits_for_seal=True))) == ("date=1",)


def test_a_table_whose_columns_only_spark_knows_is_not_registered():
    found = plan_doctor(in_catalog(is_made_by_spark=True))
    assert registered(found) == ()
    assert any("computed by `select`" in note for note in found.notes)


def test_partitions_of_the_former_writer_are_registered():
    path = f"{PATH}/date=9/{part(0).rpartition('/')[2]}"
    seen = in_catalog(adopted=frozenset({path}))
    assert registered(plan_doctor(seen)) == ("date=1", "date=2", "date=9")


# --- Connect


def connect(**rows_of: int | None) -> Observations:
    """Return what is seen of files named by hand as the HDFS sink does; `__` stands for `+`."""
    rows = {f"{PATH}/{name.replace('__', '+')}.parquet": count for name, count in rows_of.items()}
    files = tuple(FileStat(path, 10, 1_000, False) for path in sorted(rows))
    table = replace(CLICKS, visible=files, has_spark_metadata=False)
    return replace(SEEN, tables=(table,), former=ConnectSeen(TABLE, rows))


def test_landing_begins_after_the_last_offset_that_a_name_says():
    seen = connect(
        clicks__0__0000000000__0000000059=60,
        clicks__0__0000000060__0000000099=40,
        clicks__1__0000000005__0000000039=35,
    )
    assert begins(plan_doctor(seen)) == {"0": 100, "1": 40, "2": 7}


def test_files_that_overlap_are_followed_if_their_rows_add_up():
    """As a sink with partitions of time writes them."""
    seen = connect(clicks__0__10__98=50, clicks__0__11__99=40)
    assert begins(plan_doctor(seen)) == {"0": 100, "1": 0, "2": 7}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"clicks__0__0__9": 10, "clicks__0__11__19": 9}, "offsets 10 to 10"),
        ({"clicks__0__0__9": 9}, "hold 9 rows, their names 10 offsets"),  # another was not renamed
        ({"clicks__0__0__9": 10, "clicks__0__5__14": 10}, "hold 20 rows"),
        ({"clicks__0__0__9": None, "clicks__0__5__14": None}, "begins before the"),
        ({"clicks__0__0": 10}, "no last offset"),
        ({"clicks__0__9__0": 10}, "is not a file of"),
        ({"mine": 10}, "is not a file of"),
        ({}, "has no file of"),
    ],
)
def test_a_sink_that_cannot_be_followed(files: dict[str, int | None], why: str):
    assert why in refused(connect(**files))


def test_several_directories_are_refused_where_rows_cannot_be_counted():
    seen = connect(**{"date=1/clicks__0__0__9": None, "date=2/clicks__0__10__19": None})
    assert "several directories" in refused(seen)


def test_a_table_that_the_job_does_not_have():
    seen = replace(SEEN, former=ConnectSeen("ods.other", {}))
    found = plan_doctor(seen)
    assert "no table ods.other" in found.refusals[0].text


# --- sinks of tables in a table format

SINK_FILES = ("elsewhere/data/00001.parquet",)
MARK = "kafka.connect.offsets.control-iceberg.connect-clicks"


def events(*read: Mapping[str, int | None], is_whole: bool = True) -> ControlSeen:
    return ControlSeen(
        tuple({StreamShard("clicks", key): value for key, value in each.items()} for each in read),
        is_whole,
    )


def iceberg_sink(control: ControlSeen | None, *more: str) -> Observations:
    sink = LakehouseSinkSeen(
        TABLE, "iceberg", dict.fromkeys((MARK, *more), "{}"), (), SINK_FILES, control
    )
    return in_format(sink)


def in_format(sink: LakehouseSinkSeen) -> Observations:
    table = replace(CLICKS, visible=(), has_spark_metadata=False)
    topics = {"clicks": replace(SEEN.topics["clicks"], format=sink.format)}
    return replace(SEEN, tables=(table,), topics=topics, former=sink)


def delta_sink(topics: tuple[str, ...] = ("clicks",), **marks: int) -> Observations:
    found = {name.replace("_", "-"): str(value) for name, value in marks.items()}
    return in_format(LakehouseSinkSeen(TABLE, "delta", found, topics, SINK_FILES))


def test_landing_begins_where_the_events_of_icebergs_sink_end():
    """Partition 2 was assigned and never had a record."""
    seen = iceberg_sink(events({"0": 60, "2": None}, {"1": 40}, {"0": 100}, {"0": None}))
    found = plan_doctor(seen)
    assert begins(found) == {"0": 100, "1": 40, "2": 7}
    (listed, _) = found.steps
    assert isinstance(listed, ListAdopted)
    assert listed.files == SINK_FILES


@pytest.mark.parametrize(
    ("control", "why"),
    [
        (None, "does not exist"),
        (events(), "has no event of"),
        (events({"0": 60}, {"2": None}, is_whole=False), "no longer says how far clicks/2"),
    ],
)
def test_icebergs_sink_that_cannot_be_followed(control: ControlSeen | None, why: str):
    assert why in refused(iceberg_sink(control))


def test_the_marks_of_two_connectors_are_refused():
    assert "2 connectors" in refused(iceberg_sink(events({"0": 60}), f"{MARK}-2"))
    seen = iceberg_sink(None)
    assert isinstance(seen.former, LakehouseSinkSeen)
    assert "no mark" in refused(replace(seen, former=replace(seen.former, marks={})))


def test_landing_begins_after_the_transactions_of_kafka_delta_ingest():
    seen = delta_sink(ingest_0=99, ingest_1=39)
    assert begins(plan_doctor(seen)) == {"0": 100, "1": 40, "2": 7}


@pytest.mark.parametrize(
    ("seen", "why"),
    [
        (delta_sink(), "has none"),
        (delta_sink(a_0=1, b_0=1), "has a, b"),
        (delta_sink(("clicks", "more"), a_0=1), "lands 2 topics"),
    ],
)
def test_kafka_delta_ingest_that_cannot_be_followed(seen: Observations, why: str):
    assert why in refused(seen)


def test_a_mark_of_ashore_is_no_sink():
    seen = delta_sink(ingest_0=99)
    assert isinstance(seen.former, LakehouseSinkSeen)
    marks = {**seen.former.marks, "ashore.other.main": "4"}
    found = plan_doctor(replace(seen, former=replace(seen.former, marks=marks)))
    assert begins(found) == {"0": 100, "1": 0, "2": 7}


def test_names_of_connect():
    found = parse_connect("a.b-c_d+12+0000000100+0000000199.snappy.parquet")
    assert found is not None
    assert (found.shard, found.first, found.last) == (StreamShard("a.b-c_d", "12"), 100, 199)
    assert looks_like_connect("a+0+0000000000.avro")
    assert not looks_like_connect("part-0.parquet")
