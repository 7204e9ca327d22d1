"""Catalogs: where readers learn of tables and table partitions."""

from ashore.catalogs.base import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    PartitionSeal,
    TableChange,
)
from ashore.catalogs.memory import MemoryCatalog
from ashore.catalogs.none import NoCatalog
from ashore.catalogs.open import open_catalog

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
