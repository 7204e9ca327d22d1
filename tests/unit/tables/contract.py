"""What every catalog does: run on the one in memory, and on a real metastore."""

from dataclasses import replace

import pytest

from ashore.errors import CatalogError, InvariantBroken, SchemaConflict
from ashore.tables.catalog import Catalog, CatalogPartition, CatalogTable, PartitionSeal
from ashore.tables.ddl import parse_ddl

COLUMNS = "id BIGINT, Name STRING, amount DECIMAL(10,2), tags ARRAY<STRUCT<Key: STRING, n: INT>>"


def partition(date: str, country: str = "CN") -> CatalogPartition:
    return CatalogPartition(f"date={date}/country={country}")


class CatalogContract:
    """Subclasses have the fixtures `catalog` and `table`, an unknown one, and `seals_of`."""

    def seals_of(self, catalog: Catalog, table: CatalogTable) -> dict[str, tuple[int, int] | None]:
        """Return each partition's version and rows, by path."""
        raise NotImplementedError

    def test_a_table_is_created_once(self, catalog: Catalog, table: CatalogTable):
        assert catalog.ensure_table(table).is_created
        again = catalog.ensure_table(table)
        assert not again.is_created
        assert again.added == ()

    def test_columns_are_added(self, catalog: Catalog, table: CatalogTable):
        catalog.ensure_table(table)
        wider = replace(table, columns=parse_ddl("First INT, " + COLUMNS + ", last DATE"))
        catalog.check_table(wider)  # writes nothing
        assert catalog.ensure_table(wider).added == ("First", "last")
        assert catalog.ensure_table(wider).added == ()
        with pytest.raises(SchemaConflict, match="column first is only") as refused:
            catalog.ensure_table(table)
        assert f"MSCK REPAIR TABLE {table.full_name}" in refused.value.hint

    @pytest.mark.parametrize(
        ("columns", "named"),
        [
            (COLUMNS.replace("BIGINT", "INT"), ["column id is", "in the catalog, expected"]),
            (COLUMNS.replace("(10,2)", "(12,2)"), ["column amount is"]),
            (COLUMNS.replace("n: INT", "n: BIGINT"), ["column tags is"]),
            (COLUMNS.replace("n: INT", "n: INT, m: INT"), ["column tags is"]),
            (COLUMNS.replace("Name STRING, ", ""), ["column name is only"]),
            (
                COLUMNS.replace("id BIGINT, Name STRING", "id INT, more INT"),
                ["column id is", "column name is only"],
            ),
            (COLUMNS + ", Country STRING", ["column country appears twice"]),
            (COLUMNS + ", NAME STRING", ["column name appears twice"]),
        ],
    )
    def test_another_schema_is_refused_before_anything_is_written(
        self, catalog: Catalog, table: CatalogTable, columns: str, named: list[str]
    ):
        catalog.ensure_table(table)
        fields = [parse_ddl(column).fields[0] for column in _split(columns)]
        other = replace(table, columns=replace(table.columns, fields=tuple(fields)))
        with pytest.raises(SchemaConflict) as caught:
            catalog.ensure_table(other)
        with pytest.raises(SchemaConflict) as checked:
            catalog.check_table(other)
        assert checked.value.to_dict() == caught.value.to_dict()
        for text in named:
            assert text in caught.value.message
        assert len(caught.value.fields["conflicts"]) == len([n for n in named if "column" in n])
        assert catalog.ensure_table(table).added == ()

    @pytest.mark.parametrize(
        "change",
        [
            {"partition_columns": parse_ddl("date STRING")},
            {"partition_columns": parse_ddl("country STRING, date STRING")},
            {"partition_columns": parse_ddl("date DATE, country STRING")},
            {"format": "orc"},
            {"location": "file:///another/lake/ods.db/clicks"},
        ],
    )
    def test_another_table_is_refused(self, catalog: Catalog, table: CatalogTable, change: dict):
        catalog.ensure_table(table)
        with pytest.raises(SchemaConflict, match="in the catalog"):
            catalog.ensure_table(replace(table, **change))

    def test_names_are_compared_without_case(self, catalog: Catalog, table: CatalogTable):
        catalog.ensure_table(table)
        upper = replace(
            table,
            name=table.name.upper(),
            columns=parse_ddl(COLUMNS.replace("Name", "nAME").replace("id ", "ID ")),
        )
        change = catalog.ensure_table(upper)
        assert (change.is_created, change.added) == (False, ())

    def test_partitions_are_added_once(self, catalog: Catalog, table: CatalogTable):
        catalog.ensure_table(table)
        some = [partition("2026-11-20"), partition("2026-11-21"), partition("2026-11-20")]
        assert catalog.add_partitions(table, some) == 2
        assert catalog.add_partitions(table, [*some, partition("2026-11-22")]) == 1
        assert catalog.add_partitions(table, []) == 0
        assert self.seals_of(catalog, table) == {
            f"date=2026-11-{day}/country=CN": None for day in (20, 21, 22)
        }

    def test_a_partition_needs_its_table(self, catalog: Catalog, table: CatalogTable):
        for do in (
            lambda: catalog.add_partitions(table, [partition("2026-11-21")]),
            lambda: catalog.mark_sealed(table, [PartitionSeal(partition("2026-11-21"), 1, 1)]),
        ):
            with pytest.raises(CatalogError, match=table.name):
                do()

    @pytest.mark.parametrize("path", ["date=2026-11-21", "country=CN/date=2026-11-21", "a=1/b=2"])
    def test_a_partition_of_another_table_is_a_mistake(
        self, catalog: Catalog, table: CatalogTable, path: str
    ):
        catalog.ensure_table(table)
        good = partition("2026-11-21")
        with pytest.raises(InvariantBroken, match="a partition of"):
            catalog.add_partitions(table, [good, CatalogPartition(path)])
        assert self.seals_of(catalog, table) == {}

    def test_seals_go_up_only_and_register(self, catalog: Catalog, table: CatalogTable):
        catalog.ensure_table(table)
        near, new = partition("2026-11-20"), partition("2026-11-21")
        catalog.add_partitions(table, [near])
        catalog.mark_sealed(table, [PartitionSeal(near, 1, 10), PartitionSeal(new, 2, 20)])
        assert self.seals_of(catalog, table) == {near.path: (1, 10), new.path: (2, 20)}
        late = [PartitionSeal(near, 2, 12), PartitionSeal(near, 3, 13), PartitionSeal(new, 1, 19)]
        catalog.mark_sealed(table, late)
        catalog.mark_sealed(table, late)
        assert catalog.add_partitions(table, [near, new]) == 0
        catalog.mark_sealed(table, [])
        assert self.seals_of(catalog, table) == {near.path: (3, 13), new.path: (2, 20)}

    def test_partitions_are_dropped_once_and_may_come_again(
        self, catalog: Catalog, table: CatalogTable
    ):
        catalog.ensure_table(table)
        old, new = partition("2026-11-20"), partition("2026-11-21")
        catalog.add_partitions(table, [old, new])
        catalog.mark_sealed(table, [PartitionSeal(old, 1, 10)])
        assert catalog.drop_partitions(table, [old]) == 1
        assert catalog.drop_partitions(table, [old]) == 0
        assert catalog.drop_partitions(table, []) == 0
        assert catalog.add_partitions(table, [old, new]) == 1
        assert self.seals_of(catalog, table).get(old.path) is None, "nor is it sealed"

    def test_partitions_of_a_table_that_is_not_there_are_not_there(
        self, catalog: Catalog, table: CatalogTable
    ):
        assert catalog.drop_partitions(table, [partition("2026-11-20")]) == 0

    def test_what_readers_are_reported_is_observed(self, catalog: Catalog, table: CatalogTable):
        assert catalog.observe(table, []) is None
        catalog.ensure_table(table)
        seen = catalog.observe(table, [])
        assert (seen.differences, seen.partitions, seen.elsewhere) == ((), frozenset(), {})
        odd = partition("2026-11-21", "a%2Fb%3D it%27s 100%25 Ä")
        catalog.add_partitions(table, [partition("2026-11-20"), odd])
        seen = catalog.observe(table, [odd, partition("2020-01-01")])
        assert seen.partitions == {("2026-11-20", "CN"), ("2026-11-21", "a/b= it's 100% Ä")}
        assert (seen.differences, seen.elsewhere) == ((), {})

    def test_another_table_is_observed_with_all_differences(
        self, catalog: Catalog, table: CatalogTable
    ):
        catalog.ensure_table(table)
        columns = COLUMNS.replace("BIGINT", "INT").replace("Name STRING", "more DATE")
        other = replace(table, columns=parse_ddl(columns), location=table.location + "-2")
        seen = catalog.observe(other, [])
        for text in (
            "column id is",
            "column name is only",
            "column more is missing",
            f"{table.location[-20:]}-2",
        ):
            assert any(text in each for each in seen.differences), text
        assert len(seen.differences) == 4

    def test_a_closed_catalog_answers_again(self, catalog: Catalog, table: CatalogTable):
        catalog.close()
        assert catalog.ensure_table(table).is_created
        catalog.close()
        catalog.close()
        assert catalog.add_partitions(table, [partition("2026-11-21")]) == 1
        assert catalog.describe()


def _split(columns: str) -> list[str]:
    """Split at the commas between columns: `parse_ddl` refuses names that are there twice."""
    parts, depth, start = [], 0, 0
    for index, character in enumerate(columns):
        depth += (character in "<(") - (character in ">)")
        if character == "," and not depth:
            parts.append(columns[start:index])
            start = index + 1
    return [*parts, columns[start:]]
