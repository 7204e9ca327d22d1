"""Paths below the root of a checkpoint, as values.

What it promises: `parse_path(text).path == text`, for any text; and `parse_path(value.path)` is the
value, for any that a checkpoint can have. A number has one spelling.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from ashore.log import names

SOURCES = "sources"
STATE = "state"
TABLES = "SSTs"  # of a store
_QUERY = "metadata"
_METADATA = "_metadata"
_SCHEMAS = "_stateSchema"
OPERATOR_DIRECTORIES = (_METADATA, _SCHEMAS)  # of an operator, beside its partitions

_NUMBER = re.compile(r"0|[1-9][0-9]{0,18}")
_STORE = re.compile(rf"(?!{TABLES}$)[^._/][^/]*")
_KINDS = "changelog|zip|delta|snapshot"
_STATE_FILE = re.compile(rf"({_NUMBER.pattern})(?:_([A-Za-z0-9_-]+))?\.({_KINDS})(\.crc)?")
_MIGRATION = re.compile(r"ashore-migration-([1-9][0-9]{0,18})\.json")
_VERSION = re.compile(r"ashore-version-([1-9][0-9]{0,18})\.json")
_SCHEMA = re.compile(rf"({_NUMBER.pattern})_([A-Za-z0-9_-]+)")


class BatchLog(StrEnum):
    """A directory with a file for each batch."""

    OFFSETS = "offsets"  # the batch is planned
    COMMITS = "commits"  # the batch is done


class StateKind(StrEnum):
    """What a file of a state store holds."""

    CHANGELOG = "changelog"
    ROCKSDB_SNAPSHOT = "zip"
    DELTA = "delta"
    SNAPSHOT = "snapshot"  # of the store that Spark calls HDFS-backed


@dataclass(frozen=True, slots=True)
class Store:
    """A state store. One without a name is the only one of its partition."""

    operator: int
    partition: int
    name: str = ""

    @property
    def path(self) -> str:
        """Its directory."""
        return names.join(STATE, str(self.operator), str(self.partition), self.name)


@dataclass(frozen=True, slots=True)
class QueryPath:
    """The file that holds the id of the query."""

    @property
    def path(self) -> str:
        """Below the root."""
        return _QUERY


@dataclass(frozen=True, slots=True)
class BatchPath:
    """What a log holds of a batch."""

    log: BatchLog
    batch: int

    @property
    def path(self) -> str:
        """Below the root."""
        return names.join(self.log, str(self.batch))


@dataclass(frozen=True, slots=True)
class SourcePath:
    """A file of a source, which is known by its number or its name."""

    source: str
    rest: str

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{SOURCES}/{self.source}/{self.rest}"


@dataclass(frozen=True, slots=True)
class StatePath:
    """A version of a state store, or the change that leads to it."""

    store: Store
    version: int  # one more than the batch that made it
    kind: StateKind
    unique: str = ""  # in format 2: the id that the batch's commit names

    @property
    def is_whole(self) -> bool:
        """Whether it is the version as a whole, and no change of another."""
        return self.kind in {StateKind.ROCKSDB_SNAPSHOT, StateKind.SNAPSHOT}

    @property
    def path(self) -> str:
        """Below the root."""
        unique = f"_{self.unique}" if self.unique else ""
        return f"{self.store.path}/{self.version}{unique}.{self.kind}"


@dataclass(frozen=True, slots=True)
class ChecksumPath:
    """The checksum that Spark keeps of a file of format 2."""

    of: StatePath

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{self.of.path}.crc"


@dataclass(frozen=True, slots=True)
class TablePath:
    """A table of RocksDB, which some snapshots of the store name."""

    store: Store
    name: str

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{self.store.path}/{TABLES}/{self.name}"


@dataclass(frozen=True, slots=True)
class OperatorPath:
    """What an operator says of itself: for all batches, or from one on."""

    operator: int
    batch: int | None = None

    @property
    def has_paths(self) -> bool:
        """Whether the file has absolute paths in it, so that its copy differs."""
        return self.batch is not None

    @property
    def path(self) -> str:
        """Below the root."""
        name = _QUERY if self.batch is None else f"v2/{self.batch}"
        return f"{STATE}/{self.operator}/{_METADATA}/{name}"


@dataclass(frozen=True, slots=True)
class StoreSchemaPath:
    """The schema of a store, for all batches."""

    store: Store

    @property
    def path(self) -> str:
        """Below the root."""
        return f"{self.store.path}/{_METADATA}/schema"


@dataclass(frozen=True, slots=True)
class SchemaPath:
    """The schema of the stores of one name, of all partitions, from a batch on."""

    operator: int
    store_name: str
    batch: int
    unique: str

    @property
    def path(self) -> str:
        """Below the root."""
        name = f"{self.batch}_{self.unique}"
        return f"{STATE}/{self.operator}/{_SCHEMAS}/{self.store_name}/{name}"


@dataclass(frozen=True, slots=True)
class VersionPath:
    """Ashore's own: a version of the job that the query is of. Spark does not look at it."""

    version: int

    @property
    def path(self) -> str:
        """Below the root."""
        return f"ashore-version-{self.version}.json"


