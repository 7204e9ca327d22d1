"""The content of a checkpoint, as an operator of the query reads it.

What it is: `inspect_checkpoint`: a survey and the schemas of the state, turned into operators,
partitions and files by kind.
What it promises: pure. Rows are None where only a restore would count them: where
changes follow the snapshot, and for Spark's HDFSBackedStateStoreProvider.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import (
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    HiddenPath,
    MigrationPath,
    OperatorPath,
    QueryPath,
    SchemaPath,
    SourcePath,
    StateKind,
    StatePath,
    StoreSchema,
    StoreSchemaPath,
    TablePath,
    UnknownPath,
    VersionPath,
)
from ashore.queries.state.replay import StoreFiles, replay_s, restore_s
from ashore.queries.state.required_files import Chain, Required
from ashore.queries.state.survey import Survey
from ashore.queries.state.versions import KeptVersion


class FileKind(StrEnum):
    """What a file of a checkpoint is."""

    LOGS = "logs"  # the query's id, offsets and commits
    SOURCES = "sources"
    METADATA = "metadata"  # of operators: names and schemas
    SNAPSHOTS = "snapshots"
    TABLES = "tables"  # of RocksDB, which snapshots share
    CHANGES = "changes"
    VERSIONS = "versions"  # Ashore's copies of the job's versions, marks of migrations
    HIDDEN = "hidden"  # checksums of a file system, files that are being written
    UNKNOWN = "unknown"  # Spark 4.2 does not write it


@dataclass(frozen=True, slots=True)
class Amount:
    """Some files."""

    files: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class StorePart:
    """One store of one partition, and what its restore reads."""

    partition: int
    store: str  # its name; empty where the partition has only one
    rows: int | None
    size_bytes: int  # of all that a restore reads
    snapshot: int | None  # the version it begins with; None: it begins empty
    changes: int  # files to replay after it
    change_bytes: int
    replay_s: float | None  # of the changes, on one core; None for changes that are no changelogs
    restore_s: float | None  # of snapshot and changes; None for a provider that was not measured


@dataclass(frozen=True, slots=True)
class InspectedOperator:
    """A stateful operator and its state."""

    operator: int
    name: str  # Spark's
    keys: tuple[str, ...]  # columns; of all its stores, each once
    schemas: Mapping[str, tuple[StoreSchema, ...]]  # by store
    partitions: int
    parts: tuple[StorePart, ...]

    @property
    def size_bytes(self) -> int:
        """Of all that a restore of it reads."""
        return sum(each.size_bytes for each in self.parts)

    @property
    def rows(self) -> int | None:
        """How many rows it holds; None where a store does not record it."""
        counted = [each.rows for each in self.parts if each.rows is not None]
        return sum(counted) if len(counted) == len(self.parts) else None

    @property
    def restore_s(self) -> float | None:
        """How long one core takes to restore it; None where that is not known."""
        return _total(each.restore_s for each in self.parts)

    @property
    def slowest_s(self) -> float | None:
        """How long its slowest partition takes: with as many cores as there are partitions."""
        spent_s: dict[int, float] = {}
        for each in self.parts:
            if each.restore_s is None:
                return None
            spent_s[each.partition] = spent_s.get(each.partition, 0.0) + each.restore_s
        return max(spent_s.values(), default=0.0)


def _total(seconds: Iterable[float | None]) -> float | None:
    total = 0.0
    for each in seconds:
        if each is None:
            return None
        total += each
    return total


@dataclass(frozen=True, slots=True)
class Inspection:
    """A checkpoint at one of its batches."""

    query_id: str
    batch: int
    planned: int  # the last batch that has offsets
    done: tuple[int, ...]  # the batches that it keeps, sorted
    watermark_ms: int | None  # of the batch after; None where no operator has set one
    partitions: int | None  # of state, as the batch says
    provider: str  # of the state store: the last part of its class
    formats: Mapping[str, int]  # versions of offsets, commits and state
    sources: Mapping[str, str | None]  # where the batch ends in each, as JSON of the source
    operators: tuple[InspectedOperator, ...]
    kinds: Mapping[FileKind, Amount]
    required: Amount  # what a restart after the batch reads
    others: Amount  # what it does not: other batches, leftovers, hidden files
    version: KeptVersion | None  # the newest of the job that it has a copy of

    @property
    def restore_s(self) -> float | None:
        """How long one core takes to restore all state; None where that is not known."""
        return _total(each.restore_s for each in self.operators)

    @property
    def slowest_s(self) -> float | None:
        """How long it takes at least, however many cores: operators load one after another."""
        return _total(each.slowest_s for each in self.operators)


Schemas = Mapping[CheckpointPath, tuple[StoreSchema, ...]]


def schema_paths(required: Required) -> list[CheckpointPath]:
    """Return the files with schemas that `inspect_checkpoint` gets parsed."""
    return [each.of for each in required.files if isinstance(each.of, SchemaPath | StoreSchemaPath)]


def inspect_checkpoint(
    survey: Survey, schemas: Schemas, version: KeptVersion | None = None
) -> Inspection:
    """Return what there is.

    Arguments:
        survey: of the checkpoint.
        schemas: of the files that `schema_paths` names.
        version: of the job, that the checkpoint has a copy of.

    """
    required = survey.required
    sizes = {each.of: each.size_bytes for each in required.files}
    needed = set(sizes)
    return Inspection(
        query_id=required.query_id,
        batch=required.batch,
        planned=survey.planned,
        done=survey.done,
        watermark_ms=required.commit.watermark_ms or None,
        partitions=required.offsets.partitions,
        provider=required.offsets.provider,
        formats={
            "offsets": required.offsets.version,
            "commits": required.commit.version,
            "state": required.commit.state_format,
        },
        sources={each.source: each.end for each in required.offsets.sources},
        operators=tuple(
            _inspect_operator(number, required, schemas, sizes) for number in required.operators
        ),
        kinds=_count_kinds(survey.files),
        required=_count(required.files),
        others=_count([each for each in survey.files if each.of not in needed]),
        version=version,
    )


def _inspect_operator(
    number: int, required: Required, schemas: Schemas, sizes: Mapping[CheckpointPath, int]
) -> InspectedOperator:
    provider = required.offsets.provider
    chains = [each for each in required.chains if each.store.operator == number]
    parts = [_measure(each, sizes, provider) for each in chains]
    found: dict[str, tuple[StoreSchema, ...]] = {}
    for path, says in schemas.items():
        match path:
            case StoreSchemaPath(store) if store.operator == number:
                found[store.name] = says
            case SchemaPath(operator, store_name) if operator == number:
                found["" if store_name == "default" else store_name] = says
    keys = [column.name for says in found.values() for each in says for column in each.key]
    return InspectedOperator(
        operator=number,
        name=required.operators[number].name,
        keys=tuple(dict.fromkeys(keys)),
        schemas=found,
        partitions=len({each.partition for each in parts}),
        parts=tuple(parts),
    )


def _measure(chain: Chain, sizes: Mapping[CheckpointPath, int], provider: str) -> StorePart:
    size_bytes = sum(sizes[each] for each in chain.paths)
    change_bytes = sum(sizes[each] for each in chain.changes)
    snapshot_bytes = size_bytes - change_bytes if chain.snapshot else None
    is_measured = all(each.kind is StateKind.CHANGELOG for each in chain.changes)
    return StorePart(
        partition=chain.store.partition,
        store=chain.store.name,
        rows=chain.rows_now,
        size_bytes=size_bytes,
        snapshot=chain.snapshot.version if chain.snapshot else None,
        changes=len(chain.changes),
        change_bytes=change_bytes,
        replay_s=replay_s(change_bytes, len(chain.changes)) if is_measured else None,
        restore_s=restore_s(provider, StoreFiles(snapshot_bytes, change_bytes, len(chain.changes))),
    )


def _count_kinds(files: Sequence[CheckpointFile]) -> dict[FileKind, Amount]:
    by_kind: dict[FileKind, list[CheckpointFile]] = {kind: [] for kind in FileKind}
    for each in files:
        by_kind[kind_of(each.of)].append(each)
    return {kind: _count(some) for kind, some in by_kind.items() if some}


def _count(files: Sequence[CheckpointFile]) -> Amount:
    return Amount(len(files), sum(each.size_bytes for each in files))


def kind_of(path: CheckpointPath) -> FileKind:
    """Return what kind of file is at a path."""
    match path:
        case QueryPath() | BatchPath():
            return FileKind.LOGS
        case SourcePath():
            return FileKind.SOURCES
        case OperatorPath() | StoreSchemaPath() | SchemaPath():
            return FileKind.METADATA
        case TablePath():
            return FileKind.TABLES
        case StatePath() as state:
            return FileKind.SNAPSHOTS if state.is_whole else FileKind.CHANGES
        case ChecksumPath(of):
            return kind_of(of)
        case VersionPath() | MigrationPath():
            return FileKind.VERSIONS
        case HiddenPath():
            return FileKind.HIDDEN
        case UnknownPath():
            return FileKind.UNKNOWN
