"""Event times against an independent reading: Python's own of texts, a walk through plain values.

A text is a time for the independent reading if writing what was read gives the text again.
"""

import json
import re
from datetime import UTC, datetime, timedelta, timezone

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ashore.base.time_format import parse_time_format
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.registry import make_decoder
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.route.placement import check_event_column, read_event_times, text_millis

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# A pattern, and how Python writes the same.
PATTERNS = {
    "yyyy-MM-dd HH:mm:ss": "%Y-%m-%d %H:%M:%S",
    "yyyyMMddHHmmss": "%Y%m%d%H%M%S",
    "dd/MM/yyyy": "%d/%m/%Y",
    "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXX": "%Y-%m-%dT%H:%M:%S.%f%z",
    "'at' (HH)[mm] dd.MM.yyyy \\ Z": "at (%H)[%M] %d.%m.%Y \\ %z",
}
ZONES = st.integers(-14 * 60, 14 * 60).map(lambda minutes: timezone(timedelta(minutes=minutes)))
FIRST, LAST = (datetime.fromisoformat(day) for day in ("1000-01-03", "9998-12-30"))
TIMES = st.datetimes(FIRST, LAST, timezones=ZONES)
DAMAGE = st.lists(
    st.tuples(st.integers(0, 30), st.sampled_from(["", *"0123456789-:. TZ+x\n", "٣"])), max_size=2
)


def damaged(text: str, changes: list[tuple[int, str]]) -> str:
    for at, put in changes:
        text = text[:at] + put + text[at + 1 :]
    return text


def millis(at: datetime) -> int:
    return (at - EPOCH) // timedelta(milliseconds=1)


def read_by_python(text: str, written: str) -> int | None:
    if written.endswith("%z"):  # a zone may be hours alone, which Python does not read
        text = re.sub(r"(?<=[+-][01][0-9])\Z", "00", text, flags=re.ASCII)
    try:
        at = datetime.strptime(text, written)  # noqa: DTZ007 - a pattern may have no zone
    except ValueError:
        return None
    padded = written.replace("%Y", f"{at.year:04}")  # which C libraries write as they like
    if at.strftime(padded) != text:  # white space, or digits that are left out
        return None
    if abs(at.utcoffset() or timedelta()) >= timedelta(hours=20):  # no zone is: not a time
        return None
    return millis(at if at.tzinfo else at.replace(tzinfo=UTC))


@settings(max_examples=examples(300), deadline=None)
@given(st.data())
def test_a_text_is_the_time_that_python_reads(data: st.DataObject) -> None:
    pattern = data.draw(st.sampled_from([*PATTERNS]))
    written = PATTERNS[pattern]
    whole = data.draw(st.lists(TIMES, max_size=5))
    texts = [damaged(each.strftime(written), data.draw(DAMAGE)) for each in whole]
    found = text_millis(pa.array(texts, pa.string()), parse_time_format(pattern)).to_pylist()
    assert found == [read_by_python(each, written) for each in texts]


ISO_FORMS = st.sampled_from(
    [
        lambda at: at.isoformat(),
        lambda at: at.isoformat(" ", "milliseconds"),
        lambda at: at.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        lambda at: at.isoformat(timespec="minutes"),
        lambda at: at.replace(tzinfo=None).isoformat(),
        lambda at: at.date().isoformat(),
    ]
)


@settings(max_examples=examples(300), deadline=None)
@given(TIMES, ISO_FORMS)
def test_iso_8601_is_read_as_python_does(at: datetime, form) -> None:
    text = form(at)
    read = datetime.fromisoformat(text)
    wanted = millis(read if read.tzinfo else read.replace(tzinfo=UTC))
    assert text_millis(pa.array([text]), parse_time_format("iso8601")).to_pylist() == [wanted]


@settings(max_examples=examples(300), deadline=None)
@given(TIMES, ISO_FORMS, DAMAGE)
def test_a_damaged_text_is_no_time_or_that_which_it_says(at: datetime, form, changes) -> None:
    text = damaged(form(at), changes)
    (found,) = text_millis(pa.array([text]), parse_time_format("iso8601")).to_pylist()
    if found is not None:
        read = datetime.fromisoformat(text)
        assert found == millis(read if read.tzinfo else read.replace(tzinfo=UTC))


