"""The rules of `decode: json` beside Spark's `from_json`: alike, but where the page differs."""

import re
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.json_decoders import decode_with_all
from tests.spark.programs import Use

from ashore.tables.ddl import parse_ddl
from ashore.topics.run.spark.reader import CORRUPT, JSON_OPTIONS

PAGE = Path(__file__).parents[2] / "docs/use/records.md"
INVALID = "invalid"
# Values of one column, by its type: what stands behind `{"v":`.
VALUES = {
    "BIGINT": ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "1.0", "1e2",
               "01", "-0", '"1"', "true", "null"],
    "INT": ["2147483647", "2147483648", "-2147483649"],
    "SMALLINT": ["32767", "32768"],
    "TINYINT": ["127", "128"],
    "FLOAT": ["3.4028234e38", "3.5e38", "0.1", "1e-50"],
    "DOUBLE": ["1", "1e308", "1e400", "4.9e-324", "1e-400", "-0.0", "NaN", "-Infinity", '"NaN"',
               '"1.5"', "1.", "+1"],
    "BOOLEAN": ["true", "1", '"true"', "TRUE"],
    "STRING": ['"a"', "1", "1.50", "true", '{"a": 1}', '"\\ud83d\\ude00"', '"\\ud83d"',
               '"\\u0000"', '"a\nb"', '"\\x"', "'a'"],
    "DECIMAL(5,2)": ["123.45", "123.456", "1234.5", '"1.5"', "1e2", "1.500",
                     "12345678901234567890"],
    "DATE": ['"2026-11-24"', '"2026-02-29"', '"2026-1-2"', '"2026-11-24T00:00:00"', "20000",
             '"0000-01-01"', '"10000-01-01"', '"24.11.2026"'],
    "TIMESTAMP": ['"2026-11-24T12:00:00Z"', '"2026-11-24 12:00:00"',
                  '"2026-11-24T12:00:00.123456Z"',
                  '"2026-11-24T12:00:00.1234567Z"', '"2026-11-24T12:00:00+14:00"', '"2026-11-24"',
                  "1795000000", '"2026-11-24T24:00:00Z"', '"2026-06-30T23:59:60Z"',
                  '"2026-11-24T12:00:00 Europe/Berlin"', '"2026-11-24T12:00"'],
    "TIMESTAMP_NTZ": ['"2026-11-24T12:00:00"', '"2026-11-24T12:00:00Z"'],
    "BINARY": ['"aGVsbG8="', '"aGVsbG8"', '"a b"', "1"],
    "ARRAY<INT>": ["[1,null]", '[1,"a"]', "1", "{}", "[]"],
    "MAP<STRING,INT>": ['{"a":1}', '{"a":1,"a":2}', '{"":1}', "[]", '{"a":null}'],
    "STRUCT<x: INT>": ['{"x":1}', '{"x":1,"x":2}', '{"X":1}', '{"y":1}', "[1]", "{}", '{"x":"a"}'],
}  # fmt: skip
# Whole records, for a column `v BIGINT`.
RECORDS = ["", " ", "null", '[{"v":1}]', '{"v":1}{"v":2}', '{"v":1} x', '{"v":1,}', "{v:1}",
           '{"v":1 /* a comment */}', '\ufeff{"v":1}', '{"v":1,"v":2}', '{"V":1}', '{"v":1',
           '{"u":1e,"v":1}', '{"u":NaN,"v":1}', '{"u":"a\x01","v":1}', '{ "v" : 1 }\n',
           f'{{"u":{"[" * 200}{"]" * 200},"v":1}}']  # fmt: skip
TIMES = ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ")  # of Spark as text: clients read less of them


def made_here(column_type: str, text: str) -> str:
    """What our decoders make of a record: they all make the same."""
    decoded = decode_with_all(parse_ddl(f"v {column_type}"), pa.array([text.encode()], pa.binary()))
    if len(decoded.bad):
        return INVALID
    (value,) = decoded.table.column("v").to_pylist(maps_as_pydicts="strict")
    return str(value.replace(tzinfo=None) if isinstance(value, datetime) else value)


def decoded(schema: str) -> Column:
    """The column `value` as a query decodes it."""
    return F.from_json(F.col("value").cast("string"), f"{schema}, {CORRUPT} STRING", JSON_OPTIONS)


def test_a_string_may_be_longer_than_what_jackson_reads_by_default(spark: SparkSession) -> None:
    long = "CAST(concat('{\"v\":\"', repeat('x', 20000001), '\"}') AS BINARY) AS value"
    frame = spark.range(1).selectExpr(long).select(decoded("v STRING").alias("r"))
    assert frame.selectExpr("length(r.v)").collect()[0][0] == 20_000_001


def made_by_spark(spark: SparkSession, column_type: str, texts: list[str]) -> list[str]:
    """What `from_json` makes of records, as a query that keeps what is corrupt uses it."""
    given = [(index, bytearray(text.encode())) for index, text in enumerate(texts)]
    frame = spark.createDataFrame(given, "i INT, value BINARY")
    record = decoded(f"v {column_type}")
    value = "CAST(r.v AS STRING)" if column_type in TIMES else "r.v"
    rows = (
        frame.select("i", record.alias("r"))
        .selectExpr("i", f"r IS NULL OR r.{CORRUPT} IS NOT NULL AS bad", f"{value} AS v")
        .orderBy("i")
        .collect()
    )
    return [INVALID if row.bad else shown(row.v) for row in rows]


def shown(value: object) -> str:
    if isinstance(value, Row):
        return str(value.asDict())
    return str(bytes(value) if isinstance(value, bytearray) else value)


def told(kind: str) -> dict[str, tuple[str, str]]:
    """The differences that the page lists: the value, what Ashore makes of it, and what Spark."""
    rows = re.findall(
        r"^\| `(.+)` \| `(.+)` \| (.+) \| (.+) \|$", PAGE.read_text("utf-8"), re.MULTILINE
    )
    return {
        value: (ours.strip("`"), sparks.strip("`"))
        for of, value, ours, sparks in rows
        if of == kind
    }


def cases() -> Iterator[tuple[str, str, list[str], list[str]]]:
    """Yield the name of each case, the type of its column, values and the records they are in."""
    for column_type, values in VALUES.items():
        yield column_type, column_type, values, [f'{{"v":{value}}}' for value in values]
    yield "record", "BIGINT", RECORDS, RECORDS


@pytest.mark.parametrize("case", [*cases()], ids=lambda case: case[0])
def test_what_differs_from_sparks_is_what_the_page_says(
    spark: SparkSession, use: Use, case: tuple[str, str, list[str], list[str]]
) -> None:
    kind, column_type, values, texts = case
    use({"spark.sql.session.timeZone": "UTC"})
    theirs = made_by_spark(spark, column_type, texts)
    ours = [made_here(column_type, text) for text in texts]
    pairs = dict(zip(values, zip(ours, theirs, strict=True), strict=True))
    assert {value: pair for value, pair in pairs.items() if pair[0] != pair[1]} == told(kind)
