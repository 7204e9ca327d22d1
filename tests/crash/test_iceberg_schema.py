"""Columns of an Iceberg table follow the job file, in one commit, or the change is refused."""

from decimal import Decimal
from pathlib import Path

import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.crash.harness import FAULTS
from tests.crash.iceberg_job import TABLE, IcebergWorld, append, build_job, iceberg_world, land

from ashore.errors import SchemaConflict

OLD = {
    "n": "INT",
    "ratio": "FLOAT",
    "amount": "DECIMAL(5,2)",
    "place": "STRUCT<a: INT>",
    "many": "ARRAY<INT>",
    "keyed": "MAP<STRING, INT>",
}
NEW = {
    "n": "BIGINT",
    "ratio": "DOUBLE",
    "amount": "DECIMAL(9,2)",
    "place": "STRUCT<a: BIGINT, b: STRING>",
    "many": "ARRAY<BIGINT>",
    "keyed": "MAP<STRING, BIGINT>",
    "added": "STRING",
}
FIELDS = {"n": 7, "ratio": 0.5, "amount": "1.25", "place": {"a": 7}, "many": [7], "keyed": {"k": 7}}
WIDE = {
    "n": 2**40,
    "ratio": 0.1,
    "amount": "1234567.25",
    "place": {"a": 2**40, "b": "x"},
    "many": [2**40],
    "keyed": {"k": 2**40},
    "added": "y",
}


def ddl(columns: dict[str, str]) -> str:
    own = "date STRING, ts BIGINT, at TIMESTAMP"
    return ", ".join([own, *(f"{name} {kind}" for name, kind in columns.items())])


def world_of(directory: Path, columns: dict[str, str]) -> IcebergWorld:
    """A world with records 5 and 6 that have all columns."""
    world = iceberg_world(directory, build_job(schema=ddl(columns)))
    append(world.source, [5, 6], **FIELDS)
    return world


def change(world: IcebergWorld, columns: dict[str, str]) -> None:
    world.job = build_job(schema=ddl(columns))


@pytest.mark.parametrize("when", ["before", "after"])
def test_columns_are_widened_and_added_in_one_commit(when: str, tmp_path: Path) -> None:
    """Also while a batch with the former columns is prepared, or is not known to be committed."""
    process = world_of(tmp_path, OLD).start()
    assert process.run() is None
    kinds = [each.kind for each in process.faulty.calls]
    last = len(kinds) - kinds[::-1].index("commit_table")
    world = world_of(tmp_path, OLD)
    world.start([FAULTS[f"stops {when}"](last)]).run()

    change(world, NEW)
    append(world.source, [7], **WIDE)
    land(world)

    table = world.catalog().load_table(TABLE)
    assert len(table.metadata.schemas) == 2
    rows = {row["ts"]: row for row in table.scan("n > 0").to_arrow().to_pylist()}
    assert sorted(rows) == [5, 6, 7]
    former = {"n": 7, "ratio": 0.5, "amount": Decimal("1.25"), "place": {"a": 7, "b": None}}
    former |= {"many": [7], "keyed": [("k", 7)], "added": None}
    assert {name: rows[5][name] for name in NEW} == former
    assert {name: rows[7][name] for name in NEW} == WIDE | {
        "amount": Decimal("1234567.25"),
        "keyed": [("k", 2**40)],
    }
    assert [row["ts"] for row in table.scan(f"n == {2**40}").to_arrow().to_pylist()] == [7]
    assert [row["ts"] for row in table.scan("amount > 2").to_arrow().to_pylist()] == [7]
    land(world, range(8, 10))
    assert len(world.catalog().load_table(TABLE).scan().to_arrow()) == 10


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("n", "STRING"),
        ("n", "DOUBLE"),
        ("n", "DECIMAL(12,2)"),
        ("n", "SMALLINT"),
        ("ratio", "DECIMAL(9,2)"),
        ("amount", "DECIMAL(9,3)"),
        ("amount", "DECIMAL(4,2)"),
        ("place", "STRUCT<a: STRING>"),
        ("many", "ARRAY<STRING>"),
        ("keyed", "MAP<STRING, STRING>"),
    ],
)
def test_a_type_that_the_format_does_not_change_is_refused(
    name: str, kind: str, tmp_path: Path
) -> None:
    world = world_of(tmp_path, OLD)
    land(world)
    before = world.catalog().load_table(TABLE).metadata_location
    change(world, OLD | {name: kind})
    world.accepted_by = "an operator"

    ended = world.start().run()

    assert isinstance(ended, SchemaConflict)
    assert f"column {name}" in ended.message
    assert world.catalog().load_table(TABLE).metadata_location == before


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_column_that_the_job_drops_is_dropped_once_it_is_accepted(
    when: str, tmp_path: Path
) -> None:
    """Also while a batch with the column is prepared, or is not known to be committed.

    One that another writer has added stays. A column of the name that comes back is another one.
    """
    process = world_of(tmp_path, OLD).start()
    assert process.run() is None
    kinds = [each.kind for each in process.faulty.calls]
    last = len(kinds) - kinds[::-1].index("commit_table")
    world = world_of(tmp_path, OLD)
    world.start([FAULTS[f"stops {when}"](last)]).run()
    with world.catalog().load_table(TABLE).update_schema() as update:
        update.add_column("of_others", StringType())
    change(world, {name: kind for name, kind in OLD.items() if name != "amount"})
    append(world.source, [7], **FIELDS)
    before = world.catalog().load_table(TABLE).metadata_location
    assert isinstance(world.start().run(), SchemaConflict)
    assert "amount" in world.catalog().load_table(TABLE).schema().column_names
    world.accepted_by = "an operator"
    land(world)

    table = world.catalog().load_table(TABLE)
    assert before != table.metadata_location
    assert "amount" not in table.schema().column_names
    assert "of_others" in table.schema().column_names
    assert sorted(table.scan().to_arrow().column("ts").to_pylist()) == list(range(8))

    world.accepted_by = ""
    change(world, OLD)
    land(world)
    append(world.source, [8], **FIELDS)
    land(world)
    rows = world.catalog().load_table(TABLE).scan("ts >= 6").to_arrow().to_pylist()
    assert {row["ts"]: row["amount"] for row in rows} == {6: None, 7: None, 8: Decimal("1.25")}


def create_table(world: IcebergWorld, *others: NestedField) -> None:
    """Create the job's table as another program has done."""
    schema = Schema(
        NestedField(1, "date", StringType(), required=True),
        NestedField(2, "ts", LongType(), required=True),
        *others,
    )
    spec = PartitionSpec(PartitionField(1, 1000, IdentityTransform(), "date"))
    catalog = world.catalog()
    catalog.create_namespace_if_not_exists("ods")
    catalog.create_table(TABLE, schema, f"{world.lake.root}ods.db/clicks", spec)


def test_columns_are_made_nullable(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    create_table(world)
    land(world)
    table = world.catalog().load_table(TABLE)
    assert not any(field.required for field in table.schema().fields)
    assert len(table.metadata.schemas) == 2
    assert len(table.scan().to_arrow()) == 5


def test_a_column_that_must_have_values_and_gets_none_is_refused(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    create_table(world, NestedField(3, "of_others", LongType(), required=True))
    ended = world.start().run()
    assert isinstance(ended, SchemaConflict)
    assert "of_others is NOT NULL" in ended.message
    assert world.catalog().load_table(TABLE).current_snapshot() is None
