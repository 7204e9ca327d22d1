"""Decoding and routing for records and rows that nobody would think of."""

import json
from datetime import datetime, timedelta
from itertools import chain
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.marks import but

from ashore.tables import ddl
from ashore.tables.ddl import parse_ddl, to_ddl
from ashore.tables.names import escape, unescape
from ashore.topics.decode import json as json_module
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.json import JsonDecoder
from ashore.topics.decode.plain import TextDecoder
from ashore.topics.route.placement import (
    EVENT_MS_MAX,
    EVENT_MS_MIN,
    Bucketer,
    Lateness,
    event_millis,
    place,
    split_rows,
)

names = st.one_of(st.sampled_from(["a", "b", "date", "INT"]), st.text(min_size=1, max_size=5))
atoms = st.sampled_from(list(ddl.Atom))
decimals = st.integers(1, 38).flatmap(
    lambda precision: st.builds(ddl.Decimal, st.just(precision), st.integers(0, precision))
)


def fields(types):
    field = st.builds(ddl.Field, names, types, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda f: f.name.lower()).map(tuple)


types = st.recursive(
    atoms | decimals,
    lambda inner: st.one_of(
        st.builds(ddl.Array, inner),
        st.builds(ddl.Map, st.just(ddl.Atom.STRING), inner),
        st.builds(ddl.Struct, fields(inner)),
    ),
    max_leaves=5,
)


@given(fields(types))
def test_ddl_round_trip(columns):
    schema = ddl.Schema(columns)
    assert parse_ddl(to_ddl(schema)) == schema
    assert to_arrow(schema).names == schema.names


@given(st.text(max_size=40) | st.text("abINTSRUC<>(),:`'\" 0", max_size=40))
def test_ddl_parses_or_tells_where_not(text):
    position = 0
    try:
        parse_ddl(text)
    except ddl.DdlError as error:
        position = error.position
    assert 0 <= position <= len(text)


SCHEMAS = [
    "a BIGINT, b STRING",
    "a BIGINT NOT NULL, b STRING, m MAP<STRING, STRUCT<x: INT NOT NULL>>",
    "a TIMESTAMP, b ARRAY<DATE>, d DECIMAL(5,2), s STRUCT<x: FLOAT NOT NULL, y: BINARY>",
]
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(),
    st.text(max_size=6),
    st.sampled_from(["2026-11-21", "2026-11-21T08:00:00.1234567Z", "1.50", "YWJj", "1e3"]),
)
json_values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["x", "y", "key", "value", "a"]), inner, max_size=3),
    ),
    max_leaves=6,
)
objects = st.dictionaries(st.sampled_from(["a", "b", "d", "m", "s", "zz"]), json_values, max_size=5)
valid = objects.map(lambda value: json.dumps(value).encode())
plausible = st.sampled_from(
    [
        b'{"a":1,"b":"x"}',
        b'{"a":2}',
        b'{"a":"2026-11-21T08:00:00","b":["2026-01-01"],"d":1.5,"s":{"x":1,"y":"YWJj"}}',
        b'{"a":null,"m":{"k":{"x":1}}}',
        b'{"a":3,"m":{"k":{"x":1},"l":null}}',
    ]
)
tokens = st.lists(
    st.sampled_from(
        [
            *[b"{", b"}", b'"a"', b":", b"1", b",", b"[", b"]", b" ", b"\n", b"null", b'"', b"\\"],
            *[b'{"a":1}', b"{}", b"\xff", b"\xef\xbb\xbf", b'"b":"x"', b"//", b"NaN", b"\\ud800"],
            b"\0",
        ]
    ),
    max_size=8,
).map(b"".join)
garbage = st.one_of(
    st.none(), st.binary(max_size=12), tokens, tokens.map(lambda t: b"{" + t + b"}")
)
damaged = st.tuples(valid, st.integers(0, 60), st.binary(max_size=2)).map(
    lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :]
)
batches = st.lists(st.one_of(valid, plausible, plausible, garbage, damaged), max_size=40)


