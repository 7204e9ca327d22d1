"""What is written to a metastore of columns, without one."""

import json
from dataclasses import replace

import pytest
from tests.unit.tables.test_memory import TABLE

from ashore.tables.catalog.hive_schema import (
    PROPERTY_LENGTH_MAX,
    find_unfit,
    hive_columns,
    same_location,
    same_type,
    spark_properties,
)
from ashore.tables.ddl import parse_ddl


@pytest.mark.parametrize(
    ("ddl", "hive", "spark"),
    [
        ("BOOLEAN", "boolean", "boolean"),
        ("TINYINT", "tinyint", "byte"),
        ("SMALLINT", "smallint", "short"),
        ("INT NOT NULL", "int", "integer"),
        ("BIGINT", "bigint", "long"),
        ("FLOAT", "float", "float"),
        ("DOUBLE", "double", "double"),
        ("STRING", "string", "string"),
        ("BINARY", "binary", "binary"),
        ("DATE", "date", "date"),
        ("TIMESTAMP", "timestamp", "timestamp"),
        ("TIMESTAMP_NTZ", "timestamp", "timestamp_ntz"),
        ("DECIMAL(38,18)", "decimal(38,18)", "decimal(38,18)"),
        (
            "ARRAY<INT>",
            "array<int>",
            {"type": "array", "elementType": "integer", "containsNull": True},
        ),
        (
            "MAP<STRING, DECIMAL>",
            "map<string,decimal(10,0)>",
            {
                "type": "map",
                "keyType": "string",
                "valueType": "decimal(10,0)",
                "valueContainsNull": True,
            },
        ),
        (
            "STRUCT<Ab: TIMESTAMP_NTZ NOT NULL>",
            "struct<Ab:timestamp>",
            {
                "type": "struct",
                "fields": [
                    {"name": "Ab", "type": "timestamp_ntz", "nullable": True, "metadata": {}}
                ],
            },
        ),
    ],
)
def test_types(ddl: str, hive: str, spark: object):
    columns = parse_ddl(f"Col {ddl}")
    assert hive_columns(columns) == [("Col", hive)]
    properties = spark_properties(replace(TABLE, columns=columns), {"col": "said"})
    first = json.loads(properties["spark.sql.sources.schema"])["fields"][0]
    assert first == {
        "name": "Col",
        "type": spark,
        "nullable": True,
        "metadata": {"comment": "said"},
    }


def test_partition_columns_come_last():
    properties = spark_properties(TABLE, {})
    fields = json.loads(properties["spark.sql.sources.schema"])["fields"]
    assert [each["name"] for each in fields][-2:] == ["date", "country"]
    assert properties["spark.sql.sources.schema.numPartCols"] == "2"
    assert properties["spark.sql.sources.schema.partCol.1"] == "country"
    assert properties["spark.sql.partitionProvider"] == "catalog"


def test_a_table_without_partitions_has_none():
    properties = spark_properties(replace(TABLE, partition_columns=parse_none()), {})
    assert "spark.sql.partitionProvider" not in properties
    assert not [key for key in properties if "art" in key.removeprefix("spark.sql.sources.")]


def parse_none():
    return replace(TABLE.columns, fields=())


def test_a_schema_that_is_too_long_is_cut():
    columns = parse_ddl(", ".join(f"column_{n} STRING" for n in range(200)))
    properties = spark_properties(replace(TABLE, columns=columns), {})
    assert "spark.sql.sources.schema" not in properties
    count = int(properties["spark.sql.sources.schema.numParts"])
    parts = [properties[f"spark.sql.sources.schema.part.{n}"] for n in range(count)]
    assert count > 1
    assert max(map(len, parts)) <= PROPERTY_LENGTH_MAX
    assert len(json.loads("".join(parts))["fields"]) == 202


@pytest.mark.parametrize(
    ("columns", "count"),
    [
        ("`a,b` INT, `c:d` INT, `e;f` INT", 3),
        ("`a b` INT, `ä-ö` INT", 0),
        ("s ARRAY<STRUCT<`a b`: INT, ok: STRUCT<`1`: INT>>>", 2),
        ("m MAP<STRUCT<`a.b`: INT>, INT>", 1),
    ],
)
def test_names_that_hive_cannot_hold(columns: str, count: int):
    assert len(find_unfit(replace(TABLE, columns=parse_ddl(columns)))) == count


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("file:///lake/t", "file:/lake/t", True),
        ("file:///lake/t/", "file:/lake/t", True),
        ("hdfs://ns/lake/t", "hdfs://ns/lake/t/", True),
        ("hdfs://ns/lake/t", "hdfs://other/lake/t", False),
        ("hdfs://ns/lake/t", "file:///lake/t", False),
        ("file:///lake/t", "file:///lake/T", False),
        ("file:///lake/a%2Fb", "file:/lake/a/b", False),
        ("", "file:///", False),
    ],
)
def test_locations(one: str, other: str, is_same: bool):
    assert (same_location(one) == same_location(other)) is is_same


def test_types_are_compared_without_case_and_space():
    assert same_type("struct<Ab : INT, c:decimal(10, 2)>") == "struct<ab:int,c:decimal(10,2)>"
