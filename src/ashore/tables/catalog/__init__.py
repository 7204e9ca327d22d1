"""Catalogs: where readers learn of tables and table partitions."""

from ashore.tables.catalog.base import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)
from ashore.tables.catalog.memory import MemoryCatalog
from ashore.tables.catalog.none import NoCatalog
from ashore.tables.catalog.open import open_catalog

__all__ = [
    "Catalog",
    "CatalogPartition",
    "CatalogTable",
    "CatalogTableSeen",
    "MemoryCatalog",
    "NoCatalog",
    "PartitionSeal",
    "TableChange",
    "open_catalog",
]