@pytest.mark.parametrize(
    "text",
    [
        *("2026-02-29", "2026-13-01", "2026-00-01", "2026-01-32", "0000-01-01", "", "2026-1-1"),
        *("2026-01-01T24:00", "2026-01-01T00:60", "2026-01-01T00:00:60", "2026-01-01T00:00+24:00"),
        *(" 2026-01-01", "2026-01-01\n", "1700000000", "2026-01-01+01:00"),
    ],
)
def test_what_is_no_time_in_iso_8601(text: str) -> None:
    assert text_millis(pa.array([text]), parse_time_format("iso8601")).to_pylist() == [None]


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("yyyy", "needs its month"),
        ("HH:mm", "needs its year"),
        ("yyyy-MM-dd mm", "needs its hour"),
        ("yyyy-MM-dd HH:mm.SSS", "needs its second"),
        ("yyyy-MM-ddTHH", "'T' is not supported"),
        ("dd dd", "the day appears twice"),
        ("yyyy-MM-dd 'at", '"\'" is not supported'),
    ],
)
def test_a_pattern_that_is_none_is_refused(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        parse_time_format(pattern)


# --- fields ----------------------------------------------------------------------------------

DDL = (
    "id BIGINT, `a.b` BIGINT, a STRUCT<b: BIGINT, c: STRUCT<ts: BIGINT, at: STRING, w: TIMESTAMP>>"
)
NUMBERS = st.none() | st.integers(0, 10**13)
TEXTS = st.sampled_from(["2026-11-21T08:00:00Z", "2026-11-21", "soon", "", None])
INNER = st.none() | st.fixed_dictionaries(
    {}, optional={"ts": NUMBERS, "at": TEXTS, "w": st.sampled_from(["2026-11-21T08:00:00Z", None])}
)
RECORDS = st.fixed_dictionaries(
    {},
    optional={
        "id": NUMBERS,
        "a.b": NUMBERS,
        "a": st.none() | st.fixed_dictionaries({}, optional={"b": NUMBERS, "c": INNER}),
    },
)
NOON = {"2026-11-21T08:00:00Z": 1_795_248_000_000, "2026-11-21": 1_795_219_200_000}


def walk(record: object, *names: str) -> object:
    for name in names:
        record = record.get(name) if isinstance(record, dict) else None
    return record


@settings(max_examples=examples(200), deadline=None)
@given(st.lists(RECORDS, max_size=6))
def test_a_field_is_found_where_a_walk_finds_it(records: list[dict[str, object]]) -> None:
    values = [json.dumps(each).encode() for each in records]
    table = make_decoder("json", parse_ddl(DDL)).decode(pa.array(values, pa.binary())).table
    numbers = {"id": ("id",), "a.b": ("a.b",), "a.c.ts": ("a", "c", "ts")}
    for path, names in numbers.items():
        found = read_event_times(EventColumn(path, "ms"), table).to_pylist()
        assert found == [walk(each, *names) for each in records], path
    texts = [NOON.get(walk(each, "a", "c", "at")) for each in records]  # type: ignore[call-overload]
    assert read_event_times(EventColumn("a.c.at", "ms", "iso8601"), table).to_pylist() == texts
    times = [NOON.get(walk(each, "a", "c", "w")) for each in records]  # type: ignore[call-overload]
    assert read_event_times(EventColumn("a.c.w"), table).to_pylist() == times


@pytest.mark.parametrize("path", ["a", "a.c", "a.x", "b", "a.c.at", "a.c.ts.x", ""])
def test_what_is_no_time_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match=r"event time|cannot be a time"):
        check_event_column(
            EventColumn(path), pa.schema(make_decoder("json", parse_ddl(DDL)).schema)
        )


def test_texts_of_a_topic_are_times() -> None:
    values = pa.array([b"2026-11-21T08:00:00Z", b"later", None], pa.binary())
    table = make_decoder("text", parse_ddl("value STRING")).decode(values).table
    assert read_event_times(EventColumn("value", "ms", "iso8601"), table).to_pylist() == [
        NOON["2026-11-21T08:00:00Z"],
        None,
    ]
