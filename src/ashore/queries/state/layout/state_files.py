"""What the files of state say, beside rows: operators, schemas, snapshots.

What it is: `OperatorFile`, the files `_metadata/metadata`, for all batches, and
`_metadata/v2/<batch>`, from that batch on; `StoreSchema`, the files `_metadata/schema` (of v2, and
v1 of old releases) and `_stateSchema/<store>/<batch>_<id>` (of v3); `SnapshotFile`, the file
`metadata` in the archive `<version>.zip`.
What it promises: any bytes give a value or CheckpointUnfit. An operator written again is the same
as in Spark 4.2, byte for byte; a schema written with what may be NULL keeps all else that it says.

An operator. It knows a schema by its name: the file has absolute paths, which are wrong as soon as
a checkpoint was moved. A file of v2 has two keys more: `operatorPropertiesJson`, a text, and for
each store `stateSchemaFilePaths`, such as `["file:/data/ck/state/0/_stateSchema/default/0_<id>"]`.

    v1
    {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
     "stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}

A schema. Strings are Java's: two bytes of length, then modified UTF-8. A schema that is too long
for one is cut into several, after their number in four bytes.

    v2    "v2", key, value
    v3    "v3", how many column families; of each: its name, number and schema of the key, number
          and schema of the value, how keys are encoded, what the user's state is

A snapshot of RocksDB: which tables it is made of, and how many rows it holds.

    v1
    {"sstFiles":[{"localFileName":"000012.sst","dfsSstFileName":"000012-<id>.sst", ...}], ...}
"""

import io
import json
import lzma
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlsplit

from ashore.errors import CheckpointUnfit
from ashore.log import names
from ashore.queries.state.layout.logs import Wrong, parse_document, unfit

_SCHEMAS = "stateSchemaFilePaths"
_BELOW = "/state/"
_FILE = "file://"


# ---- operators


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """What an operator says of the stores of one name.

    Arguments:
        name: `default`, unless a partition has several stores.
        partitions: how many there were when the file was written; a repartition leaves it.
        schemas: where Spark finds their schemas, oldest first: absolute paths, with a scheme.
        has_schemas: whether the file has a list of schemas.
        other: what Ashore does not know.

    """

    name: str
    partitions: int
    schemas: tuple[str, ...]
    has_schemas: bool
    other: Mapping[str, object]


@dataclass(frozen=True, slots=True)
class OperatorFile:
    """What an operator says of itself."""

    operator: int
    name: str  # Spark's: stateStoreSave, dedupe, symmetricHashJoin ...
    stores: tuple[StoreInfo, ...]
    version: int
    document: Mapping[str, object]  # all of the file

    @classmethod
    def parse(cls, data: bytes, place: str) -> Self:
        """Return what the bytes say. Raises CheckpointUnfit."""
        version, document = parse_document(data, place, (1, 2))
        info, stores = document.get("operatorInfo"), document.get("stateStoreInfo")
        if not isinstance(info, dict) or not isinstance(stores, list):
            raise unfit(Wrong.OTHER_CONTENT, f"{place} names no operator and its stores")
        operator, name = info.get("operatorId"), info.get("operatorName")
        if type(operator) is not int or type(name) is not str:
            raise unfit(Wrong.OTHER_CONTENT, f"{place} names no operator")
        found = tuple(_parse_store(each, place) for each in stores)
        return cls(operator, name, found, version, document)

    def move_to(self, uri: str) -> Self:
        """Return the same for a checkpoint whose root is at another address.

        What a schema's path says below `state` stays; one that says nothing of it stays whole.
        """
        return replace(
            self,
            stores=tuple(
                replace(each, schemas=tuple(_move(schema, uri) for schema in each.schemas))
                for each in self.stores
            ),
        )

    def find_elsewhere(self, uri: str) -> list[str]:
        """Return the schemas that are not below the root at an address: it was moved by hand.

        Schemes and hosts count for nothing: Spark spells them in several ways.
        """
        return [
            schema
            for store in self.stores
            for schema in store.schemas
            if _BELOW not in schema or urlsplit(schema).path != urlsplit(_move(schema, uri)).path
        ]

    def cut(self, partitions: int) -> Self:
        """Return the same for stores of another number of partitions."""
        return replace(
            self, stores=tuple(replace(each, partitions=partitions) for each in self.stores)
        )

    def write(self) -> bytes:
        """Return the file."""
        stores = [_write_store(each) for each in self.stores]
        document = {**self.document, "stateStoreInfo": stores}
        text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
        return f"v{self.version}\n{text}".encode()


