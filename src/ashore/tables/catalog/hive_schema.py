"""Tables as the metastore and its readers describe them.

What it is: column types as Hive writes them, SerDes, and the properties in which Spark keeps what
Hive's types cannot say: the case of names, timestamps without a zone, JSON.
What it promises: pure. A type that two readers would understand differently is not written for one
of them only: Spark's properties and Hive's columns name the same columns in the same order.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from ashore.tables.catalog.base import CatalogTable
from ashore.tables.catalog.growth import GrownColumn
from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, Map, Schema, Struct

SPARK_PREFIX = "spark.sql.sources."
SPARK_PROVIDER = SPARK_PREFIX + "provider"
SPARK_SCHEMA = SPARK_PREFIX + "schema"
SPARK_PATH = "path"  # among the SerDe's; Spark takes its tables' location from there
PROPERTY_LENGTH_MAX = 4000  # what metastores' databases have room for; Spark cuts there too

_STRUCT_FIELD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NOT_IN_COLUMN = frozenset(",:;")


@dataclass(frozen=True, slots=True)
class StorageFormat:
    """How Hive reads and writes a format, and what Spark calls it."""

    serde: str
    input_format: str
    output_format: str
    provider: str


# Spark has no class for JSON's SerDe and needs none: it reads these tables by its own reader.
STORAGES: Mapping[str, StorageFormat] = {
    "parquet": StorageFormat(
        "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat",
        "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat",
        "parquet",
    ),
    "orc": StorageFormat(
        "org.apache.hadoop.hive.ql.io.orc.OrcSerde",
        "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
        "org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
        "orc",
    ),
    "jsonl": StorageFormat(
        "org.apache.hive.hcatalog.data.JsonSerDe",
        "org.apache.hadoop.mapred.TextInputFormat",
        "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat",
        "json",
    ),
}


def hive_columns(schema: Schema) -> list[GrownColumn]:
    """Return the columns with Hive's types."""
    return [GrownColumn(field.name, hive_type(field.type)) for field in schema.fields]


def hive_type(data_type: DataType) -> str:
    """Return a type as Hive writes it. Its `timestamp` stands for both of ours."""
    match data_type:
        case Atom.TIMESTAMP_NTZ:
            return "timestamp"
        case Atom():
            return str(data_type.value).lower()
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return f"array<{hive_type(element)}>"
        case Map(key, value):
            return f"map<{hive_type(key)},{hive_type(value)}>"
        case Struct(fields):
            return f"struct<{','.join(f'{each.name}:{hive_type(each.type)}' for each in fields)}>"
        case _:
            assert_never(data_type)


def find_unfit(table: CatalogTable) -> list[str]:
    """Return a conflict for each name that Hive cannot hold."""
    fields = (*table.columns.fields, *table.partition_columns.fields)
    unfit = [
        f"a column of the metastore cannot be named {field.name!r}"
        for field in fields
        if _NOT_IN_COLUMN.intersection(field.name)
    ]
    return unfit + [
        f"in column {field.name}, Hive cannot name a part {name!r}"
        for field in fields
        for name in _struct_names(field.type)
        if not _STRUCT_FIELD.fullmatch(name)
    ]


def _struct_names(data_type: DataType) -> Iterable[str]:
    match data_type:
        case Array(element):
            yield from _struct_names(element)
        case Map(key, value):
            yield from _struct_names(key)
            yield from _struct_names(value)
        case Struct(fields):
            for field in fields:
                yield field.name
                yield from _struct_names(field.type)


def same_type(text: str) -> str:
    """Return a type as it is compared: without case and white space."""
    return re.sub(r"\s", "", text).lower()


def same_location(uri: str) -> tuple[str, str, str]:
    """Return a location as it is compared: `file:/a` is `file:///a/`."""
    match = re.fullmatch(r"([^:/]*):(?://([^/]*))?(/.*|)", uri)
    scheme, authority, path = match.groups() if match else ("", "", uri)
    return scheme, authority or "", path.rstrip("/")


# --- what Spark keeps ------------------------------------------------------------------------


def spark_properties(table: CatalogTable, comments: Mapping[str, str]) -> dict[str, str]:
    """Return the table properties by which Spark knows its own tables.

    Arguments:
        table: its columns are in the metastore's order.
        comments: of columns, by lower-case name.

    """
    fields = (*table.columns.fields, *table.partition_columns.fields)
    properties = {SPARK_PROVIDER: STORAGES[table.format].provider}
    if table.partition_columns.fields:
        # Otherwise Spark would look for partitions by listing the table's directories.
        properties["spark.sql.partitionProvider"] = "catalog"
        properties[f"{SPARK_SCHEMA}.numPartCols"] = str(len(table.partition_columns.fields))
    for index, name in enumerate(table.partition_columns.names):
        properties[f"{SPARK_SCHEMA}.partCol.{index}"] = name
    text = json.dumps(_spark_struct(fields, comments), separators=(",", ":"), ensure_ascii=False)
    return properties | _cut(SPARK_SCHEMA, text)


def _cut(key: str, text: str) -> dict[str, str]:
    if len(text) <= PROPERTY_LENGTH_MAX:
        return {key: text}
    starts = range(0, len(text), PROPERTY_LENGTH_MAX)
    parts = [text[start : start + PROPERTY_LENGTH_MAX] for start in starts]
    numbered = {f"{key}.part.{index}": part for index, part in enumerate(parts)}
    return {f"{key}.numParts": str(len(parts)), **numbered}


SparkJson = str | dict[str, object]

_SPARK_ATOMS = {
    Atom.TINYINT: "byte",
    Atom.SMALLINT: "short",
    Atom.INT: "integer",
    Atom.BIGINT: "long",
}


def _spark_struct(fields: Iterable[Field], comments: Mapping[str, str]) -> dict[str, object]:
    return {
        "type": "struct",
        "fields": [
            {
                "name": field.name,
                "type": _spark_type(field.type),
                "nullable": True,  # as Spark has it for all files: they may be older than a column
                "metadata": _metadata(comments.get(field.name.lower())),
            }
            for field in fields
        ],
    }


def _metadata(comment: str | None) -> dict[str, str]:
    return {"comment": comment} if comment else {}


def _spark_type(data_type: DataType) -> SparkJson:
    match data_type:
        case Atom():
            return _SPARK_ATOMS.get(data_type, data_type.value.lower())
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return {"type": "array", "elementType": _spark_type(element), "containsNull": True}
        case Map(key, value):
            return {
                "type": "map",
                "keyType": _spark_type(key),
                "valueType": _spark_type(value),
                "valueContainsNull": True,
            }
        case Struct(fields):
            return _spark_struct(fields, {})
        case _:
            assert_never(data_type)
