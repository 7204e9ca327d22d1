"""The forms of state stores that two checkpoints have: what keys and values are, and their types.

What it is: `Forms`, the schemas of an operator's stores, as their files say them; `number_fields`,
decoded rows whose columns are known by their places.
What it promises: reads only. Types are compared without names, and without what may be NULL: both
change no byte. Spark lets a column that may be NULL be read as one that never is, and refuses the
reverse; which columns it takes for the one or the other depends on how it planned the first batch.
So schemas are written as those of values that may all be NULL.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import DataType, StructField, StructType

from ashore.base.codec import Json
from ashore.queries.spark.internals.state import PARTITION_KEY
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import SchemaPath, StoreSchema, StoreSchemaPath, parse_schemas

ONLY = "default"  # the name of a store that is the only one of its partition
_NULLS = {"nullable", "containsNull", "valueContainsNull", "metadata"}


@dataclass(frozen=True, slots=True)
class _SchemaFile:
    """A schema of the stores of one name. `kind`: of its path."""

    kind: type
    data: bytes
    schemas: tuple[StoreSchema, ...]


@dataclass(frozen=True, slots=True)
class Forms:
    """The newest schemas of an operator's stores, by the names of the stores."""

    _files: Mapping[str, _SchemaFile]

    @classmethod
    def read(cls, checkpoint: Checkpoint, files: Iterable[CheckpointFile]) -> "Forms":
        """Return those of an operator. Raises CheckpointUnfit, StorageError."""
        found: dict[str, _SchemaFile] = {}
        for each in sorted(files, key=_batch_of):
            store = store_of_schema(each)
            if store is not None:
                data = checkpoint.read(each.path)
                schemas = parse_schemas(data, checkpoint.full_path(each.path))
                found[store] = _SchemaFile(type(each.of), data, schemas)
        return cls(found)

    def has_types_of(self, other: "Forms") -> bool:
        """Return whether the bytes of these stores can be read as those of the others."""
        return dict(self.typed()) == dict(other.typed())

    @property
    def has_keys(self) -> bool:
        """Whether keys have columns: an operator without any has one row."""
        return any(each.key for file in self._files.values() for each in file.schemas)

    def data_for(self, file: CheckpointFile) -> bytes | None:
        """Return the schema that stores have, to be written as a file of another checkpoint.

        None: the file is no schema, or there it is written in another way.
        """
        found = self._files.get(store_of_schema(file) or "")
        return found.data if found is not None and found.kind is type(file.of) else None

    def typed(self) -> Iterator[tuple[tuple[str, str], tuple[list[str], list[str]]]]:
        """Yield the types of keys and of values, by store and column family."""
        for store, file in self._files.items():
            for each in file.schemas:
                key, value = ([_loose(one.type) for one in some] for some in (each.key, each.value))
                yield (store, each.family), (key, value)


def store_of_schema(file: CheckpointFile) -> str | None:
    """Return the name of the stores whose schema a file is; None: it is none."""
    match file.of:
        case SchemaPath(store_name=name):
            return name
        case StoreSchemaPath(of):
            return of.name or ONLY
        case _:
            return None


def _batch_of(file: CheckpointFile) -> int:
    return file.of.batch if isinstance(file.of, SchemaPath) else 0


def _loose(kind: str) -> str:
    """Return a type without what may be NULL in it."""
    try:
        return json.dumps(_without_nulls(json.loads(kind)))
    except ValueError:  # a simple type is written as its name
        return kind


def _without_nulls(kind: Json) -> Json:
    match kind:
        case dict():
            return {name: _without_nulls(each) for name, each in kind.items() if name not in _NULLS}
        case list():
            return [_without_nulls(each) for each in kind]
        case _:
            return kind


# ---- rows


def deal_out(rows: DataFrame, partitions: int) -> DataFrame:
    """Return rows of state as Spark's exchange deals them out, a task for each partition.

    An operator without keys has one.
    """
    key = rows.schema[PARTITION_KEY].dataType
    if isinstance(key, StructType) and not key.fields:
        return rows.repartition(1)
    return rows.repartition(partitions, PARTITION_KEY)


def struct_fields(kind: DataType) -> list[StructField]:
    """Return the fields of a struct; none of another type."""
    return kind.fields if isinstance(kind, StructType) else []


def number_fields(rows: DataFrame, column: str, name: str = "") -> Column:
    """Return a struct whose fields are called by their places: two may have one name.

    `name`: that the column gets; empty: it keeps its own. What is no struct becomes one without
    fields.
    """
    fields = [
        StructField(f"c{place}", each.dataType, each.nullable)
        for place, each in enumerate(struct_fields(rows.schema[column].dataType))
    ]
    return F.col(column).cast(StructType(fields)).alias(name or column)
