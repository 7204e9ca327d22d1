"""Job files that are proposed for topics: what is sure, what is a comment, what decodes."""

import json
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ashore.errors import JobFileInvalid, StreamMissing
from ashore.jobs.file import Job, parse_job
from ashore.log.positions import StreamShard
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.registry import make_decoder
from ashore.topics.loop.job import columns_of
from ashore.topics.read.source import Record
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.route.placement import check_event_column, read_event_times
from ashore.topics.use.propose import TopicSample, propose_table, sample_topic
from ashore.topics.use.proposed_file import (
    JobProposal,
    TableProposal,
    job_text,
    table_names,
    write_new,
)
from ashore_lab.testing import FakeClock, RecordedSource

NOW_MS = 1_795_000_000_000


def sample(*values: bytes | None, each_ms: int = 1_000) -> TopicSample:
    start_ms = NOW_MS - len(values) * each_ms
    records = [
        Record(number, start_ms + number * each_ms, None, value)
        for number, value in enumerate(values)
    ]
    return TopicSample("clicks", tuple(records), len(values))


def proposed(*values: bytes | None, each_ms: int = 1_000) -> TableProposal:
    return propose_table(sample(*values, each_ms=each_ms), "ods.clicks", NOW_MS)


def jsons(*values: object, times: int = 30) -> list[bytes]:
    return [json.dumps(value).encode() for value in values] * times


def loaded(*tables: TableProposal) -> Job:
    proposal = JobProposal("clicks", "file:///lake", "127.0.0.1:9092", {}, tables)
    return parse_job(job_text(proposal), check_schema=columns_of, environment={})


AMERICAN = "11/12/2026 08:00:00"  # or European: nobody can tell
CLICK = {"id": 1, "ts": NOW_MS - 5, "user": "a", "price": 1.5, "ok": True}


def test_a_plain_topic_is_proposed_whole() -> None:
    found = proposed(*jsons(CLICK))
    assert found.schema == "id BIGINT, ts BIGINT, user STRING, price DOUBLE, ok BOOLEAN"
    assert found.event_time is not None
    assert (found.event_time.column, found.event_time.unit) == ("ts", "ms")
    assert (found.partition_by, found.sampled, found.decoded) == (("date",), 30, 30)
    assert found.notes == ()
    table = loaded(found).tables[0]
    assert table.event_time is not None
    assert (table.event_time.column, table.event_time.unit) == ("ts", "ms")


@pytest.mark.parametrize(
    ("value", "ddl"),
    [
        ({"a": {"b": 1, "c": [1.5]}}, "a STRUCT<b: BIGINT, c: ARRAY<DOUBLE>>"),
        ({"a": 1 << 70}, "a DECIMAL(38,0)"),
        ({"a": []}, "a ARRAY<STRING>"),
        ({"a": [1, 1.5]}, "a ARRAY<DOUBLE>"),
        ({"a": None}, "a STRING"),
        ({"a b": 1}, "`a b` BIGINT"),
        ({"a": {str(each): each for each in range(2)}}, "a STRUCT<`0`: BIGINT, `1`: BIGINT>"),
    ],
)
def test_types(value: object, ddl: str) -> None:
    assert proposed(*jsons(value)).schema == ddl


def test_names_that_differ_between_records_are_keys() -> None:
    found = proposed(*(jsons(*({"m": {f"k{each}": each}} for each in range(40)), times=1)))
    assert found.schema == "m MAP<STRING, BIGINT>"
    assert found.decoded == 40


@pytest.mark.parametrize(
    ("unit", "factor"), [("s", 0.001), ("ms", 1), ("us", 1_000), ("ns", 1_000_000)]
)
def test_the_unit_is_found(unit: str, factor: float) -> None:
    found = proposed(*jsons({"ts": int((NOW_MS - 1_000_000) * factor)})).event_time
    assert found is not None
    assert found.unit == unit


