"""Which tables a checkpoint has, and what their columns are called."""

from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack
from tests.unit.plans.test_version_changes import graph_of

from ashore.errors import CheckpointUnfit
from ashore.plans.graph import PlanGraph
from ashore.plans.version import JobVersion, NamedOperator, Releases, StateForm
from ashore.queries.state.layout import (
    OperatorFile,
    SchemaField,
    Store,
    StoreInfo,
    StoreSchema,
    StoreSchemaPath,
)
from ashore.queries.state.required_files import Required
from ashore.queries.state.state_tables import PlannedTable, choose_tables, plan_tables
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.inspect import read_schemas


def tables_of(case: str, directory: Path) -> tuple[PlannedTable, ...]:
    survey = take_survey(opened(unpack(case, directory)))
    return plan_tables(survey.required, read_schemas(survey))


def version_of(graph: PlanGraph) -> JobVersion:
    named = (NamedOperator(0, "3f2a9c1b", "aggregate by bidder"),)
    releases, form = Releases("0.1.0", "4.2.0", "x"), StateForm(1, "RocksDB", 2, "")
    return JobVersion("clicks", "main", releases, (), (), form, named, graph)


def test_a_join_has_a_table_for_each_side_and_its_stores_by_name(tmp_path: Path) -> None:
    tables = tables_of("join-2", tmp_path)
    chosen = choose_tables(tables, (None, None), None, "here")
    assert [(each.name, each.is_bag) for each in chosen] == [("left", True), ("right", True)]
    (one,) = choose_tables(tables, ("0", "left-keyToNumValues"), None, "here")
    assert one.options == (("storeName", "left-keyToNumValues"),)
    assert not one.is_bag


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (("1", None), r"here has no operator 1, it has 0 or symmetricHashJoin$"),
        ((None, "lefd"), "here has no store lefd, it has left, right"),
    ],
)
def test_what_is_not_there_is_refused_with_what_is(
    tmp_path: Path, wanted: tuple[str | None, str | None], message: str
) -> None:
    with pytest.raises(CheckpointUnfit, match=message) as caught:
        choose_tables(tables_of("join-3", tmp_path), wanted, None, "here")
    assert caught.value.hint


def test_a_query_without_state_has_no_table(tmp_path: Path) -> None:
    with pytest.raises(CheckpointUnfit, match="here has no state"):
        choose_tables(tables_of("stateless", tmp_path), (None, None), None, "here")


def fields(*columns: str) -> tuple[SchemaField, ...]:
    split = (each.split(" ", 1) for each in columns)
    return tuple(SchemaField(name, kind, is_nullable=True) for name, kind in split)


def named(schema: StoreSchema, graph: PlanGraph) -> tuple[tuple[str, ...], tuple[str, ...], bool]:
    info = StoreInfo("default", 2, (), False, {})
    says = OperatorFile(0, "stateStoreSave", (info,), 1, {})
    required = Required.__new__(Required)
    object.__setattr__(required, "operators", {0: says})
    tables = plan_tables(required, {StoreSchemaPath(Store(0, 0)): (schema,)})
    (table,) = choose_tables(tables, ("3f2a9c1b", None), version_of(graph), "here")
    return table.keys, table.values, table.is_named


def test_columns_have_the_names_of_the_sql_where_the_version_keeps_the_same() -> None:
    graph = graph_of("q11")
    (node,) = [each for each in graph.nodes if each.state]
    assert node.state is not None
    kinds = ["long" if each.type == "bigint" else "struct<>" for each in node.state.keys]
    spark = fields(*(f"spark{at} {kind}" for at, kind in enumerate(kinds)))
    count = fields("count long")

    keys, values, is_named = named(StoreSchema("default", spark, count), graph)
    assert is_named
    assert values == ("bid_count",)
    assert "bidder" in keys

    other = replace(count[0], type="double")
    assert named(StoreSchema("default", spark, (other,)), graph)[1] == ()
    assert named(StoreSchema("default", spark[:1], (other,)), graph) == ((), (), False)
    # A form of state that repeats keys before the values.
    again = StoreSchema("default", spark, (*spark, *count))
    assert named(again, graph)[1] == (*(each.name for each in spark), "bid_count")


def test_what_the_query_does_not_hand_on_is_named_by_what_it_computes() -> None:
    graph = replace(graph_of("q11"), columns=())
    (node,) = [each for each in graph.nodes if each.state]
    assert node.state is not None
    kinds = ["long" if each.type == "bigint" else "struct<>" for each in node.state.keys]
    spark = fields(*(f"spark{at} {kind}" for at, kind in enumerate(kinds)))
    keys, values, _ = named(StoreSchema("default", spark, fields("count long")), graph)
    assert values == ("count(*)",)
    windows = [key for key, kind in zip(keys, kinds, strict=True) if kind == "struct<>"]
    assert all(each.startswith("spark") for each in windows), "a window's text is no name"