def schema_names(store: StoreInfo) -> list[str]:
    """Return the names of the files with a store's schemas."""
    return [names.leaf(each) for each in store.schemas]


def _move(schema: str, uri: str) -> str:
    """Return where a schema is below a root, as Hadoop writes it: `file:/data`, not `file:///`."""
    _, separator, below = schema.rpartition(_BELOW)
    root = f"file:{uri.removeprefix(_FILE)}" if uri.startswith(f"{_FILE}/") else uri
    return f"{root}{_BELOW}{below}" if separator else schema


def _parse_store(value: object, place: str) -> StoreInfo:
    other = dict(value) if isinstance(value, dict) else {}
    name, partitions = other.get("storeName"), other.get("numPartitions")
    schemas = other.get(_SCHEMAS, [])
    if type(name) is not str or type(partitions) is not int:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has a store without a name or partitions")
    if not isinstance(schemas, list) or not all(type(each) is str for each in schemas):
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has schemas that are not paths")
    return StoreInfo(name, partitions, tuple(schemas), _SCHEMAS in other, other)


def _write_store(store: StoreInfo) -> dict[str, object]:
    known = {**store.other, "numPartitions": store.partitions}
    return {**known, **({_SCHEMAS: list(store.schemas)} if store.has_schemas else {})}


_PARTS_MAX = 1 << 16
_PART = 8_000  # characters of a string: of up to six bytes, in surrogates
_NULLS = {"nullable", "containsNull", "valueContainsNull"}


# ---- schemas


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


_MEMBER = "metadata"
_MEMBER_BYTES_MAX = 1 << 28  # that of a million tables is less
# What Python raises for bytes that are no archive, or one of a kind that Java does not write.
BROKEN = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, OSError),
    *(KeyError, ValueError, OverflowError, RuntimeError, struct.error),
)


# ---- snapshots


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """What a snapshot says of the store that it is of.

    Arguments:
        tables: the files in `SSTs` that it is made of, and their sizes in bytes; None where it
            does not say how large one is.
        rows: how many the store holds; None where Spark is configured not to count.

    """

    tables: Mapping[str, int | None]
    rows: int | None = None

    @classmethod
    def read(cls, data: bytes, place: str) -> Self:
        """Return what the archive says. Raises CheckpointUnfit."""
        return cls.parse(_read_member(data, place), place)

    @classmethod
    def parse(cls, member: bytes, place: str) -> Self:
        """Return the same from the one file of the archive that says it. Raises CheckpointUnfit."""
        _, document = parse_document(member, place, (1,))
        tables = document.get("sstFiles")
        if not isinstance(tables, list):
            raise unfit(Wrong.OTHER_CONTENT, f"{place} has no tables")
        if document.get("logFiles"):  # Spark turns RocksDB's own log off
            raise unfit(Wrong.OTHER_CONTENT, f"{place} names log files, which is unknown to Ashore")
        match document.get("numKeys"):
            case int(rows) if rows >= 0:
                counted: int | None = rows
            case _:
                counted = None
        return cls(dict(_table(each, place) for each in tables), counted)


def _table(value: object, place: str) -> tuple[str, int | None]:
    found = value if isinstance(value, dict) else {}
    name, size = found.get("dfsSstFileName"), found.get("sizeBytes")
    if type(name) is not str:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has a table without a name")
    return name, size if isinstance(size, int) else None


def _read_member(data: bytes, place: str) -> bytes:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive, archive.open(_MEMBER) as member:
            found = member.read(_MEMBER_BYTES_MAX + 1)
    except BROKEN as error:
        text = f"{place} is not an archive with a file {_MEMBER}: {error}"
        raise unfit(Wrong.OTHER_CONTENT, text) from None
    if len(found) > _MEMBER_BYTES_MAX:
        raise unfit(Wrong.OTHER_CONTENT, f"{place}: the file {_MEMBER} is too large")
    return found