@pytest.mark.parametrize(
    "values",
    [
        jsons({"id": NOW_MS - 1}),  # a number like a time, by no name
        jsons({"ts": NOW_MS - 1}, {"ts": None}),  # not in each record
        jsons({"ts": NOW_MS - 1}, times=3),  # too few to tell
        jsons({"ts": NOW_MS - 1}, {"ts": 5}),  # not always a time
        jsons({"start_at": NOW_MS - 2, "end_at": NOW_MS - 1}),  # which of them only you know
        jsons({"ts": NOW_MS * 3}),
    ],
)
def test_an_event_time_that_is_not_sure_is_a_comment(values: list[bytes]) -> None:
    found = proposed(*values)
    assert found.event_time is None
    assert loaded(found).tables[0].event_time is None


def test_texts_in_iso_8601_are_the_event_time_as_timestamps() -> None:
    found = proposed(*jsons({"created_at": "2026-11-21T08:00:00.5+08:00", "b": "2026-11-21 08:00"}))
    assert found.schema == "created_at TIMESTAMP, b STRING"
    assert str(found.event_time) == '{column: "created_at"}'
    assert found.decoded == found.sampled


def test_values_that_are_no_records_make_no_event_time_unsure() -> None:
    found = proposed(*jsons(CLICK), b"not JSON", b"[1]", None)
    assert str(found.event_time) == '{column: "ts", unit: ms}'


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"meta": {"at": {"ts": NOW_MS - 1}}}, '{column: "meta.at.ts", unit: ms}'),
        (
            {"meta": {"sent_at": "2026-11-21T08:00:00Z"}},
            '{column: "meta.sent_at", format: "iso8601"}',
        ),
        ({"time": "21/11/2026 08:00:00"}, '{column: "time", format: "dd/MM/yyyy HH:mm:ss"}'),
        ({"time": "11/21/2026 08:00:00"}, '{column: "time", format: "MM/dd/yyyy HH:mm:ss"}'),
        ({"ts": NOW_MS - 1, "meta": {"event_time": NOW_MS - 2}}, '{column: "ts", unit: ms}'),
        ({"a.ts": NOW_MS - 1}, '{column: "a.ts", unit: ms}'),
    ],
)
def test_fields_and_texts_are_event_times_too(value: dict[str, object], said: str) -> None:
    found = proposed(*jsons(value))
    assert str(found.event_time) == said
    time = loaded(found).tables[0].event_time
    assert time is not None
    table = (
        make_decoder("json", parse_ddl(found.schema))
        .decode(pa.array(jsons(value), pa.binary()))
        .table
    )
    event = EventColumn(time.column, time.unit, time.format or "")
    check_event_column(event, table.schema)
    assert read_event_times(event, table).null_count == 0


@pytest.mark.parametrize(
    "values",
    [
        jsons({"time": "11/12/2026 08:00:00"}),  # the day or the month?
        jsons({"time": "21/11/2026 08:00:00"}, {"time": "12/24/2026 08:00:00"}),
        jsons({"time": "21/13/2026 08:00:00"}),
        jsons({"meta": {"ts": NOW_MS - 1}}, {"meta": None}),
        jsons({"list": [{"ts": NOW_MS - 1}]}),
    ],
)
def test_a_field_or_a_text_that_is_not_sure_is_a_comment(values: list[bytes]) -> None:
    found = proposed(*values)
    assert found.event_time is None
    assert loaded(found).tables[0].event_time is None


def test_both_orders_of_day_and_month_are_comments() -> None:
    text = job_text(
        JobProposal("a", "file:///lake", "b:1", {}, (proposed(*jsons({"time": AMERICAN})),))
    )
    assert '# event_time: {column: "time", format: "dd/MM/yyyy HH:mm:ss"}' in text
    assert '# event_time: {column: "time", format: "MM/dd/yyyy HH:mm:ss"}' in text


