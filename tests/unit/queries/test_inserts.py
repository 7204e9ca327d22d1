"""An INSERT that fills another table is taken for one of before only where that is certain."""

from dataclasses import replace

import pytest
from tests.unit.plans.test_version_changes import graph_of

from ashore.errors import JobFileInvalid, QueryRefused
from ashore.log.fold import EMPTY, Fold
from ashore.log.query import PlanState, QueryState
from ashore.plans.graph import StoredPlan, is_released, read_stored, released_plan, write_stored
from ashore.plans.query import PlannedQuery
from ashore.queries.change.check import find_moved, read_renames


def plan_of(graph: str, table: str) -> StoredPlan:
    return StoredPlan("one", (f"INSERT INTO {table} {graph}",), (), graph_of(graph))


def fold_of(plan: StoredPlan) -> Fold:
    state = QueryState("q", 3, "lineage", "")
    return replace(EMPTY, query=state, plan=PlanState("digest", write_stored(plan)))


def folds(**graphs: str) -> dict[str, Fold]:
    return {name: fold_of(plan_of(graph, name)) for name, graph in graphs.items()}


def planned(**graphs: str) -> dict[str, PlannedQuery]:
    return {
        name: PlannedQuery(name, name, plan_of(graph, name), name) for name, graph in graphs.items()
    }


@pytest.mark.parametrize(
    ("before", "after", "renames", "expected"),
    [
        ({"a": "q11"}, {"b": "q11"}, {}, {"a": "b"}),
        ({"a": "q11"}, {"b": "q12"}, {}, {}),  # another query
        ({"a": "q11"}, {"b": "q12"}, {"a": "b"}, {"a": "b"}),  # a person says so
        ({"a": "q11"}, {"a": "q11", "b": "q11"}, {}, {}),  # nothing is gone
        ({"a": "q11", "b": "q11"}, {"c": "q11"}, {}, {}),  # two that are alike
        ({"a": "q11"}, {"b": "q11", "c": "q11"}, {}, {}),
        ({"a": "q11"}, {"b": "q11", "c": "q11"}, {"a": "c"}, {"a": "c"}),
        ({"a": "q11", "b": "q11"}, {"c": "q11"}, {"a": ""}, {"b": "c"}),  # one is dropped
        ({"a": "q11"}, {"b": "q11"}, {"a": ""}, {}),
    ],
)
def test_only_what_is_certain_moves(
    before: dict[str, str],
    after: dict[str, str],
    renames: dict[str, str],
    expected: dict[str, str],
) -> None:
    assert find_moved(folds(**before), planned(**after), renames) == expected


@pytest.mark.parametrize("renames", [{"x": "b"}, {"a": "x"}, {"b": "a"}])
def test_a_rename_of_nothing_is_refused(renames: dict[str, str]) -> None:
    with pytest.raises(QueryRefused, match="--rename"):
        find_moved(folds(a="q11"), planned(b="q12"), renames)


def test_a_query_that_was_dropped_before_does_not_move() -> None:
    released = released_plan("one")
    assert is_released(read_stored(write_stored(released)))
    assert find_moved({"a": fold_of(released)}, planned(b="q11"), {}) == {}
    assert find_moved({"a": EMPTY}, planned(b="q11"), {}) == {}


def test_what_is_typed_is_read() -> None:
    assert read_renames(["ods.a=ods.b", "ods.c="]) == {"ods.a": "ods.b", "ods.c": ""}


@pytest.mark.parametrize("typed", [["a"], ["=b"], ["a=b", "a=c"], ["a=c", "b=c"]])
def test_what_is_typed_wrongly_is_named(typed: list[str]) -> None:
    with pytest.raises(JobFileInvalid, match="--rename"):
        read_renames(typed)
