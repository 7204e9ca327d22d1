"""Ids that SQL gives: where they stand, what is left without them, and whom they name."""

from dataclasses import replace
from pathlib import Path

import pytest

from ashore.errors import QueryRefused
from ashore.plans.graph import PlanGraph
from ashore.plans.hints import (
    WrittenOperator,
    check_all_placed,
    find_ids,
    id_at,
    place_ids,
    strip_ids,
)
from ashore_lab.testing.graph_files import read_graph

PLANS = Path(__file__).parents[2] / "golden" / "plans"
TEXT = """
SELECT /*+ id('outer') */ w, count(*) FROM
  (SELECT /*+ BROADCAST(t), ID( "inner" ) */ DISTINCT a.id
   FROM clicks a JOIN views b ON a.id = b.id)
GROUP BY w
UNION ALL SELECT max(x) FROM (SELECT 1 /*+ id('not right after') */) GROUP BY y
UNION ALL SELECT /*+ a(1) */ /*+ id('third') */ z FROM u GROUP BY '/*+ id(''no'') */'
-- /*+ id('comment') */
"""


@pytest.mark.parametrize(
    ("clause", "given"),
    [
        ("GROUP BY w", "outer"),
        ("SELECT /*+ id('outer')", "outer"),
        ("JOIN views", "inner"),
        ("DISTINCT", "inner"),
        ("GROUP BY y", ""),
        ("GROUP BY '", "third"),
    ],
)
def test_an_id_is_of_the_innermost_select(clause: str, given: str) -> None:
    assert id_at(TEXT, TEXT.index(clause)) == given


def test_ids_are_found_in_hints_alone() -> None:
    assert find_ids(TEXT) == ("outer", "inner", "not right after", "third")
    assert find_ids("SELECT '/*+ id(''x'') */', id('y') -- /*+ id('z') */") == ()


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("SELECT /*+ id('x') */ a", "SELECT   a"),
        ("SELECT /*+ id('x'), BROADCAST(t, u) */ a", "SELECT /*+ BROADCAST(t, u) */ a"),
        ('SELECT /*+ BROADCAST(t), id("x"), MERGE(u) */ a',
         "SELECT /*+ BROADCAST(t), MERGE(u) */ a"),
        ("SELECT /*+ BROADCAST(t) */ '/*+ id(1) */'", "SELECT /*+ BROADCAST(t) */ '/*+ id(1) */'"),
        ("SELECT id('x')", "SELECT id('x')"),
    ],
)  # fmt: skip
def test_a_text_without_its_ids(text: str, left: str) -> None:
    assert strip_ids(text) == left


def graph_of(name: str) -> PlanGraph:
    return read_graph((PLANS / f"{name}.json").read_text("utf-8"))


def written(*ids: str) -> list[WrittenOperator]:
    """The operators of q9: an aggregate over a join."""
    sources = frozenset(range(2))
    kinds = ("aggregate", "join")
    return [WrittenOperator(kind, sources, each) for kind, each in zip(kinds, ids, strict=True)]


def test_ids_are_placed_where_the_plan_has_what_the_sql_has() -> None:
    graph = graph_of("q9")
    placed = place_ids(graph, written("best", ""))
    assert [node.given for node in placed.nodes if node.state] == ["best", ""]
    assert place_ids(graph, written("", "")) == graph
    check_all_placed(placed, ["best"])
    with pytest.raises(QueryRefused, match=r"`id\('other'\)` names no operator"):
        check_all_placed(placed, ["best", "other"])


def test_what_is_ambiguous_is_refused() -> None:
    graph = graph_of("q9")
    with pytest.raises(QueryRefused, match=r"`id\('best'\)` names two operators"):
        place_ids(graph, written("best", "best"))
    aggregate, join = written("best", "")
    for others in (
        [aggregate],
        [join, aggregate],
        [aggregate, replace(join, sources=frozenset({0}))],
        [aggregate, join, join],
    ):
        with pytest.raises(QueryRefused, match="Spark plans other operators"):
            place_ids(graph, others)


@pytest.mark.parametrize("name", ["", "a b", "x" * 65, "3f2a9c1b", "3f2a9c1b-2", "a, b"])
def test_an_id_that_could_be_taken_for_something_else_is_refused(name: str) -> None:
    with pytest.raises(QueryRefused, match="cannot be the id"):
        place_ids(graph_of("q9"), written("fine", name) if name else written("a.b", ""))