def test_values_that_are_no_json_are_text_or_bytes() -> None:
    assert proposed(b"one", b"two").decode == "text"
    assert proposed(b"\xff\x00", b"two").decode == "bytes"
    empty = proposed()
    assert (empty.decode, empty.partition_by) == ("bytes", ("date",))
    assert "no records to sample" in empty.notes[0]
    for found in (proposed(b"one"), proposed(b"\xff"), empty, proposed(None)):
        assert loaded(found).tables[0].decode == found.decode


def test_what_does_not_decode_is_told() -> None:
    found = proposed(*jsons({"a": 1}), b"not JSON", *jsons({"a": "x"}, times=2))
    assert (found.sampled, found.decoded) == (33, 30)
    assert any("30 of 33 records" in note and "ods.clicks__dead" in note for note in found.notes)
    assert any("a has several types" in note for note in found.notes)


def test_columns_that_no_table_can_have_beside_others_stay_out() -> None:
    found = proposed(*jsons({"id": 1, "ID": 2, "date": "x", "kafka_offset": 3, "": 4}))
    assert found.schema == "id BIGINT, date STRING"
    assert found.partition_by == ()
    assert len(found.notes) == 4
    assert loaded(found).tables[0].partition_by == ()


def test_a_topic_of_many_records_is_partitioned_by_hour() -> None:
    assert proposed(*jsons(CLICK, times=2_000), each_ms=1).partition_by == ("date", "hour")


SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**40), 10**40),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
)
OBJECTS = st.dictionaries(
    st.text(max_size=6),
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner),
        max_leaves=5,
    ),
    max_size=5,
)


@pytest.mark.slow
@settings(max_examples=examples(200), deadline=None)
@given(st.lists(OBJECTS.map(lambda each: json.dumps(each).encode()) | st.binary(max_size=6)))
def test_whatever_is_there_makes_a_file_that_loads(values: list[bytes]) -> None:
    found = proposed(*values)
    table = loaded(found).tables[0]
    decoder = make_decoder(table.decode, parse_ddl(table.ddl))
    assert decoder.decode(pa.array(values, pa.binary())).table.num_rows == found.decoded


# --- names, sampling, the file ---------------------------------------------------------------


def test_each_topic_has_a_table_of_its_own() -> None:
    assert table_names(["a.b", "a-b", "A_b", "__", "x"], "ods") == {
        "a.b": "ods.a_b",
        "a-b": "ods.a_b_2",
        "A_b": "ods.A_b_3",
        "__": "ods.topic",
        "x": "ods.x",
    }


def test_the_newest_records_of_each_partition_are_looked_at() -> None:
    source = RecordedSource("kafka", FakeClock())
    source.create("clicks", 3)
    source.append(StreamShard("clicks", "0"), *[str(each).encode() for each in range(10)])
    source.append(StreamShard("clicks", "1"), b"x")
    found = sample_topic(source, "clicks", 3)
    assert [each.value for each in found.records] == [b"7", b"8", b"9", b"x"]
    assert found.there == 11
    with pytest.raises(StreamMissing, match="clicsk") as missing:
        sample_topic(source, "clicsk", 3)
    assert "did you mean `clicks`?" in missing.value.hint


def test_a_file_that_is_there_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    write_new(path, "first")
    with pytest.raises(JobFileInvalid, match="already exists"):
        write_new(path, "second")
    assert path.read_text() == "first"
    with pytest.raises(JobFileInvalid, match="cannot be written"):
        write_new(tmp_path / "gone" / "job.yaml", "third")
    assert [each.name for each in tmp_path.iterdir()] == ["job.yaml"]


def test_options_are_written_as_they_were_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKEN", "hunter2")
    options = {"ssl.key.password": "${TOKEN}", "client.rack": "a"}
    text = job_text(JobProposal("j", "file:///lake", "h:1", options, (proposed(b"one"),)))
    assert '"${TOKEN}"' in text
    assert "hunter2" not in text


def test_a_lake_that_cannot_be_is_told_before_anything_is_written() -> None:
    with pytest.raises(JobFileInvalid, match="Hadoop's name"):
        job_text(JobProposal("j", "s3n://b/x", "h:1", {}, (proposed(b"one"),)))
