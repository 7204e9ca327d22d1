"""The catalog in memory, and none."""

import pytest
from tests.unit.tables.contract import COLUMNS, CatalogContract, partition

from ashore.errors import CatalogUnreachable, InvariantBroken
from ashore.tables.catalog import (
    CatalogTable,
    NoCatalog,
    PartitionSeal,
    TableChange,
)
from ashore.tables.ddl import parse_ddl
from ashore_lab.testing.memory_catalog import MemoryCatalog

TABLE = CatalogTable(
    database="ods",
    name="clicks",
    columns=parse_ddl(COLUMNS),
    partition_columns=parse_ddl("date STRING, country STRING"),
    location="file:///lake/ods.db/clicks",
    format="parquet",
    job="clicks",
)


class TestMemoryCatalog(CatalogContract):
    @pytest.fixture
    def catalog(self) -> MemoryCatalog:
        return MemoryCatalog()

    @pytest.fixture
    def table(self) -> CatalogTable:
        return TABLE

    def seals_of(self, catalog, table):
        known = catalog.tables[table.full_name.lower()].partitions
        return {path: seal and (seal.version, seal.rows) for path, seal in known.items()}


def test_a_catalog_that_is_away_changes_nothing():
    catalog = MemoryCatalog()
    catalog.ensure_table(TABLE)
    catalog.is_reachable = False
    for do in (
        lambda: catalog.ensure_table(TABLE),
        lambda: catalog.add_partitions(TABLE, [partition("2026-11-21")]),
        lambda: catalog.mark_sealed(TABLE, [PartitionSeal(partition("2026-11-21"), 1, 1)]),
    ):
        with pytest.raises(CatalogUnreachable):
            do()
    assert catalog.tables["ods.clicks"].partitions == {}
    assert catalog.calls == 1
    catalog.is_reachable = True
    assert catalog.add_partitions(TABLE, [partition("2026-11-21")]) == 1


def test_no_catalog_does_nothing():
    catalog = NoCatalog()
    assert catalog.ensure_table(TABLE) == TableChange()
    assert catalog.add_partitions(TABLE, [partition("2026-11-21")]) == 0
    catalog.mark_sealed(TABLE, [PartitionSeal(partition("2026-11-21"), 1, 1)])
    assert catalog.describe() == "none"
    catalog.close()


def test_values_of_a_partition_are_those_before_escaping():
    odd = partition("2026-11-21", "a%2Fb%3D c%25")
    assert odd.columns == ("date", "country")
    assert odd.values == ("2026-11-21", "a/b= c%")


@pytest.mark.parametrize(("version", "rows"), [(0, 1), (1, -1)])
def test_a_seal_has_a_version_and_a_count(version: int, rows: int):
    with pytest.raises(InvariantBroken):
        PartitionSeal(partition("2026-11-21"), version, rows)
    with pytest.raises(InvariantBroken):
        type(partition("x"))("")