@dataclass(frozen=True, slots=True)
class MigrationPath:
    """Ashore's own: the migration that has rewritten the state. Spark does not look at it."""

    attempt: int  # the epoch of the one that it has made

    @property
    def path(self) -> str:
        """Below the root."""
        return f"ashore-migration-{self.attempt}.json"


@dataclass(frozen=True, slots=True)
class HiddenPath:
    """A file that Spark does not read: a checksum of a local file system, or an unfinished one."""

    path: str


@dataclass(frozen=True, slots=True)
class UnknownPath:
    """A file that Spark 4.2 does not write."""

    path: str


CheckpointPath = (
    QueryPath
    | BatchPath
    | SourcePath
    | StatePath
    | ChecksumPath
    | TablePath
    | OperatorPath
    | StoreSchemaPath
    | SchemaPath
    | VersionPath
    | MigrationPath
    | HiddenPath
    | UnknownPath
)


def find_migration(paths: Iterable[str]) -> int:
    """Return the migration that has rewritten a state, by its epoch; 0: none. `paths`: of files."""
    found = (parse_path(each) for each in paths)
    return max((each.attempt for each in found if isinstance(each, MigrationPath)), default=0)


def is_number(name: str) -> bool:
    """Return whether a name is that of a batch, an operator or a partition."""
    return _NUMBER.fullmatch(name) is not None


def is_store(name: str) -> bool:
    """Return whether a name in the directory of a partition is that of a store."""
    return _STORE.fullmatch(name) is not None


def parse_path(path: str) -> CheckpointPath:
    """Return what a path below the root of a checkpoint is."""
    match path.split("/"):
        case [*_, name] if name.startswith("."):
            return HiddenPath(path)
        case ["metadata"]:
            return QueryPath()
        case [name] if found := _VERSION.fullmatch(name):
            return VersionPath(int(found[1]))
        case [name] if found := _MIGRATION.fullmatch(name):
            return MigrationPath(int(found[1]))
        case ["offsets" | "commits" as log, batch] if is_number(batch):
            return BatchPath(BatchLog(log), int(batch))
        case ["sources", source, *rest] if rest:
            return SourcePath(source, "/".join(rest))
        case ["state", operator, *rest] if is_number(operator):
            return _parse_operator(int(operator), rest) or UnknownPath(path)
        case _:
            return UnknownPath(path)


def _parse_operator(operator: int, rest: list[str]) -> CheckpointPath | None:
    match rest:
        case ["_metadata", "metadata"]:
            return OperatorPath(operator)
        case ["_metadata", "v2", batch] if is_number(batch):
            return OperatorPath(operator, int(batch))
        case ["_stateSchema", store, name] if found := _SCHEMA.fullmatch(name):
            return SchemaPath(operator, store, int(found[1]), found[2])
        case [partition, *below] if is_number(partition):
            only = Store(operator, int(partition))
            return _parse_store(only, below) or _parse_named(only, below)
        case _:
            return None


def _parse_named(only: Store, rest: list[str]) -> CheckpointPath | None:
    match rest:
        case [name, *below] if is_store(name):
            return _parse_store(Store(only.operator, only.partition, name), below)
        case _:
            return None


def _parse_store(store: Store, rest: list[str]) -> CheckpointPath | None:
    match rest:
        case ["_metadata", "schema"]:
            return StoreSchemaPath(store)
        case ["SSTs", name]:
            return TablePath(store, name)
        case [name] if found := _STATE_FILE.fullmatch(name):
            file = StatePath(store, int(found[1]), StateKind(found[3]), found[2] or "")
            return ChecksumPath(file) if found[4] else file
        case _:
            return None
