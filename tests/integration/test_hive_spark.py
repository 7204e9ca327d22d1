"""What Spark SQL with Hive support reads through the metastore, of files that Ashore wrote.

One Spark process, in a zone that is not UTC, answers all questions of this module.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from ashore.tables.catalog import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    PartitionSeal,
    open_catalog,
)
from ashore.tables.ddl import Schema, parse_ddl
from ashore.tables.names import DEFAULT_PARTITION, partition_path
from ashore.topics.decode.arrow_types import arrow_type, to_arrow
from ashore.topics.decode.registry import open_encoder
from ashore_lab.services.hive import Hive

READER = """
import json, sys
import pyarrow as pa
from pyspark.sql import SparkSession
uri, warehouse, zone, questions = json.load(sys.stdin)
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.sql.catalogImplementation", "hive")
    .config("spark.hadoop.hive.metastore.uris", uri)
    .config("spark.sql.warehouse.dir", warehouse)
    .config("spark.sql.session.timeZone", zone)
    .config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.driver.bindAddress", "127.0.0.1")
    .config("spark.driver.memory", "1g")
    .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
    .getOrCreate()
)
for name, sql in questions.items():
    table = spark.sql(sql).toArrow()
    with pa.OSFile(name, "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
        writer.write_table(table)
"""

DDL = (
    "userId BIGINT, ok BOOLEAN, ti TINYINT, si SMALLINT, i INT, f FLOAT, d DOUBLE, s STRING, "
    "b BINARY, da DATE, ts TIMESTAMP, ntz TIMESTAMP_NTZ, de DECIMAL(10,2), wide DECIMAL(38,18), "
    "arr ARRAY<STRING>, mp MAP<STRING, DECIMAL(5,1)>, "
    "st STRUCT<userName: STRING, inside: STRUCT<a: INT, at: TIMESTAMP>>, "
    "list ARRAY<STRUCT<x: DATE, y: ARRAY<BIGINT>>>"
)
ROW = {
    "userId": 2**62,
    "ok": True,
    "ti": -128,
    "si": -300,
    "i": 70_000,
    "f": 0.1,
    "d": 1e300,
    "s": 'grün, "x"\n\\N\t\x01',
    "b": b"\x00\xff\n",
    "da": date(1969, 12, 31),
    "ts": datetime(2026, 11, 21, 8, 0, 0, 123_456, tzinfo=UTC),
    "ntz": datetime(2026, 11, 21, 8, 0, 0, 654_321),  # noqa: DTZ001 - has no zone
    "de": Decimal("-12345678.91"),
    "wide": Decimal("12345678901234567890.123456789012345678"),
    "arr": ["a", None, ""],
    "mp": [("k", Decimal("1.5")), ("none", None)],
    "st": {"userName": "u", "inside": {"a": None, "at": datetime(1999, 1, 1, tzinfo=UTC)}},
    "list": [{"x": date(2026, 2, 28), "y": [1, None]}, None],
}
ODD = [
    "plain",
    "a/b",
    "a b ",
    "100%",
    "%2F",
    "x=y",
    "don't",
    '"quoted"',
    "co:lon, comma; [br] {ace} ^*?#\\",
    "line\nbreak\ttab\x01\x7f",
    "grün 中文 🚢",
    "-",
    DEFAULT_PARTITION,
]


class Lake:
    """Tables of one database: files that Ashore's encoders wrote, registered in the metastore."""

    def __init__(self, root: Path, catalog: Catalog) -> None:
        self.root = root
        self._catalog = catalog

    def table(self, name: str, columns: Schema, partitions: str, format_: str) -> CatalogTable:
        location = self.root / "read.db" / name
        location.mkdir(parents=True)
        table = CatalogTable(
            database="read",
            name=name,
            columns=columns,
            partition_columns=parse_ddl(partitions) if partitions else Schema(()),
            location=f"file://{location}",  # not a URL: a space is a space
            format=format_,
            job="read",
        )
        self._catalog.ensure_table(table)
        return table

    def write(self, table: CatalogTable, path: str, rows: list[dict], name: str = "a") -> None:
        directory = self.root / "read.db" / table.name / path
        directory.mkdir(parents=True, exist_ok=True)
        schema = to_arrow(table.columns)
        with (directory / f"{name}.{table.format}").open("wb") as out:
            encoder = open_encoder(table.format, out, schema)
            encoder.write(pa.Table.from_pylist(rows, schema))
            encoder.close({})
        if path:
            self._catalog.add_partitions(table, [CatalogPartition(path)])


def without_wall_time(schema: Schema, format_: str) -> Schema:
    """ORC files cannot hold a TIMESTAMP_NTZ that Spark reads."""
    kept = [field for field in schema.fields if format_ != "orc" or field.name != "ntz"]
    return Schema(tuple(kept))


QUESTIONS = {
    **{f: f"SELECT * FROM read.types_{f} ORDER BY s" for f in ("parquet", "orc", "jsonl")},
    "flat": "SELECT * FROM read.flat",
    "odd": "SELECT id, country FROM read.odd ORDER BY id",
    **{
        f"odd{number}": f"SELECT id FROM read.odd WHERE country = {json.dumps(value)}"
        for number, value in enumerate(ODD[:8])
    },
    "null": "SELECT id FROM read.odd WHERE country IS NULL",
    "typed": "SELECT id, day, n FROM read.typed WHERE n > 9 AND day >= DATE '2026-11-21'",
    "grown": "SELECT * FROM read.grown ORDER BY id",
}


@pytest.fixture(scope="module")
def lake(hive: Hive, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    catalog = open_catalog(hive.uri, timeout_s=60)
    yield Lake(tmp_path_factory.mktemp("my lake"), catalog)
    catalog.close()


@pytest.fixture(scope="module")
def read(hive: Hive, lake: Lake, tmp_path_factory: pytest.TempPathFactory) -> dict[str, pa.Table]:
    """Make the tables, and return Spark's answers to the questions."""
    for format_ in ("parquet", "orc", "jsonl"):
        columns = without_wall_time(parse_ddl(DDL), format_)
        table = lake.table(f"types_{format_}", columns, "date STRING, Region STRING", format_)
        lake.write(table, "date=2026-11-21/Region=cn", [ROW, dict.fromkeys(ROW)])
    flat = lake.table("flat", parse_ddl("id BIGINT"), "", "parquet")
    lake.write(flat, "", [{"id": 1}])
    lake.write(replace(flat, name="flat/.ashore/job"), "", [{"id": 2}])
    odd = lake.table("odd", parse_ddl("id BIGINT"), "country STRING", "parquet")
    for number, value in enumerate(ODD):
        lake.write(odd, partition_path(["country"], [value]), [{"id": number}])
    typed = lake.table("typed", parse_ddl("id BIGINT"), "day DATE, n INT", "parquet")
    for number in (9, 10, 11):
        lake.write(typed, f"day=2026-11-{number + 11}/n={number}", [{"id": number}])
    grow(lake)
    return ask_spark(hive, tmp_path_factory.mktemp("answers"))


def grow(lake: Lake) -> None:
    """Two columns come in the middle of the schema; a file with them lands in an old partition."""
    table = lake.table("grown", parse_ddl("id BIGINT, userName STRING"), "date STRING", "parquet")
    lake.write(table, "date=2026-11-20", [{"id": 1, "userName": "a"}])
    wider = parse_ddl("id BIGINT, newInt INT, userName STRING, newList ARRAY<STRING>")
    table = replace(table, columns=wider)
    assert lake._catalog.ensure_table(table).added == ("newInt", "newList")
    rows = [{"id": n, "userName": "b", "newInt": n, "newList": ["x"]} for n in (2, 3)]
    lake.write(table, "date=2026-11-20", rows[:1], "late")
    lake.write(table, "date=2026-11-21", rows[1:])
    seal = PartitionSeal(CatalogPartition("date=2026-11-20"), 1, 2)
    lake._catalog.mark_sealed(table, [seal])


def ask_spark(hive: Hive, directory: Path) -> dict[str, pa.Table]:
    question = json.dumps([hive.uri, hive.warehouse.as_uri(), "Asia/Shanghai", QUESTIONS])
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", READER],
        cwd=directory,
        env=environment,
        input=question,
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    answers = {}
    for name in QUESTIONS:
        with pa.OSFile(str(directory / name)) as file:
            answers[name] = pa.ipc.open_file(file).read_all()
    return answers


@pytest.mark.parametrize("format_", ["parquet", "orc", "jsonl"])
def test_every_type_is_read_as_it_was_written(read, format_):
    fields = without_wall_time(parse_ddl(DDL), format_).fields
    answer = read[format_]
    names = [field.name for field in fields]
    assert answer.column_names == [*names, "date", "Region"]
    for field in fields:
        column = answer.column(field.name)
        wanted = pa.array([None, ROW[field.name]], arrow_type(field.type))
        found = column.cast(wanted.type).combine_chunks()
        assert found.to_pylist() == wanted.to_pylist(), field.name
        assert pa.types.is_timestamp(column.type) == pa.types.is_timestamp(wanted.type)
        if pa.types.is_timestamp(wanted.type):
            assert bool(column.type.tz) == bool(wanted.type.tz), field.name
    assert answer.column("Region").to_pylist() == ["cn", "cn"]


def test_a_table_without_partitions_and_what_ashore_keeps_below_it(read):
    assert read["flat"].to_pylist() == [{"id": 1}]


def test_odd_partition_values(read):
    found = read["odd"].to_pylist()
    assert [each["id"] for each in found] == list(range(len(ODD)))
    assert [each["country"] for each in found] == [*ODD[:-1], None]


@pytest.mark.parametrize("number", range(8))
def test_the_metastore_finds_partitions_by_odd_values(read, number):
    assert read[f"odd{number}"].to_pylist() == [{"id": number}], ODD[number]


def test_the_null_partition_is_null(read):
    assert read["null"].to_pylist() == [{"id": len(ODD) - 1}]


def test_partition_columns_have_types(read):
    assert read["typed"].to_pylist() == [
        {"id": 10, "day": date(2026, 11, 21), "n": 10},
        {"id": 11, "day": date(2026, 11, 22), "n": 11},
    ]


def test_columns_that_came_later(read):
    assert read["grown"].column_names == ["id", "userName", "newInt", "newList", "date"]
    assert read["grown"].to_pylist() == [
        {"id": 1, "userName": "a", "newInt": None, "newList": None, "date": "2026-11-20"},
        {"id": 2, "userName": "b", "newInt": 2, "newList": ["x"], "date": "2026-11-20"},
        {"id": 3, "userName": "b", "newInt": 3, "newList": ["x"], "date": "2026-11-21"},
    ]