@pytest.mark.parametrize("schema", but(pytest.mark.slow, SCHEMAS, lambda it: it == SCHEMAS[0]))
@settings(deadline=None, max_examples=examples(150))
@given(values=batches)
@example(values=[b'{"a":1}{"a":2}', b" ", b'{"a":3}'])
@example(values=[b'{"a":1', b"}", b'{"a":1}{"a":2}'])
@example(values=[b'{"b":"}', b'{"', b'{"b":"}{"a":1}'])
@example(values=[b'{"a":1}\nnull{}', b"null", b"{}"])
def test_a_batch_decodes_as_its_records_do(schema, values):
    decoder = JsonDecoder(parse_ddl(schema))
    whole = decoder.decode(pa.array(values, pa.binary()))
    whole.table.validate(full=True)
    good = range(len(values)) if whole.good is None else whole.good.to_pylist()
    bad = {row.index: row.reason for row in whole.bad}
    assert sorted([*good, *bad]) == list(range(len(values)))
    rows = dict(zip(good, whole.table.to_pylist(), strict=True))
    for index, value in enumerate(values):
        single = decoder.decode(pa.array([value], pa.binary()))
        if index in bad:
            assert [row.reason for row in single.bad] == [bad[index]]
        else:
            assert repr(single.table.to_pylist()) == repr([rows[index]])  # NaN equals NaN here


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60))
@given(values=batches, split_ways=st.integers(2, 5), rows_max=st.integers(1, 7))
def test_how_a_batch_is_taken_apart_changes_nothing(values, split_ways, rows_max):
    usual = JsonDecoder(parse_ddl(SCHEMAS[0])).decode(pa.array(values, pa.binary()))
    before = json_module.SPLIT, json_module.BLOCK_ROWS
    json_module.SPLIT, json_module.BLOCK_ROWS = split_ways, rows_max
    try:
        decoder = JsonDecoder(parse_ddl(SCHEMAS[0]))
        other = decoder.decode(pa.array(values, pa.large_binary()))
    finally:
        json_module.SPLIT, json_module.BLOCK_ROWS = before
    assert other.table.to_pylist() == usual.table.to_pylist()
    assert other.bad == usual.bad


@given(batches)
def test_text_loses_nothing(values):
    decoded = TextDecoder(parse_ddl("line STRING")).decode(pa.array(values, pa.binary()))
    good = range(len(values)) if decoded.good is None else decoded.good.to_pylist()
    assert sorted([*good, *(row.index for row in decoded.bad)]) == list(range(len(values)))
    lines = decoded.table["line"].to_pylist()
    assert [values[index] for index in good] == [line.encode() for line in lines]


@given(st.text())
def test_escape_round_trip(text):
    escaped = escape(text)
    assert unescape(escaped) == text
    assert not set(escaped) & set("/=\0\n")


ZONES = ["UTC", "Europe/Berlin", "America/St_Johns", "Australia/Lord_Howe", "Asia/Gaza"]
ZONES += ["Africa/Monrovia", "Asia/Shanghai", "Pacific/Apia", "America/New_York", "Asia/Kathmandu"]
near_changes = st.sampled_from(
    [1_774_746_000_000, 1_792_890_000_000, 63_593_070_000, -2_177_481_943_000, 1_325_239_200_000]
).flatmap(lambda at: st.integers(at - 7_200_000, at + 7_200_000))


@given(
    st.sampled_from(ZONES),
    st.lists(near_changes | st.integers(EVENT_MS_MIN, EVENT_MS_MAX), min_size=1, max_size=20),
)
def test_buckets_are_what_the_zone_says(zone, times):
    table = pa.table({"id": range(len(times))})
    buckets = Bucketer(["date", "hour", "minute"], zone, table.schema).assign(
        table, pa.array(times, pa.int64())
    )
    epoch = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
    for time, bucket in zip(times, buckets.ids.to_pylist(), strict=True):
        local = (epoch + timedelta(milliseconds=time)).astimezone(ZoneInfo(zone))
        expected = (str(local.date()), f"{local:%H}", f"{local:%M}")
        assert buckets.values[bucket] == expected


@given(
    st.lists(
        st.tuples(st.none() | st.integers(0, 10**8), st.sampled_from(["", "a", "b/c", None])),
        max_size=60,
    ),
    st.sampled_from([[], ["date"], ["hour", "who"], ["who"]]),
    st.sampled_from(["rehome", "keep", "side"]),
)
def test_every_row_is_in_one_bucket(rows, partition_by, policy):
    table = pa.table(
        {
            "id": pa.array(range(len(rows)), pa.int64()),
            "ts": pa.array([row[0] for row in rows], pa.int64()),
            "who": pa.array([row[1] for row in rows], pa.string()),
        }
    )
    lateness = Lateness(policy, 1000, 1000, now_ms=60_000_000, watermark_ms=50_000_000)
    placement = place(event_millis(table["ts"], "ms"), lateness)
    bucketer = Bucketer(partition_by, "UTC", table.schema)
    buckets = bucketer.assign(table, placement.bucket_ms)
    parts = [
        (buckets.values[bucket], table if rows is None else table.take(rows))
        for bucket, rows in split_rows(buckets)
    ]
    ids = [part["id"].to_pylist() for _, part in parts]
    assert sorted(chain(*ids)) == list(range(len(rows)))
    assert all(each == sorted(each) and each for each in ids)
    assert len({values for values, _ in parts}) == len(parts)
    for values, part in parts:
        if "who" in partition_by:
            who = {name or "__HIVE_DEFAULT_PARTITION__" for name in part["who"].to_pylist()}
            assert who == {values[partition_by.index("who")]}
