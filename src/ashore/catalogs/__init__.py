"""Catalogs: where readers learn of tables and table partitions."""

from ashore.catalogs.base import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    PartitionSeal,
    TableChange,
    TableSeen,
)
from ashore.catalogs.memory import MemoryCatalog
from ashore.catalogs.none import NoCatalog
from ashore.catalogs.open import open_catalog

__all__ = [
    "Catalog",
    "CatalogPartition",
    "CatalogTable",
    "MemoryCatalog",
    "NoCatalog",
    "PartitionSeal",
    "TableChange",
    "TableSeen",
    "open_catalog",
]
