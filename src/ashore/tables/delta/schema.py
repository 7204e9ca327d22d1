"""Columns and protocol of a table, as Delta has them.

What it is: Delta's schema of a `CatalogTable`; what an existing table lacks, or contradicts; which
features of the protocol this release knows.
What it promises: a table of a feature that is not known is refused, with its name, before anything
is written: the protocol forbids to write it.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, Map, Struct, type_ddl

Json = dict[str, Any]

RETENTION = "delta.setTransactionRetentionDuration"
FEATURE_READER, FEATURE_WRITER = 3, 7  # versions of the protocol from which features have names
READER_MAX, WRITER_MAX = 1, 2  # known ones, of those that have none
_NTZ = "timestampNtz"
_KNOWN = {_NTZ, "appendOnly", "invariants", "variantType"}  # the last: delta-rs adds it unasked
_UNFIT = frozenset(" ,;{}()\n\t=")  # no column has them in its name, without a mapping of columns
_NAMES: dict[Atom, str] = {
    Atom.BOOLEAN: "boolean",
    Atom.TINYINT: "byte",
    Atom.SMALLINT: "short",
    Atom.INT: "integer",
    Atom.BIGINT: "long",
    Atom.FLOAT: "float",
    Atom.DOUBLE: "double",
    Atom.STRING: "string",
    Atom.BINARY: "binary",
    Atom.DATE: "date",
    Atom.TIMESTAMP: "timestamp",
    Atom.TIMESTAMP_NTZ: "timestamp_ntz",
}


def table_fields(table: CatalogTable) -> tuple[Field, ...]:
    """Return the columns of a table: those of its files first, then those of partitions."""
    return (*table.columns.fields, *table.partition_columns.fields)


def new_metadata(table: CatalogTable, table_id: str, now_ms: int) -> Json:
    """Return the metadata of a new table."""
    return {
        "id": table_id,
        "name": table.full_name,
        "format": {"provider": "parquet", "options": {}},
        "schemaString": _encode([delta_field(each) for each in table_fields(table)]),
        "partitionColumns": table.partition_columns.names,
        "configuration": {"ashore.owner": table.job},
        "createdTime": now_ms,
    }


def new_protocol(table: CatalogTable) -> Json:
    """Return the protocol of a new table: the lowest one that has its types."""
    if not any(has_ntz(each.type) for each in table_fields(table)):
        return {"minReaderVersion": READER_MAX, "minWriterVersion": WRITER_MAX}
    return {
        "minReaderVersion": FEATURE_READER,
        "minWriterVersion": FEATURE_WRITER,
        "readerFeatures": [_NTZ],
        "writerFeatures": [_NTZ],
    }


def has_ntz(data_type: DataType) -> bool:
    """Return whether a type needs the feature `timestampNtz`."""
    match data_type:
        case Array(element):
            return has_ntz(element)
        case Map(key, value):
            return has_ntz(key) or has_ntz(value)
        case Struct(fields):
            return any(has_ntz(each.type) for each in fields)
        case _:
            return data_type is Atom.TIMESTAMP_NTZ


def delta_field(field: Field) -> Json:
    """Return a column. It may be null, as in every table format."""
    return {"name": field.name, "type": delta_type(field.type), "nullable": True, "metadata": {}}


def delta_type(data_type: DataType) -> str | Json:
    """Return a type as a schema of Delta has it."""
    match data_type:
        case Decimal(precision, scale):
            return f"decimal({precision},{scale})"
        case Array(element):
            return {"type": "array", "elementType": delta_type(element), "containsNull": True}
        case Map(key, value):
            return {
                "type": "map",
                "keyType": delta_type(key),
                "valueType": delta_type(value),
                "valueContainsNull": True,
            }
        case Struct(fields):
            return {"type": "struct", "fields": [delta_field(each) for each in fields]}
        case Atom():
            return _NAMES[data_type]


def find_unknown(protocol: Mapping[str, Any]) -> Iterator[str]:
    """Yield why this release cannot write a table with a protocol, in words."""
    for side, highest, named in (
        ("Reader", READER_MAX, FEATURE_READER),
        ("Writer", WRITER_MAX, FEATURE_WRITER),
    ):
        version = int(protocol[f"min{side}Version"])
        features = {*(protocol.get(f"{side.lower()}Features") or ())}
        if version == named and features <= _KNOWN:
            continue
        if version == named:
            yield f"it has the {side.lower()} features {', '.join(sorted(features - _KNOWN))}"
        elif version > highest:
            yield f"its min{side}Version is {version}"


def find_conflicts(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], table: CatalogTable
) -> Iterator[str]:
    """Yield what an existing table has otherwise than `table`, in words; missing columns apart."""
    yield from find_unknown(protocol)
    if RETENTION in (metadata.get("configuration") or {}):
        yield f"its property {RETENTION} would drop the marks of the job"
    expected = {each.name: each for each in table_fields(table)}
    for column in fields_of(metadata):
        field = expected.get(column["name"])
        if not column.get("nullable", True):
            yield f"column {column['name']} is NOT NULL, which this release does not check"
        elif field is not None and _shape(column["type"]) != _shape(delta_type(field.type)):
            yield f"column {field.name} is {_spell(column['type'])}, not {type_ddl(field.type)}"
    there, here = [*metadata["partitionColumns"]], table.partition_columns.names
    if there != here:
        yield (
            f"it is partitioned by ({', '.join(there)}), new files would be by ({', '.join(here)})"
        )
    yield from _find_unfit(metadata, protocol, table)


def _find_unfit(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], table: CatalogTable
) -> Iterator[str]:
    for field in table_fields(table):
        if _UNFIT & {*field.name}:
            yield f"Delta has no columns of the name `{field.name}`"
    if any(has_ntz(each.type) for each in find_missing(metadata, table)) and _NTZ not in (
        protocol.get("writerFeatures") or ()
    ):
        yield f"a column of TIMESTAMP_NTZ needs its feature {_NTZ}"


def find_missing(metadata: Mapping[str, Any], table: CatalogTable) -> tuple[Field, ...]:
    """Return the columns of `table` that an existing table lacks."""
    known = {each["name"] for each in fields_of(metadata)}
    return tuple(each for each in table.columns.fields if each.name not in known)


def with_columns(metadata: Json, columns: tuple[Field, ...]) -> Json:
    """Return metadata with columns added, before those of partitions."""
    fields, partitions = fields_of(metadata), {*metadata["partitionColumns"]}
    first = [each for each in fields if each["name"] not in partitions]
    last = [each for each in fields if each["name"] in partitions]
    added = [delta_field(each) for each in columns]
    return {**metadata, "schemaString": _encode([*first, *added, *last])}


def fields_of(metadata: Mapping[str, Any]) -> list[Json]:
    """Return the columns of an existing table."""
    fields: list[Json] = json.loads(metadata["schemaString"])["fields"]
    return fields


def _encode(fields: list[Json]) -> str:
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False)


def _shape(data_type: str | Json) -> object:
    """Return a type without what does not matter to a reader: comments, and what may be null."""
    if isinstance(data_type, str):
        return data_type
    match data_type["type"]:
        case "struct":
            return [(each["name"], _shape(each["type"])) for each in data_type["fields"]]
        case "array":
            return "array", _shape(data_type["elementType"])
        case "map":
            return "map", _shape(data_type["keyType"]), _shape(data_type["valueType"])
        case other:
            return other, json.dumps(data_type)


def _spell(data_type: str | Json) -> str:
    return data_type if isinstance(data_type, str) else json.dumps(data_type)
