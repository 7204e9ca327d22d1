"""The seam to a catalog: tables, table partitions, and which of these are complete.

What it is: what Ashore asks of a catalog, and the values that it hands over.
What it promises: every call may be repeated, and may be made by several processes at once; it does
what is not done yet. A catalog is never the truth about a job: the landing log is. Files are never
touched.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from ashore.errors import check
from ashore.tables.ddl import Schema
from ashore.tables.names import parse_partition_path


@dataclass(frozen=True, slots=True)
class CatalogTable:
    """A table as a catalog is to know it."""

    database: str
    name: str
    columns: Schema  # of the files: without the partition columns
    partition_columns: Schema  # outermost first; empty: a table without partitions
    location: str  # `file:///lake/ods.db/clicks`; every character stands for itself
    format: str  # parquet | orc | jsonl
    job: str  # the owner, for people who look at the table
    # Outermost first, with transforms of an Iceberg table; empty: the partition columns.
    partition_by: tuple[str, ...] = ()
    # Columns that the job had and has not, and whose loss an operator accepts. Others stay.
    dropped: frozenset[str] = frozenset()
    # Columns by which compaction sorts; empty: whatever order an Iceberg table has stays.
    sort_by: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """Return `database.name`."""
        return f"{self.database}.{self.name}"


@dataclass(frozen=True, slots=True)
class CatalogPartition:
    """A table partition, named by its directory."""

    path: str  # below the table, as it stands in the log: `date=2026-11-21/country=a%2Fb`

    def __post_init__(self) -> None:
        check(bool(self.path), "a partition has a directory of its own")

    @property
    def columns(self) -> tuple[str, ...]:
        """Return the partition columns, outermost first."""
        return tuple(column for column, _ in parse_partition_path(self.path))

    @property
    def values(self) -> tuple[str, ...]:
        """Return the values, unescaped. Null is `__HIVE_DEFAULT_PARTITION__`, as in the path."""
        return tuple(value for _, value in parse_partition_path(self.path))

    def check_columns(self, table: CatalogTable) -> None:
        """Raise InvariantBroken unless the partition can be one of `table`."""
        columns = tuple(table.partition_columns.names)
        check(self.columns == columns, f"{self.path} is not a partition of {table.full_name}")


@dataclass(frozen=True, slots=True)
class PartitionSeal:
    """A table partition that is complete."""

    partition: CatalogPartition
    version: int  # from 1; each is higher than the one before
    rows: int

    def __post_init__(self) -> None:
        check(self.version >= 1 and self.rows >= 0, f"{self.partition.path}: it has no seal")


@dataclass(frozen=True, slots=True)
class TableChange:
    """What `ensure_table` had to do."""

    is_created: bool = False
    added: tuple[str, ...] = ()  # columns that an existing table did not have


@dataclass(frozen=True, slots=True)
class CatalogTableSeen:
    """What a catalog has of a table, and how that differs from the table that is asked about."""

    differences: tuple[str, ...]  # of schema, format, place; one sentence each
    partitions: frozenset[tuple[str, ...]]  # the values of each one that is registered
    elsewhere: Mapping[CatalogPartition, str]  # another directory than its own


class Catalog(Protocol):
    """A catalog. Calls may raise CatalogError; CatalogUnreachable where no server answers in time.

    After CatalogUnreachable the call may have been applied, or may be applied later.
    """

    def check_table(self, table: CatalogTable) -> None:
        """Raise SchemaConflict where `ensure_table` would. Writes nothing."""
        ...

    def ensure_table(self, table: CatalogTable) -> TableChange:
        """Create the database and the table, or add the columns that an existing table lacks.

        New columns come after the others, before the partition columns, in the order of `table`.
        Raises SchemaConflict, which names the columns, before anything is written, where the table
        that is there is another one: a type differs, a column is missing in `table`, partition
        columns, format or location are not the same.
        Requires: the table's directory exists. A metastore makes a missing directory, and may
        remove it with what is in it by then, if it fails afterwards.
        If interrupted: nothing, the database alone, or everything is there.
        """
        ...

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """Register `partitions` and return how many were not there before.

        Raises CatalogError if one is registered with another directory than its own.
        Requires: `ensure_table`, and the directories exist (for the reason given there).
        If interrupted: some are registered. Repeating it registers the rest.
        """
        ...

    def mark_sealed(self, table: CatalogTable, seals: Sequence[PartitionSeal]) -> None:
        """Write version and row count to each partition. Registers what is not registered yet.

        A partition that has this version, or a higher one, is left as it is.
        Requires and if interrupted: as `add_partitions`.
        """
        ...

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """Forget `partitions` and return how many were there. Files stay where they are.

        Of `table` only names and partition columns are looked at. One that is not there is nothing
        to forget: neither is a failure.
        If interrupted: some are forgotten. Repeating it forgets the rest.
        """
        ...

    def observe(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> CatalogTableSeen | None:
        """Return what readers see of `table`; None where there is no such table.

        Writes nothing. Where a partition lies is asked for `partitions` only.
        """
        ...

    def describe(self) -> str:
        """Return where the catalog is, for messages: `thrift://metastore:9083`."""
        ...

    def close(self) -> None:
        """Close connections. A later call makes new ones."""
        ...


class NoCatalog:
    """No catalog: every call does nothing and succeeds. Readers look at the directories."""

    def check_table(self, table: CatalogTable) -> None:
        """Do nothing."""

    def ensure_table(self, table: CatalogTable) -> TableChange:  # noqa: ARG002 - see Catalog
        """Do nothing."""
        return TableChange()

    def add_partitions(
        self,
        table: CatalogTable,  # noqa: ARG002 - see Catalog
        partitions: Sequence[CatalogPartition],  # noqa: ARG002 - see Catalog
    ) -> int:
        """Do nothing."""
        return 0

    def mark_sealed(self, table: CatalogTable, seals: Sequence[PartitionSeal]) -> None:
        """Do nothing."""

    def drop_partitions(
        self,
        table: CatalogTable,  # noqa: ARG002 - see Catalog
        partitions: Sequence[CatalogPartition],  # noqa: ARG002 - see Catalog
    ) -> int:
        """Do nothing."""
        return 0

    def observe(
        self,
        table: CatalogTable,  # noqa: ARG002 - see Catalog
        partitions: Sequence[CatalogPartition],  # noqa: ARG002 - see Catalog
    ) -> CatalogTableSeen | None:
        """Return None: no table is known."""
        return None

    def describe(self) -> str:
        """See Catalog."""
        return "none"

    def close(self) -> None:
        """Do nothing."""
