"""Records as rows of the source `ashore`."""

import pyarrow as pa
import pytest

from ashore.log.positions import StreamShard
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.read.record_columns import fetched_batch
from ashore.topics.read.source import Record
from ashore.topics.run.spark.source.record_batches import RowMaker
from ashore.topics.run.spark.source.record_schema import COLUMNS, DEFAULT_COLUMNS, RowShape

SHARD = StreamShard("clicks", "3")
VALUES = [b'{"id": 1, "name": "a"}', b"[]", None, b'{"id": "x"}', b'{"id": 2}', b'{"name": 1}']


def records_of(values: list[bytes | None]) -> pa.RecordBatch:
    records = [
        Record(offset, 1_795_000_000_000, b"key", value, (("h", b"1"),))
        for offset, value in enumerate(values)
    ]
    return fetched_batch(SHARD, records)


def shape_of(
    schema: str = "id BIGINT, name STRING", decode: str = "json", **more: object
) -> RowShape:
    found = {"fields": None, "columns": DEFAULT_COLUMNS, "keeps_values": False, **more}
    return RowShape(decode, parse_ddl(schema), **found)  # type: ignore[arg-type]


def rows_of(shape: RowShape, values: list[bytes | None]) -> list[dict[str, object]]:
    maker = RowMaker(shape, to_arrow(parse_ddl(shape.ddl)), "auto")
    batches = list(maker.make(records_of(values)))
    for each in batches:
        each.validate(full=True)
    return [row for each in batches for row in each.to_pylist()]


def test_each_record_is_a_row_with_its_values_or_the_reason() -> None:
    rows = rows_of(shape_of(), VALUES)
    assert [row["offset"] for row in rows] == list(range(6))
    assert [row["decoded"] for row in rows] == [
        {"id": 1, "name": "a"},
        None,
        None,
        None,
        {"id": 2, "name": None},
        None,
    ]
    assert [row["reason"] for row in rows] == [
        None,
        "not-object",
        "empty",
        'wrong-type: id BIGINT "x"',
        None,
        "wrong-type: name STRING 1",
    ]
    assert [row["value"] for row in rows] == [None, b"[]", None, b'{"id": "x"}', None, VALUES[5]]
    assert {(row["topic"], row["partition"], row["key"]) for row in rows} == {("clicks", 3, b"key")}


def test_a_field_that_is_not_handed_over_still_judges_the_record() -> None:
    rows = rows_of(shape_of(fields=("id",), columns=("decoded", "reason")), VALUES)
    assert rows[0] == {"decoded": {"id": 1}, "reason": None}
    assert rows[5] == {"decoded": None, "reason": "wrong-type: name STRING 1"}


def test_values_and_headers_where_they_are_asked_for() -> None:
    rows = rows_of(shape_of(columns=tuple(COLUMNS), keeps_values=True), VALUES[:1])
    assert rows[0]["value"] == VALUES[0]
    assert rows[0]["headers"] == [{"key": "h", "value": b"1"}]


@pytest.mark.parametrize(
    ("decode", "schema", "expected"),
    [
        ("text", "line STRING", [{"line": "a"}, {"line": ""}, None, None]),
        ("bytes", "body BINARY", [{"body": b"a"}, {"body": b""}, {"body": b"\xff"}, None]),
    ],
)
def test_texts_and_bytes(decode: str, schema: str, expected: list[object]) -> None:
    rows = rows_of(shape_of(schema, decode), [b"a", b"", b"\xff", None])
    assert [row["decoded"] for row in rows] == expected


def test_all_types_even_nested_and_not_null() -> None:
    schema = (
        "a BOOLEAN NOT NULL, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, "
        "h DECIMAL(38,3), i STRING, j BINARY, k DATE, l TIMESTAMP, m TIMESTAMP_NTZ, "
        "n ARRAY<STRUCT<x: INT NOT NULL>>, o MAP<STRING, ARRAY<DECIMAL(5,2)>>, "
        "p STRUCT<x: STRUCT<y: DATE NOT NULL> NOT NULL>"
    )
    value = (
        b'{"a": true, "b": 1, "c": 2, "d": 3, "e": 4, "f": 0.5, "g": 0.25, "h": "1.125", "i": "s",'
        b' "j": "aGk=", "k": "2026-11-21", "l": "2026-11-21T00:00:00.000001Z",'
        b' "m": "2026-11-21T00:00:00", "n": [{"x": 1}, null], "o": {"k": [1.25]},'
        b' "p": {"x": {"y": "2026-11-21"}}}'
    )
    rows = rows_of(shape_of(schema), [value, b"{}", value])
    assert rows[0]["decoded"] == rows[2]["decoded"]
    assert rows[1]["reason"] == "null: a"
    decoded = rows[0]["decoded"]
    assert isinstance(decoded, dict)
    assert decoded["n"] == [{"x": 1}, None]


def test_wide_rows_come_in_small_batches() -> None:
    schema = ", ".join(f"c{number} BIGINT" for number in range(1_000))
    maker = RowMaker(shape_of(schema), to_arrow(parse_ddl(shape_of(schema).ddl)), "auto")
    sizes = [each.num_rows for each in maker.make(records_of([b"{}"] * 5_000))]
    assert sum(sizes) == 5_000
    assert max(sizes) <= 2_097


def test_no_records_are_no_rows() -> None:
    assert rows_of(shape_of(), []) == []
