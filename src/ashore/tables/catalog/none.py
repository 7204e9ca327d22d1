"""No catalog: readers look at the directories.

What it promises: every call does nothing and succeeds.
"""

from collections.abc import Sequence

from ashore.tables.catalog.base import (
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)


class NoCatalog:
    """What `catalog: none` means."""

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
