"""The columns of the source `ashore`.

What it is: `RowShape`, which columns a stream hands over and how values are decoded; its DDL.
What it promises: pure. Each record is one row. Its values are in the struct `decoded`, so that no
column of a schema meets one of the record; everything in it is nullable, as `from_json` has it.
"""

import json
from dataclasses import dataclass

from ashore.log.tables import HEADERS_TYPE
from ashore.tables.ddl import Array, DataType, Field, Map, Schema, Struct, to_ddl, type_ddl
from ashore.tables.masks import Mask

DECODED = "decoded"
REASON = "reason"
HEADERS = "headers"
COLUMNS = {
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "key": "BINARY",
    "value": "BINARY",
    HEADERS: HEADERS_TYPE,
    DECODED: "",
    REASON: "STRING",
}
DEFAULT_COLUMNS = tuple(name for name in COLUMNS if name != HEADERS)


@dataclass(frozen=True, slots=True)
class RowShape:
    """How records become rows.

    Arguments:
        decode: json | json_whole | text | bytes.
        schema: of the values; each record is judged by all of it.
        fields: the columns of the schema that are handed over; None: all.
        columns: of COLUMNS, those that are handed over.
        keeps_values: whether each row has the bytes of its record; else only invalid records do.
        mask: columns of the schema that are masked, with the form of each. Then no row has bytes
            of its record: not its value, its key, or its headers.

    """

    decode: str
    schema: Schema
    fields: tuple[str, ...] | None
    columns: tuple[str, ...]
    keeps_values: bool
    mask: Mask = ()

    @property
    def handed_over(self) -> Schema:
        """The columns in `decoded`."""
        fields = self.schema.fields
        if self.fields is not None:
            fields = tuple(each for each in fields if each.name in self.fields)
        return Schema(tuple(_as_nullable(each) for each in fields))

    @property
    def ddl(self) -> str:
        """The columns of the rows."""
        types = {**COLUMNS, DECODED: type_ddl(Struct(self.handed_over.fields))}
        return ", ".join(f"{name} {types[name]}" for name in self.columns)

    def write_options(self) -> dict[str, str]:
        """Return the options of the source that ask for such rows."""
        fields = {} if self.fields is None else {"fields": json.dumps(self.fields)}
        mask = {"mask": json.dumps(dict(self.mask))} if self.mask else {}
        return {
            "decode": self.decode,
            "schema": to_ddl(self.schema),
            "columns": " ".join(self.columns),
            "values": "all" if self.keeps_values else "invalid",
            **fields,
            **mask,
        }


def _as_nullable(field: Field) -> Field:
    return Field(field.name, _nullable_type(field.type))


def _nullable_type(data_type: DataType) -> DataType:
    match data_type:
        case Array(element):
            return Array(_nullable_type(element))
        case Map(key, value):
            return Map(key, _nullable_type(value))
        case Struct(fields):
            return Struct(tuple(_as_nullable(each) for each in fields))
        case _:
            return data_type
