"""Which columns of its topics a query reads, by its graph."""

import pytest

from ashore.plans.graph import (
    DECODED,
    PlanColumn,
    PlanGraph,
    PlanNode,
    PlanSource,
    Term,
    TermKind,
    columns_read,
)

CLICKS = PlanSource("clicks", "kafka", "clicks,more", True)
ORDERS = PlanSource("orders", "kafka", "orders", True)
TERMS = (
    Term(TermKind.RECORD, DECODED, source=0),
    Term(TermKind.CALL, "IsNull", "boolean", (0,)),
    Term(TermKind.COLUMN, "user", "bigint", source=0),
    Term(TermKind.COLUMN, "id", "bigint", source=1),
    Term(TermKind.FIELD, "x", "bigint", (0,)),
)


def graph_over(terms: tuple[Term, ...], *nodes: PlanNode, shown: int = 2) -> PlanGraph:
    return PlanGraph((CLICKS, ORDERS), terms, nodes, (PlanColumn("user", "bigint", shown),))


def test_columns_are_those_of_the_topics_and_the_record_may_be_checked_for_null() -> None:
    graph = graph_over(
        TERMS[:4], PlanNode("FilterExec", expressions=(("condition", (1,)),), taken=((2, 0),))
    )
    assert columns_read(graph, ["clicks", "more"]) == {"user"}
    assert columns_read(graph, ["orders"]) == {"id"}
    assert columns_read(graph, ["others"]) == frozenset()


@pytest.mark.parametrize(
    "graph",
    [
        graph_over(TERMS),  # a field that no column stands for
        graph_over(TERMS[:4], shown=0),
        graph_over(TERMS[:4], PlanNode("FilterExec", expressions=(("condition", (0,)),))),
    ],
    ids=["argument", "result", "expression"],
)
def test_a_record_that_is_taken_whole_may_need_all_columns(graph: PlanGraph) -> None:
    assert columns_read(graph, ["clicks", "more"]) is None
    assert columns_read(graph, ["orders"]) == {"id"}
