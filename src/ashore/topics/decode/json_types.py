"""Which schemas JSON can hold, and which of them decode slowly.

What it is: questions to the types of a schema, for the checks of a job file.
"""

from ashore.tables.ddl import Array, Atom, DataType, Map, Schema, Struct


def json_supports(schema: Schema) -> list[str]:
    """Return the columns that JsonDecoder does not take: maps whose keys are not STRING.

    An empty list means that the schema is supported. JSON has no such keys.
    """
    return [field.name for field in schema.fields if not has_text_keys(field.type)]


def json_slow_columns(schema: Schema) -> list[str]:
    """Return the columns that Python rewrites record by record: those that hold a MAP.

    A schema with such a column decodes about ten times slower.
    """
    return [field.name for field in schema.fields if has_map(field.type)]


def has_map(data_type: DataType) -> bool:
    """Whether a value of this type holds a map at any depth."""
    match data_type:
        case Map():
            return True
        case Array(element):
            return has_map(element)
        case Struct(fields):
            return any(has_map(field.type) for field in fields)
        case _:
            return False


def has_text_keys(data_type: DataType) -> bool:
    """Whether all maps of a type, at any depth, have STRING keys: JSON has no others."""
    match data_type:
        case Map(key, value):
            return key is Atom.STRING and has_text_keys(value)
        case Array(element):
            return has_text_keys(element)
        case Struct(fields):
            return all(has_text_keys(field.type) for field in fields)
        case _:
            return True
