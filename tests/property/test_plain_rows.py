"""Two decoders that share no code read the same rows."""

import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ashore.proof.evidence.plain_rows import Odd, TooDeep, decode_row, is_same, plain_value
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.json import JsonDecoder

DDL = (
    "b BOOLEAN, t TINYINT, i INT, l BIGINT, f FLOAT, d DOUBLE, s STRING, y BINARY, "
    "c DECIMAL(12,3), day DATE, at TIMESTAMP, wall TIMESTAMP_NTZ, a ARRAY<INT>, "
    "m MAP<STRING, DOUBLE>, o STRUCT<x: BIGINT, w: ARRAY<STRUCT<z: STRING>>>"
)
SCHEMA = parse_ddl(DDL)
DECODER = JsonDecoder(SCHEMA)

integers = st.integers(-(2**63), 2**63 - 1)
floats = st.floats(allow_nan=True, allow_infinity=False)
times = st.datetimes().map(lambda time: time.isoformat())
rows = st.fixed_dictionaries(
    {},
    optional={
        "b": st.booleans() | st.none(),
        "t": st.integers(-128, 127),
        "i": st.integers(-(2**31), 2**31 - 1) | st.none(),
        "l": integers,
        "f": st.floats(width=32, allow_infinity=False),
        "d": floats | integers,
        "s": st.text(),
        "y": st.sampled_from(["", "AAEC", "/+8="]),
        "c": st.decimals(-999_999_999, 999_999_999, places=3).map(str),
        "day": st.dates().map(lambda day: day.isoformat()),
        "at": st.one_of(
            times, times.map(lambda text: f"{text}Z"), st.just("2026-11-21 08:00:00.1234567+01:00")
        ),
        "wall": times,
        "a": st.lists(st.integers(-9, 9) | st.none(), max_size=3) | st.none(),
        "m": st.dictionaries(st.text(max_size=3), floats | st.none(), max_size=3),
        "o": st.fixed_dictionaries(
            {}, optional={"x": integers, "w": st.lists(st.fixed_dictionaries({"z": st.text()}))}
        ),
        "unknown": st.text(),
    },
)


@pytest.mark.slow
@settings(max_examples=examples(300), deadline=None)
@given(rows)
def test_what_the_first_decoder_reads_the_second_reads_alike(row: dict[str, object]) -> None:
    value = json.dumps(row).encode("utf-8", "replace")
    decoded = DECODER.decode(pa.array([value], pa.binary()))
    if decoded.bad:
        return
    [found] = decoded.table.to_pylist()
    expected = decode_row(value, "json", SCHEMA)
    for field in SCHEMA.fields:
        got = plain_value(found[field.name], field.type)
        assert is_same(expected[field.name], got), (field.name, expected[field.name], got)


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("v BIGINT", "1.0"), ("v BIGINT", '"1"'), ("v BIGINT", "true"), ("v TINYINT", "128"),
        ("v STRING", "1"), ("v DECIMAL(3,1)", "1.55"), ("v DECIMAL(3,1)", "100"),
        ("v DATE", '"2026-13-01"'), ("v BINARY", '"%"'), ("v FLOAT", "1e40"),
        ("v INT NOT NULL", "null"),
        ("v INT", '1,"v":2'), ("v MAP<STRING, INT>", '{"a":1,"a":2}'), ("v STRUCT<a: INT>", "[]"),
    ],
)  # fmt: skip
def test_both_refuse(ddl: str, text: str) -> None:
    value = f'{{"v":{text}}}'.encode()
    assert JsonDecoder(parse_ddl(ddl)).decode(pa.array([value], pa.binary())).bad
    with pytest.raises(Odd):
        decode_row(value, "json", parse_ddl(ddl))


def test_values_are_reported_apart() -> None:
    assert not is_same(True, 1)
    assert not is_same({"a": 1}, {"a": 2})
    assert is_same([float("nan")], [float("nan")])
    assert not is_same(0.0, -0.0)
    assert is_same(Decimal("1.50"), Decimal("1.5"))


@pytest.mark.parametrize(
    ("ddl", "text"),
    [
        ("v DOUBLE", "-0"), ("v DOUBLE", "-0.0"), ("v DOUBLE", "1e-400"), ("v DOUBLE", "-Infinity"),
        ("v FLOAT", "1.00000005960464477539"), ("v FLOAT", "1e-46"), ("v FLOAT", "16777217"),
        ("v BIGINT", "-0"), ("v DECIMAL(12,3)", '"+1"'), ("v DECIMAL(12,3)", '".5"'),
        ("v DECIMAL(12,3)", '"1."'), ("v DECIMAL(12,3)", "1e2"), ("v DECIMAL(12,3)", '"-0"'),
        ("v TIMESTAMP", '"2026-01-01 08"'), ("v TIMESTAMP", '"2026-01-01 08:05:06-0130"'),
        ("v TIMESTAMP", '"1900-01-01 00:00:00.9999999"'), ("v BINARY", '"AB=="'),
        ("v STRING", '"\\u0000\\ud83d\\ude00"'), ("v STRING", f'"x","u":{"9" * 5_000}'),
        ("v INT", '1,"u":1e309'), ("v INT", '1,"u":["\\ud83d"]'), ("v DECIMAL(5,2)", "0e114"),
        ("v DECIMAL(5,2)", "-0e99999999999999999999"),
        ("v STRUCT<a: INT NOT NULL>", "null"), ("v ARRAY<STRUCT<a: INT NOT NULL>>", "[null]"),
    ],
)  # fmt: skip
def test_both_read_what_is_seldom(ddl: str, text: str) -> None:
    schema, value = parse_ddl(ddl), f' {{"v":{text}}}\n'.encode()
    decoded = JsonDecoder(schema).decode(pa.array([value], pa.binary()))
    [found] = decoded.table.to_pylist()
    expected = decode_row(value, "json", schema)["v"]
    assert is_same(expected, plain_value(found["v"], schema.fields[0].type))


def test_what_is_nested_too_deeply_is_told_apart() -> None:
    value = b'{"v":1,"u":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert not JsonDecoder(parse_ddl("v INT")).decode(pa.array([value], pa.binary())).bad
    with pytest.raises(TooDeep):
        decode_row(value, "json", parse_ddl("v INT"))


@pytest.mark.parametrize("decode", ["json", "text", "bytes"])
def test_a_record_without_a_value_is_no_row(decode: str) -> None:
    with pytest.raises(Odd):
        decode_row(None, decode, parse_ddl("v STRING"))


def test_texts_and_bytes_are_read_as_they_are() -> None:
    assert decode_row("é".encode(), "text", parse_ddl("v STRING")) == {"v": "é"}
    assert decode_row(b"\xff", "bytes", parse_ddl("v BINARY")) == {"v": b"\xff"}
    with pytest.raises(Odd):
        decode_row(b"\xff", "text", parse_ddl("v STRING"))
