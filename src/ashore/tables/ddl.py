"""Schemas as users write them: Spark DDL.

What it is: a parser for `id BIGINT, tags ARRAY<STRING>, s STRUCT<a: INT>`, and what it yields.
What it promises: the names and aliases are Spark's; `parse_ddl(to_ddl(schema)) == schema`; what is
not understood is refused with its position. Names that differ only by case are refused, because
Hive cannot hold both.
"""

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeVar, assert_never

from ashore.base.suggest import suggest

T = TypeVar("T")

PRECISION_MAX = 38


class DdlError(ValueError):
    """A schema that cannot be parsed.

    `reason`: why, without the place. `position`: the character, from 0. `instead`: what to write.
    """

    def __init__(self, reason: str, position: int, instead: str = "") -> None:
        super().__init__(f"{reason} (at character {position + 1})")
        self.reason = reason
        self.position = position
        self.instead = instead


class Atom(Enum):
    """A type without parts."""

    BOOLEAN = "BOOLEAN"
    TINYINT = "TINYINT"
    SMALLINT = "SMALLINT"
    INT = "INT"
    BIGINT = "BIGINT"
    FLOAT = "FLOAT"
    DOUBLE = "DOUBLE"
    STRING = "STRING"
    BINARY = "BINARY"
    DATE = "DATE"
    TIMESTAMP = "TIMESTAMP"  # an instant
    TIMESTAMP_NTZ = "TIMESTAMP_NTZ"  # what a clock on a wall shows, in no zone


@dataclass(frozen=True, slots=True)
class Decimal:
    """Exactly `precision` digits, `scale` of them after the point."""

    precision: int
    scale: int


@dataclass(frozen=True, slots=True)
class Array:
    """A list. Its elements may be null."""

    element: "DataType"


@dataclass(frozen=True, slots=True)
class Map:
    """Keys to values. Values may be null."""

    key: "DataType"
    value: "DataType"


@dataclass(frozen=True, slots=True)
class Field:
    """A named column, or a named part of a struct."""

    name: str
    type: "DataType"
    nullable: bool = True


@dataclass(frozen=True, slots=True)
class Struct:
    """Named parts."""

    fields: tuple[Field, ...]


DataType = Atom | Decimal | Array | Map | Struct


# Ids by which files name their fields: a path, as `a`, `a.b`, `list.element`, `map.key`; its id.
FieldIds = tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    fields: tuple[Field, ...]

    @property
    def names(self) -> list[str]:
        """The names of the columns, in order."""
        return [field.name for field in self.fields]


_NAMED = {atom.value: atom for atom in Atom} | {
    "BYTE": Atom.TINYINT,
    "SHORT": Atom.SMALLINT,
    "INTEGER": Atom.INT,
    "LONG": Atom.BIGINT,
    "REAL": Atom.FLOAT,
    "TIMESTAMP_LTZ": Atom.TIMESTAMP,
}
_DECIMAL_NAMES = ("DECIMAL", "DEC", "NUMERIC")
_TYPES = ", ".join([*(atom.value for atom in Atom), "DECIMAL(p,s), ARRAY<>, MAP<,>, STRUCT<>"])

_KNOWN = (*_NAMED, *_DECIMAL_NAMES, "ARRAY", "MAP", "STRUCT")
_OF_SPARK = frozenset({"VARCHAR", "CHAR", "CHARACTER", "INTERVAL", "VARIANT", "VOID", "TIME"})
_NANOSECONDS = frozenset({"TIMESTAMP_NS", "TIMESTAMPTZ_NS"})  # of Iceberg, DuckDB
_MICROSECONDS = "times have microseconds"
# Types of Spark that files of a table do not have, and of other databases.
_MEANT = {
    **dict.fromkeys(("VARCHAR", "CHAR", "CHARACTER", "TEXT", "NVARCHAR", "STR"), "STRING"),
    **dict.fromkeys(("UUID", "JSON", "JSONB", "VARIANT", "ENUM", "TIME"), "STRING"),
    **dict.fromkeys(("INT64", "UINT32", "BIGSERIAL"), "BIGINT"),
    **dict.fromkeys(("INT32", "UINT16", "SERIAL", "MEDIUMINT"), "INT"),
    **dict.fromkeys(("FLOAT64", "NUMBER"), "DOUBLE"),
    **dict.fromkeys(("BYTES", "BLOB", "BYTEA", "VARBINARY"), "BINARY"),
    "INT16": "SMALLINT",
    "INT8": "TINYINT",
    "UINT64": "DECIMAL(20,0)",
    "FLOAT32": "FLOAT",
    "BOOL": "BOOLEAN",
    "DATETIME": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "LIST": "ARRAY<TYPE>",
    "RECORD": "STRUCT<name: TYPE>",
    "ROW": "STRUCT<name: TYPE>",
}

