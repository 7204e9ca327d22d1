"""What a query makes otherwise where it is run again."""

import pytest
from tests.unit.plans.trees import CLICKS

from ashore.plans.checks import find_random, warn_of_replays
from ashore.plans.graph import PlanColumn, PlanGraph, PlanNode, Term, TermKind

COLUMN = Term(TermKind.COLUMN, "id", "bigint", source=0)


def graph_of(*terms: Term, shown: int = 0, **filters: int) -> PlanGraph:
    nodes = [PlanNode("FilterExec", (1,), (("condition", (each,)),)) for each in filters.values()]
    nodes.append(PlanNode("StreamingRelationExec", source=0))
    return PlanGraph((CLICKS,), terms, tuple(nodes), (PlanColumn("a", "double", shown),))


def test_what_is_made_of_a_random_value_is_random() -> None:
    seed = Term(TermKind.LITERAL, "7", "bigint")
    random = Term(TermKind.CALL, "Rand", arguments=(0,))
    plan = graph_of(seed, random, COLUMN, Term(TermKind.CALL, "Multiply", arguments=(1, 2)))
    assert find_random(plan) == {1, 3}
    (warning,) = warn_of_replays(plan, [])
    assert warning.startswith("`rand()` has another value")


def test_a_condition_warns_as_a_column_does_and_once() -> None:
    plan = graph_of(COLUMN, Term(TermKind.CALL, "Uuid"), shown=1, condition=1)
    (warning,) = warn_of_replays(plan, ["SELECT uuid()"])
    assert warning.startswith("`uuid()` has another value")


@pytest.mark.parametrize(
    ("text", "warned"),
    [
        ("INSERT INTO t SELECT id, current_timestamp() FROM c", "current_timestamp"),
        ("INSERT INTO t SELECT id, CURRENT_DATE AS day FROM c", "CURRENT_DATE"),
        ("INSERT INTO t SELECT id, now() FROM c", "now()"),
        ("INSERT INTO t SELECT id, unix_timestamp() FROM c", "unix_timestamp()"),
        ("INSERT INTO t SELECT id, unix_timestamp(ts), now FROM c", None),
        ("INSERT INTO t SELECT 'current_timestamp' /* now() */ FROM c", None),
    ],
)
def test_the_clock_is_seen_in_the_text_as_no_plan_shows_it(text: str, warned: str | None) -> None:
    found = warn_of_replays(graph_of(COLUMN), ["CREATE TEMPORARY VIEW c AS SELECT 1", text])
    assert [each.split("`")[1] for each in found] == ([warned] if warned else [])
