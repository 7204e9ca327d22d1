"""What a stateful operator says of itself: its name and its stores.

What it is: the files `_metadata/metadata`, for all batches, and `_metadata/v2/<batch>`, from that
batch on.
What it promises: any bytes give a value or CheckpointUnfit; written again, a file of Spark 4.2 is
the same, byte for byte. A schema is known by its name: the file has absolute paths, which are
wrong as soon as a checkpoint was moved.

    v1
    {"operatorInfo":{"operatorId":0,"operatorName":"stateStoreSave"},
     "stateStoreInfo":[{"storeName":"default","numColsPrefixKey":0,"numPartitions":2}]}

A file of v2 has two keys more: `operatorPropertiesJson`, a text, and for each store
`stateSchemaFilePaths`, such as `["file:/data/ck/state/0/_stateSchema/default/0_<id>"]`.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self
from urllib.parse import urlsplit

from ashore.log import names
from ashore.queries.state.layout.logs import Wrong, parse_document, unfit

_SCHEMAS = "stateSchemaFilePaths"
_BELOW = "/state/"
_FILE = "file://"


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