_TOKEN = re.compile(
    r"""\s*(?:
      (?P<quoted>`(?:[^`]|``)+`)
    | (?P<word>\w+)
    | (?P<text>'(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*")
    | (?P<sign>[<>(),:])
    | (?P<end>\Z)
    )""",
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    position: int


def _tokenize(text: str) -> list[_Token]:
    tokens = []
    position = 0
    while True:
        match = _TOKEN.match(text, position)
        if match is None or match.lastgroup is None:
            start = len(text) - len(text[position:].lstrip())
            raise DdlError(f"{text[start]!r} is not expected here", start)
        kind = match.lastgroup
        tokens.append(_Token(kind, match[kind], match.start(kind)))
        if kind == "end":
            return tokens
        position = match.end()


class _Parser:
    """Recursive descent over the tokens; each `read_` consumes what it names."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokenize(text)
        self._next = 0

    @property
    def _token(self) -> _Token:
        return self._tokens[self._next]

    def _fail(self, expected: str, instead: str = "") -> DdlError:
        found = "the end" if self._token.kind == "end" else repr(self._token.text)
        return DdlError(f"{expected}, got {found}", self._token.position, instead)

    def _not_a_type(self, name: str) -> DdlError:
        if name in _NANOSECONDS:
            reason = f"{name} is not supported as a type of a column: {_MICROSECONDS}"
            near = "write TIMESTAMP, or BIGINT where a record has the number of nanoseconds"
            return DdlError(reason, self._token.position, near)
        meant = _MEANT.get(name)
        near = f"write {meant}" if meant else suggest(name, _KNOWN, f"the types are {_TYPES}")
        of_spark = name in _OF_SPARK
        reason = f"{name} is not supported as" if of_spark else f"{self._token.text!r} is not"
        return DdlError(f"{reason} a type of a column", self._token.position, near)

    def _take(self) -> _Token:
        token = self._token
        self._next += 1
        return token

    def _take_if(self, text: str) -> bool:
        if self._token.kind in ("word", "sign") and self._token.text.upper() == text:
            self._next += 1
            return True
        return False

    def _expect(self, text: str) -> None:
        if not self._take_if(text):
            raise self._fail(f"expected {text!r}")

    def read_schema(self) -> Schema:
        fields = self._read_fields()
        if self._token.kind != "end":
            raise self._fail("expected ',' or the end")
        return Schema(fields)

    def _read_fields(self) -> tuple[Field, ...]:
        fields: list[Field] = []
        seen: set[str] = set()
        while True:
            position = self._token.position
            field = self._read_field()
            if field.name.lower() in seen:
                raise DdlError(f"column {field.name!r} appears twice", position)
            seen.add(field.name.lower())
            fields.append(field)
            if not self._take_if(","):
                return tuple(fields)

    def _read_field(self) -> Field:
        if self._token.kind not in ("word", "quoted"):
            raise self._fail("expected a column name")
        token = self._take()
        name = token.text
        if token.kind == "quoted":
            name = name[1:-1].replace("``", "`")
        self._take_if(":")
        data_type = self._read_type()
        nullable = True
        if self._take_if("NOT"):
            self._expect("NULL")
            nullable = False
        if self._take_if("COMMENT"):
            if self._token.kind != "text":
                raise self._fail("expected a quoted comment")
            self._take()
        return Field(name, data_type, nullable)

    def _read_type(self) -> DataType:
        if self._token.kind != "word":
            raise self._fail("expected a type", f"the types are {_TYPES}")
        name = self._token.text.upper()
        if name in _NAMED:
            self._take()
            if name.startswith("TIMESTAMP") and self._token.text == "(":
                reason = f"{name} takes no precision: {_MICROSECONDS}"
                raise DdlError(reason, self._token.position, f"write {name}")
            return _NAMED[name]
        if name in _DECIMAL_NAMES:
            self._take()
            return self._read_decimal()
        match name:
            case "ARRAY":
                self._take()
                return Array(self._in_angles(self._read_type))
            case "MAP":
                self._take()
                return self._in_angles(self._read_map)
            case "STRUCT":
                self._take()
                return Struct(self._in_angles(self._read_fields))
            case _:
                raise self._not_a_type(name)

    def _in_angles(self, read: Callable[[], T]) -> T:
        self._expect("<")
        value = read()
        self._expect(">")
        return value

    def _read_map(self) -> Map:
        key = self._read_type()
        self._expect(",")
        return Map(key, self._read_type())

    def _read_decimal(self) -> Decimal:
        position = self._token.position
        precision, scale = 10, 0  # what Spark and Hive mean by a bare DECIMAL
        if self._take_if("("):
            precision = self._read_number()
            scale = self._read_number() if self._take_if(",") else 0
            self._expect(")")
        if not 1 <= precision <= PRECISION_MAX or scale > precision:
            raise DdlError(
                f"DECIMAL({precision},{scale}) is not possible: "
                f"precision is 1 to {PRECISION_MAX}, scale 0 to precision",
                position,
            )
        return Decimal(precision, scale)

    def _read_number(self) -> int:
        if not re.fullmatch(r"[0-9]{1,4}", self._token.text):
            raise self._fail("expected a number")
        return int(self._take().text)


@functools.lru_cache(maxsize=1_024)
def parse_ddl(text: str) -> Schema:
    """Return the schema that `text` says. Raises DdlError."""
    return _Parser(text).read_schema()


def to_ddl(schema: Schema) -> str:
    """Return DDL that Spark, Hive and `parse_ddl` read as this schema."""
    return ", ".join(_field_ddl(field, " ") for field in schema.fields)


def _field_ddl(field: Field, separator: str) -> str:
    name = field.name
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        name = "`" + name.replace("`", "``") + "`"
    return f"{name}{separator}{type_ddl(field.type)}{'' if field.nullable else ' NOT NULL'}"


def type_ddl(data_type: DataType) -> str:
    """Return one type as DDL, as a catalog expects it."""
    match data_type:
        case Atom():
            return data_type.value
        case Decimal(precision, scale):
            return f"DECIMAL({precision},{scale})"
        case Array(element):
            return f"ARRAY<{type_ddl(element)}>"
        case Map(key, value):
            return f"MAP<{type_ddl(key)}, {type_ddl(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(_field_ddl(field, ': ') for field in fields)}>"
        case _:
            assert_never(data_type)


JSON, JSON_WHOLE = "json", "json_whole"  # values of `decode`


def is_json(decode: str) -> bool:
    """Return whether values are JSON objects, by the `decode` of a job file."""
    return decode in {JSON, JSON_WHOLE}


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
