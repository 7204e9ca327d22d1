"""File states: what the log knows of a data file.

in-progress: a task writes it, the log does not know it. pending: closed, synced, listed in an
entry. final: moved to its final path. Only final files are readable.

What it promises: a file's two names follow from the entry that lists it; nothing else is needed
to finish it.
"""

from dataclasses import dataclass
from enum import StrEnum

from ashore.base import codec
from ashore.errors import check
from ashore.log import names
from ashore.log.names import FinalName, SliceName

PartitionKey = tuple[str, str]  # table, partition path


class Role(StrEnum):
    """What a table holds for its topic."""

    MAIN = "main"
    LATE = "late"  # records that the late policy put aside
    DEAD = "dead"  # records that could not be decoded


@dataclass(frozen=True, slots=True)
class Target:
    """A directory that files of a batch are moved to: one partition of one table."""

    table: str  # database.table
    role: Role
    partition: str  # path below the table: `date=2026-11-21/hour=08`; empty without partitions
    values: tuple[tuple[str, str | None], ...]  # partition columns and values; None is Hive's null
    schema: str  # DDL of the table
    extension: str  # parquet, orc, jsonl

    def __post_init__(self) -> None:
        check(names.is_visible(self.directory), f"{self.directory} would hide its files")
        check(".." not in self.directory.split("/"), f"{self.directory} leaves its table")

    @property
    def key(self) -> PartitionKey:
        """The table and its partition."""
        return self.table, self.partition

    @property
    def directory(self) -> str:
        """The directory, relative to the lake."""
        return names.join(names.table_path(self.table), self.partition)


@dataclass(frozen=True, slots=True)
class FileSpan:
    """The offsets of one shard that a file's records lie in.

    No other file of the same batch, task and target holds records of that shard in this span.
    """

    shard: int  # index into the entry's shards
    start: int
    end: int
    rows: int


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file that a task has closed and synced."""

    target: int  # index into the entry's targets
    task: int
    unique: str
    rows: int
    size_bytes: int
    checksum: str  # BLAKE2b-64 of the bytes, hexadecimal
    spans: tuple[FileSpan, ...]
    event_min_ms: int | None
    event_max_ms: int | None


@dataclass(frozen=True, slots=True)
class TableCommit:
    """A snapshot of a table in a table format: an entry orders it, by what was true before.

    What the entry has of it is known before, so that any writer of the slice can see later whether
    the commit has happened.
    """

    table: str  # database.table
    table_uuid: str  # a table that was dropped and created again has another one
    schema_id: int  # with which its files were written; 0 in Delta
    spec_id: int  # of the partition spec by which they were; 0 in Delta
    snapshot_id: int  # its own, drawn before; in Delta, the version before it that was looked at
    format: str = codec.added("iceberg")


@dataclass(frozen=True, slots=True)
class FilePlace:
    """A data file with its two paths: where it lies, and where it belongs."""

    file: DataFile
    pending: str
    final: str
    leaves: bool = False  # it leaves its table: from its final path to one aside


@dataclass(frozen=True, slots=True)
class BatchPlace:
    """Who wrote a batch: what the names of its files carry."""

    name: SliceName
    epoch: int
    batch: int

    def place(self, file: DataFile, target: Target) -> FilePlace:
        """Return `file` with its pending and its final path."""
        pending = names.join(
            names.staging_directory(target.table, self.name, self.epoch),
            names.pending_name(self.batch, file.unique),
        )
        final = names.final_name(
            FinalName(
                self.name.slice, self.epoch, self.batch, file.task, file.unique, target.extension
            )
        )
        return FilePlace(file, pending, names.join(target.directory, final))

    def place_aside(self, file: DataFile, target: Target, number: int) -> FilePlace:
        """Return `file` with its final path, and the one that entry `number` puts it aside to."""
        final = self.place(file, target).final
        aside = names.aside_directory(names.table_path(target.table), f"{self.name.slice}-{number}")
        away = names.join(aside, target.partition, names.leaf(final))
        return FilePlace(file, final, away, leaves=True)
