"""Schemas as Arrow has them.

What it is: from the types of `ddl` to those that decoded tables and files hold.
"""

from typing import assert_never

import pyarrow as pa

from ashore.tables.ddl import Array, Atom, DataType, Decimal, Field, FieldIds, Map, Schema, Struct

_ARROW: dict[Atom, pa.DataType] = {
    Atom.BOOLEAN: pa.bool_(),
    Atom.TINYINT: pa.int8(),
    Atom.SMALLINT: pa.int16(),
    Atom.INT: pa.int32(),
    Atom.BIGINT: pa.int64(),
    Atom.FLOAT: pa.float32(),
    Atom.DOUBLE: pa.float64(),
    Atom.STRING: pa.string(),
    Atom.BINARY: pa.binary(),
    Atom.DATE: pa.date32(),
    Atom.TIMESTAMP: pa.timestamp("us", "UTC"),
    Atom.TIMESTAMP_NTZ: pa.timestamp("us"),
}


def to_arrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of the columns."""
    return pa.schema([arrow_field(field) for field in schema.fields])


def arrow_field(field: Field) -> pa.Field:
    """Return one column as an Arrow field."""
    return pa.field(field.name, arrow_type(field.type), nullable=field.nullable)


def arrow_type(data_type: DataType) -> pa.DataType:
    """Return the Arrow type that files and decoded tables hold."""
    match data_type:
        case Atom():
            return _ARROW[data_type]
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
        case Array(element):
            # Spark and Hive look for the name `element` below `list`.
            return pa.list_(pa.field("element", arrow_type(element)))
        case Map(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case Struct(fields):
            return pa.struct([arrow_field(field) for field in fields])
        case _:
            assert_never(data_type)


def with_field_ids(schema: pa.Schema, ids: FieldIds) -> pa.Schema:
    """Return a schema whose fields have ids in Parquet files; none: as it is.

    `ids`: of every field of the schema, and perhaps of more.
    """
    if not ids:
        return schema
    numbers = dict(ids)
    return pa.schema([_with_id(each, each.name, numbers) for each in schema])


def _with_id(field: pa.Field, path: str, ids: dict[str, int]) -> pa.Field:
    metadata = {"PARQUET:field_id": str(ids[path])}
    return pa.field(field.name, _with_ids(field.type, path, ids), field.nullable, metadata)


def _with_ids(data_type: pa.DataType, path: str, ids: dict[str, int]) -> pa.DataType:
    if pa.types.is_struct(data_type):
        return pa.struct([_with_id(each, f"{path}.{each.name}", ids) for each in data_type])
    if pa.types.is_list(data_type):
        return pa.list_(_with_id(data_type.value_field, f"{path}.element", ids))
    if pa.types.is_map(data_type):
        key = _with_id(data_type.key_field, f"{path}.key", ids)
        return pa.map_(key, _with_id(data_type.item_field, f"{path}.value", ids))
    return data_type
