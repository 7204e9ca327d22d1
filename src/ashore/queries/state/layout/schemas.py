"""The schemas of a state store: what its keys and values are called, and their types.

What it is: the files `_metadata/schema` (of v2, and v1 of old releases) and `_stateSchema/<store>/
<batch>_<id>` (of v3).
What it promises: any bytes give a value or CheckpointUnfit. Written with what may be NULL, a file
keeps all else that it says.

Strings are Java's: two bytes of length, then modified UTF-8. A schema that is too long for one is
cut into several, after their number in four bytes.

    v2    "v2", key, value
    v3    "v3", how many column families; of each: its name, number and schema of the key, number
          and schema of the value, how keys are encoded, what the user's state is
"""

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout.logs import Wrong, unfit

_PARTS_MAX = 1 << 16
_PART = 8_000  # characters of a string: of up to six bytes, in surrogates
_NULLS = {"nullable", "containsNull", "valueContainsNull"}


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A column of state."""

    name: str
    type: str  # as Spark's JSON names it; of a nested one its JSON
    is_nullable: bool


@dataclass(frozen=True, slots=True)
class StoreSchema:
    """What a store, or one of its column families, holds."""

    family: str  # its name; `default` where the store has only one
    key: tuple[SchemaField, ...]
    value: tuple[SchemaField, ...]


def parse_schemas(data: bytes, place: str) -> tuple[StoreSchema, ...]:
    """Return the schemas of a store, at least one. Raises CheckpointUnfit."""
    reader = _Reader(data, place)
    try:
        match reader.read_text():
            case "v1":
                found: tuple[StoreSchema, ...] = (_read_old(reader),)
            case "v2":
                key, value = reader.read_long(), reader.read_long()
                found = (_schema("default", key, value, place),)
            case "v3":
                count = reader.read_number()
                found = tuple(_read_family(reader) for _ in range(min(count, _PARTS_MAX)))
            case other:
                text = f"{place} begins with {other[:20]!r}, v1, v2 and v3 are known"
                raise unfit(Wrong.OTHER_VERSION, text)
    except (struct.error, UnicodeDecodeError, IndexError):
        raise unfit(Wrong.OTHER_CONTENT, f"{place} is not a schema of a state store") from None
    if not found or reader.at != len(data):
        raise unfit(Wrong.OTHER_CONTENT, f"{place} is not a schema of a state store")
    return found


def with_nulls(data: bytes, place: str) -> bytes:
    """Return the schemas of a store in which each value may be NULL; v1 stays as it is.

    Spark lets such a store be read by any plan that has the same types. Raises CheckpointUnfit.
    """
    parse_schemas(data, place)
    reader = _Reader(data, place)
    version = reader.read_text()
    if version == "v1":
        return data
    found = [_text(version)]
    if version == "v2":
        found += [_long(_loosened(reader.read_long())) for _ in ("key", "value")]
        return b"".join(found)
    count = reader.read_number()
    found.append(struct.pack(">i", count))
    for _ in range(count):
        found.append(_text(reader.read_text()))
        for _ in ("key", "value"):
            found.append(struct.pack(">H", reader.read_short()))
            found.append(_long(_loosened(reader.read_long())))
        found += [_long(reader.read_long()) for _ in ("how keys are encoded", "the user's state")]
    return b"".join(found)


@dataclass(slots=True)
class _Reader:
    data: bytes
    place: str
    at: int = 0

    def read_number(self) -> int:
        found = struct.unpack_from(">i", self.data, self.at)[0]
        self.at += 4
        return int(found)

    def read_short(self) -> int:
        found = struct.unpack_from(">H", self.data, self.at)[0]
        self.at += 2
        return int(found)

    def read_text(self) -> str:
        length = self.read_short()
        if self.at + length > len(self.data):
            raise IndexError(length)
        found = self.data[self.at : self.at + length]
        self.at += length
        # Java writes what is beyond the 16-bit plane as two surrogates, and NUL as two bytes.
        text = found.replace(b"\xc0\x80", b"\0").decode("utf-8", "surrogatepass")
        return text.encode("utf-16", "surrogatepass").decode("utf-16")

    def read_long(self) -> str:
        count = self.read_number()
        if not 0 <= count <= _PARTS_MAX:
            raise IndexError(count)
        return "".join(self.read_text() for _ in range(count))


def _long(text: str) -> bytes:
    """Return a text that may be too long for one string, as Java writes it."""
    parts = [text[at : at + _PART] for at in range(0, len(text), _PART)] or [""]
    return b"".join([struct.pack(">i", len(parts)), *map(_text, parts)])


def _text(text: str) -> bytes:
    units = text.encode("utf-16-le", "surrogatepass")
    halves = (units[at : at + 2] for at in range(0, len(units), 2))
    found = b"".join(
        b"\xc0\x80"
        if half == b"\0\0"
        else half.decode("utf-16-le", "surrogatepass").encode("utf-8", "surrogatepass")
        for half in halves
    )
    return struct.pack(">H", len(found)) + found


def _loosened(text: str) -> str:
    """Return the JSON of a schema in which each value may be NULL, down to the innermost."""
    return json.dumps(_with_nulls(json.loads(text)), separators=(",", ":"), ensure_ascii=False)


def _with_nulls(kind: object) -> object:
    match kind:
        case dict():
            return {
                name: True if name in _NULLS else each if name == "metadata" else _with_nulls(each)
                for name, each in kind.items()
            }
        case list():
            return [_with_nulls(each) for each in kind]
        case _:
            return kind


def _read_old(reader: _Reader) -> StoreSchema:
    key, value = reader.read_text(), reader.read_text()
    return _schema("default", key, value, reader.place)


def _read_family(reader: _Reader) -> StoreSchema:
    name = reader.read_text()
    reader.read_short()
    key = reader.read_long()
    reader.read_short()
    value = reader.read_long()
    reader.read_long()  # how keys are encoded
    reader.read_long()  # what the user's state is
    return _schema(name, key, value, reader.place)


def _schema(family: str, key: str, value: str, place: str) -> StoreSchema:
    return StoreSchema(family, _columns(key, place), _columns(value, place))


def _columns(text: str, place: str) -> tuple[SchemaField, ...]:
    wrong = unfit(Wrong.OTHER_CONTENT, f"{place} has a schema that is not Spark's")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise wrong from None
    fields = document.get("fields") if isinstance(document, dict) else None
    if not isinstance(fields, list):
        raise wrong
    return tuple(_column(each, wrong) for each in fields)


def _column(value: object, wrong: CheckpointUnfit) -> SchemaField:
    match value:
        case {"name": str(name), "type": kind, "nullable": bool(is_nullable), **_other}:
            return SchemaField(name, _name_type(kind), is_nullable)
        case _:
            raise wrong


def _name_type(kind: object) -> str:
    """Return a type as Spark's SQL names it, where it is not too deep."""
    match kind:
        case str(name):
            return name
        case {"type": "struct", "fields": list(fields)}:
            inner = (
                f"{each.get('name')}: {_name_type(each.get('type'))}"
                for each in fields
                if isinstance(each, Mapping)
            )
            return f"struct<{', '.join(inner)}>"
        case {"type": "array", "elementType": element}:
            return f"array<{_name_type(element)}>"
        case {"type": "map", "keyType": key, "valueType": value}:
            return f"map<{_name_type(key)}, {_name_type(value)}>"
        case {"type": "udt", "sqlType": inner}:
            return _name_type(inner)
        case _:
            return json.dumps(kind, separators=(",", ":"))
