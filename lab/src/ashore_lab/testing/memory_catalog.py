"""A catalog in memory, for tests.

What it is: the rules of `Catalog` without a server.
What it promises: the same answers as a metastore; while `is_reachable` is false every call raises
CatalogUnreachable and changes nothing. Any number of threads may use it.
"""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ashore.errors import CatalogError, CatalogUnreachable
from ashore.tables.catalog.base import (
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)
from ashore.tables.catalog.growth import (
    GrownColumn,
    Growth,
    compare_columns,
    compare_partitioning,
    find_repeated,
    refuse_growth,
)
from ashore.tables.ddl import Schema, type_ddl


@dataclass(slots=True)
class MemoryTable:
    """A table and its partitions, by path; the value is the last seal."""

    table: CatalogTable
    partitions: dict[str, PartitionSeal | None] = field(default_factory=dict)
    elsewhere: dict[str, str] = field(default_factory=dict)  # by path: where others have put it


class MemoryCatalog:
    """Tables by their lower-case names, as a metastore keeps them."""

    def __init__(self) -> None:
        self.tables: dict[str, MemoryTable] = {}
        self.is_reachable = True
        self.calls = 0  # those that were answered
        self._lock = threading.Lock()

    def check_table(self, table: CatalogTable) -> None:
        """See Catalog."""
        with self._lock:
            self._compare(table)

    def ensure_table(self, table: CatalogTable) -> TableChange:
        """See Catalog."""
        with self._lock:
            growth = self._compare(table)
            known = self.tables.get(table.full_name.lower())
            if known is None:
                self.tables[table.full_name.lower()] = MemoryTable(table)
                return TableChange(is_created=True)
            new = [each for each in table.columns.fields if each.name in growth.added]
            columns = Schema((*known.table.columns.fields, *new))
            known.table = replace(known.table, columns=columns, job=table.job)
            return TableChange(added=growth.added)

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog."""
        with self._lock:
            known = self._find(table)
            for partition in partitions:
                partition.check_columns(table)
            before = len(known.partitions)
            for partition in partitions:
                known.partitions.setdefault(partition.path)
            return len(known.partitions) - before

    def mark_sealed(self, table: CatalogTable, seals: Sequence[PartitionSeal]) -> None:
        """See Catalog."""
        with self._lock:
            known = self._find(table)
            for seal in seals:
                seal.partition.check_columns(table)
            for seal in seals:
                last = known.partitions.get(seal.partition.path)
                if last is None or last.version < seal.version:
                    known.partitions[seal.partition.path] = seal

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog."""
        with self._lock:
            self._answer()
            for partition in partitions:
                partition.check_columns(table)
            known = self.tables.get(table.full_name.lower())
            there = known.partitions if known else {}
            gone = [each.path for each in partitions if each.path in there]
            for path in gone:
                del there[path]
            return len(gone)

    def observe(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> CatalogTableSeen | None:
        """See Catalog."""
        with self._lock:
            self._answer()
            known = self.tables.get(table.full_name.lower())
            if known is None:
                return None
            growth = compare_columns(_columns(known.table.columns), _columns(table.columns))
            return CatalogTableSeen(
                (*growth.differences, *_compare_rest(known.table, table)),
                frozenset(CatalogPartition(path).values for path in known.partitions),
                {
                    each: known.elsewhere[each.path]
                    for each in partitions
                    if each.path in known.elsewhere
                },
            )

    def describe(self) -> str:
        """See Catalog."""
        return "memory"

    def close(self) -> None:
        """Do nothing."""

    def _compare(self, table: CatalogTable) -> Growth:
        """Return what the table that is there lacks. Raises SchemaConflict."""
        self._answer()
        known = self.tables.get(table.full_name.lower())
        growth = Growth((), ())
        conflicts = find_repeated(table)
        if known is not None and not conflicts:
            growth = compare_columns(_columns(known.table.columns), _columns(table.columns))
            conflicts = [*growth.conflicts, *_compare_rest(known.table, table)]
        if conflicts:
            raise refuse_growth(table.full_name, self.describe(), conflicts)
        return growth

    def _answer(self) -> None:
        if not self.is_reachable:
            raise CatalogUnreachable("the catalog in memory is away")
        self.calls += 1

    def _find(self, table: CatalogTable) -> MemoryTable:
        self._answer()
        known = self.tables.get(table.full_name.lower())
        if known is None:
            raise CatalogError(f"there is no table {table.full_name}", table=table.full_name)
        return known


def _columns(schema: Schema) -> list[GrownColumn]:
    return [GrownColumn(field.name, type_ddl(field.type)) for field in schema.fields]


def _compare_rest(known: CatalogTable, expected: CatalogTable) -> list[str]:
    conflicts = compare_partitioning(
        _columns(known.partition_columns), _columns(expected.partition_columns)
    )
    for what in ("format", "location"):
        there, here = getattr(known, what), getattr(expected, what)
        if there != here:
            conflicts.append(f"its {what} is {there} in the catalog, expected {here}")
    return conflicts
