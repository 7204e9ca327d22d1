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

_NUMBERS = ("byte", "short", "integer", "long", "float", "double")
_WIDER = {("byte", "short"), ("byte", "integer"), ("short", "integer")}
_PARTS = {"array": ("elementType",), "map": ("valueType",)}


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
            yield (
                f"column {column['name']} is NOT NULL, which this release does not check: "
                f"ALTER TABLE ... ALTER COLUMN {column['name']} DROP NOT NULL"
            )
        elif field is not None and _grow(column["type"], delta_type(field.type)) is None:
            yield _refuse_type(column["type"], field)
    there, here = [*metadata["partitionColumns"]], table.partition_columns.names
    if there != here:
        yield (
            f"it is partitioned by ({', '.join(there)}), new files would be by ({', '.join(here)})"
        )
    yield from _find_unfit(metadata, protocol, table)


def _find_unfit(
    metadata: Mapping[str, Any], protocol: Mapping[str, Any], table: CatalogTable
) -> Iterator[str]:
    known = {each["name"].casefold(): each["name"] for each in fields_of(metadata)}
    for field in table_fields(table):
        if _UNFIT & {*field.name}:
            yield f"Delta has no columns of the name `{field.name}`"
        there = known.get(field.name.casefold(), field.name)
        if there != field.name:
            yield f"columns {there} and {field.name} differ in case only"
    if any(has_ntz(each.type) for each in find_missing(metadata, table)) and _NTZ not in (
        protocol.get("writerFeatures") or ()
    ):
        yield f"a column of TIMESTAMP_NTZ needs its feature {_NTZ}"


def find_missing(metadata: Mapping[str, Any], table: CatalogTable) -> tuple[Field, ...]:
    """Return the columns of `table` that an existing table lacks, or has with a lesser type."""
    known = {each["name"]: each["type"] for each in fields_of(metadata)}
    return tuple(
        each
        for each in table.columns.fields
        if each.name not in known
        or _grow(known[each.name], delta_type(each.type)) not in (None, known[each.name])
    )


def with_columns(metadata: Json, columns: tuple[Field, ...]) -> Json:
    """Return metadata with columns added, before those of partitions, or with a larger type."""
    by_name, partitions = {each.name: each for each in columns}, {*metadata["partitionColumns"]}
    fields = []
    for each in fields_of(metadata):
        field = by_name.pop(each["name"], None)
        grown = _grow(each["type"], delta_type(field.type)) if field else each["type"]
        fields.append({**each, "type": grown})
    first = [each for each in fields if each["name"] not in partitions]
    last = [each for each in fields if each["name"] in partitions]
    added = [delta_field(each) for each in by_name.values()]
    return {**metadata, "schemaString": _encode([*first, *added, *last])}


def fields_of(metadata: Mapping[str, Any]) -> list[Json]:
    """Return the columns of an existing table."""
    fields: list[Json] = json.loads(metadata["schemaString"])["fields"]
    return fields


def _encode(fields: list[Json]) -> str:
    return json.dumps({"type": "struct", "fields": fields}, ensure_ascii=False)


def _grow(there: str | Json, here: str | Json) -> str | Json | None:
    """Return the type of a column that is to hold another type too; None: Delta has none.

    Without its features Delta widens the integers that Parquet has alike, and takes new fields of
    structs.
    """
    if isinstance(there, str) or isinstance(here, str):
        return here if there == here or (there, here) in _WIDER else None
    if there["type"] != here["type"]:
        return None
    if there["type"] == "struct":
        return _grow_struct(there, here)
    grown = {key: _grow(there[key], here[key]) for key in _PARTS[there["type"]]}
    is_same_key = there.get("keyType") == here.get("keyType")
    return None if None in grown.values() or not is_same_key else {**there, **grown}


def _grow_struct(there: Json, here: Json) -> Json | None:
    by_name = {each["name"]: each for each in here["fields"]}
    fields = []
    for each in there["fields"]:
        field = by_name.pop(each["name"], None)
        grown = _grow(each["type"], field["type"]) if field else None
        if grown is None:
            return None
        fields.append({**each, "type": grown})
    return {**there, "fields": [*fields, *by_name.values()]}


def _refuse_type(there: str | Json, field: Field) -> str:
    text = f"column {field.name} is {_spell(there)}, not {type_ddl(field.type)}"
    if isinstance(there, str) and there in _NUMBERS and delta_type(field.type) in _NUMBERS:
        text += "; without its feature typeWidening Delta widens TINYINT and SMALLINT only, to INT"
    return text


def _spell(data_type: str | Json) -> str:
    return data_type if isinstance(data_type, str) else json.dumps(data_type)
