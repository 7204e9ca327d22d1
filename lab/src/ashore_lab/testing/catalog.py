"""A catalog that has the faults of a process.

What it is: `FaultyCatalog`, around any Catalog, beside the FaultyStorage of the same process.
What it promises: storage and catalog calls are numbered together, so that one list of faults
strikes at both and a stop ends both. What was injected comes as CatalogUnreachable, after which
it is unknown whether the call was applied.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar

from ashore.errors import CatalogError, CatalogUnreachable, StorageError
from ashore.tables.catalog import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)
from ashore_lab.testing.faults import FaultyStorage

T = TypeVar("T")


class FaultyCatalog:
    """A Catalog with faults.

    Arguments:
        inner: what the calls are applied to; shared by all processes.
        process: whose faults strike here too. The kinds are the names of the methods.

    """

    def __init__(self, inner: Catalog, process: FaultyStorage) -> None:
        self._inner = inner
        self._process = process

    def check_table(self, table: CatalogTable) -> None:
        """See Catalog."""
        self._call("check_table", table, lambda: self._inner.check_table(table))

    def ensure_table(self, table: CatalogTable) -> TableChange:
        """See Catalog."""
        return self._call("ensure_table", table, lambda: self._inner.ensure_table(table))

    def add_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog."""
        return self._call(
            "add_partitions", table, lambda: self._inner.add_partitions(table, partitions)
        )

    def mark_sealed(self, table: CatalogTable, seals: Sequence[PartitionSeal]) -> None:
        """See Catalog."""
        self._call("mark_sealed", table, lambda: self._inner.mark_sealed(table, seals))

    def drop_partitions(self, table: CatalogTable, partitions: Sequence[CatalogPartition]) -> int:
        """See Catalog."""
        return self._call(
            "drop_partitions", table, lambda: self._inner.drop_partitions(table, partitions)
        )

    def observe(
        self, table: CatalogTable, partitions: Sequence[CatalogPartition]
    ) -> CatalogTableSeen | None:
        """See Catalog."""
        return self._call("observe", table, lambda: self._inner.observe(table, partitions))

    def describe(self) -> str:
        """See Catalog."""
        return self._inner.describe()

    def close(self) -> None:
        """See Catalog."""
        self._inner.close()

    def _call(self, kind: str, table: CatalogTable, effect: Callable[[], T]) -> T:
        def late() -> None:
            with suppress(CatalogError):  # its answer has long been given up
                effect()

        try:
            return self._process.apply((kind, table.full_name), effect, late)
        except StorageError as error:
            raise CatalogUnreachable(error.message) from None
