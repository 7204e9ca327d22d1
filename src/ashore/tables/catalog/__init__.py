"""Catalogs: where readers learn of tables and table partitions."""

from ashore.tables.catalog.base import (
    Catalog,
    CatalogPartition,
    CatalogTable,
    CatalogTableSeen,
    NoCatalog,
    PartitionSeal,
    TableChange,
)
from ashore.tables.catalog.connect import open_catalog

__all__ = [
    "Catalog",
    "CatalogPartition",
    "CatalogTable",
    "CatalogTableSeen",
    "NoCatalog",
    "PartitionSeal",
    "TableChange",
    "open_catalog",
]
