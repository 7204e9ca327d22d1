"""From plans to graphs: which nodes there are, and what an operator keeps."""

from dataclasses import replace

import pytest
from tests.unit.plans.trees import (
    CLICKS,
    INFO,
    VIEWS,
    aggregate,
    attribute,
    decoded,
    leaf,
    literal,
    node,
    plan,
    planned,
)

from ashore.errors import InvariantBroken, SparkUnknown
from ashore.plans.build import BELIEVED, build_graph
from ashore.plans.graph import JoinSide, KeptColumn, PlanColumn, PlanGraph, PlanNode
from ashore.plans.operators import describe_operators
from ashore.plans.physical import Node, PlannedJoin, PlannedNode, PlannedSide, StateInfo

VALUE = attribute("value", 1, "binary")
OTHER = attribute("value", 2, "binary")
ID = decoded(VALUE)
COUNT = node("Count", literal("1"))


def graph_of(root: PlannedNode) -> PlanGraph:
    return build_graph(plan(root, CLICKS, VIEWS, n1=0, n2=1))


def chain(below: PlannedNode, *functions: str, key: int = 7, state: int = 0) -> PlannedNode:
    """The phases of an aggregate of a stream, as Spark plans them; `key` is watermarked."""
    by = (attribute("k", key),)

    def phase(child: PlannedNode, mode: str) -> PlannedNode:
        filters = (node("IsNotNull", ID),) if mode == "Partial" else ()
        found = tuple(aggregate(node(each, ID), *filters, mode=mode) for each in functions)
        made = planned("HashAggregateExec", child, aggregateExpressions=found)
        buffers = tuple((attribute("sum", 90), attribute("n", 91, "long")) for _ in functions)
        return replace(made, buffers=buffers if mode == "Partial" else ())

    merged = phase(planned("ShuffleExchangeExec", phase(below, "Partial")), "PartialMerge")
    restored = planned("StateStoreRestoreExec", planned("SortExec", merged, **{"global": False}))
    again = replace(phase(restored, "PartialMerge"), watermarked=frozenset({7}))
    save = planned("StateStoreSaveExec", again, keyExpressions=by)
    save = replace(save, state=StateInfo(state, 32))
    return phase(planned("WholeStageCodegenExec", save), "Final")


def test_an_aggregate_is_one_node_with_the_filters_of_its_first_phase() -> None:
    found = graph_of(chain(leaf(VALUE), "Average"))
    save, source = found.nodes
    assert (save.kind, save.inputs) == ("StateStoreSaveExec", (1,))
    assert source == PlanNode("StreamingRelationExec", source=0)
    (function,) = save.terms("aggregateExpressions")
    assert found.terms[function].filters
    assert save.state is not None
    assert save.state.has_event_time
    assert save.state.columns == (
        KeptColumn("bigint", function, "sum"),
        KeptColumn("bigint", function, "n"),
    )
    assert not graph_of(chain(leaf(VALUE), "Max", key=8)).nodes[0].state.has_event_time


@pytest.mark.parametrize("functions", [("Max",), ()], ids=["functions", "distinct"])
def test_an_aggregate_over_another_ends_where_that_one_begins(functions: tuple[str, ...]) -> None:
    inner = chain(leaf(VALUE), "Sum", state=1)
    found = graph_of(chain(inner, *functions))
    assert [each.kind for each in found.nodes] == [
        "StateStoreSaveExec",
        "StateStoreSaveExec",
        "StreamingRelationExec",
    ]
    assert [each.state.operator_id for each in found.nodes[:2]] == [0, 1]
    kinds = [str(each.kind) for each in describe_operators(found)]
    assert kinds == ["aggregate" if functions else "distinct", "aggregate"]


def test_sessions_are_merged_before_they_are_kept() -> None:
    first = planned("HashAggregateExec", leaf(VALUE), aggregateExpressions=())
    merged = planned("MergingSessionsExec", first, aggregateExpressions=())
    restored = planned("SessionWindowStateStoreRestoreExec", merged)
    again = planned("MergingSessionsExec", restored, aggregateExpressions=())
    save = planned("SessionWindowStateStoreSaveExec", again, sessionExpression=ID)
    found = graph_of(replace(save, state=INFO))
    assert [each.kind for each in found.nodes] == [save.kind, "StreamingRelationExec"]


def test_a_batch_of_a_table_may_be_aggregated_in_phases() -> None:
    partial = planned("HashAggregateExec", leaf(VALUE), aggregateExpressions=(aggregate(COUNT),))
    final = planned("HashAggregateExec", partial, aggregateExpressions=())
    assert [each.kind for each in graph_of(final).nodes] == [
        "HashAggregateExec",
        "HashAggregateExec",
        "StreamingRelationExec",
    ]


def test_an_aggregate_whose_phases_are_not_known_is_a_bug() -> None:
    save = planned("StateStoreSaveExec", leaf(VALUE), keyExpressions=())
    with pytest.raises(InvariantBroken):
        graph_of(replace(save, state=INFO))


def test_what_moves_rows_is_no_node_and_a_sort_of_all_rows_is_one() -> None:
    moved = planned("ProjectExec", planned("InputAdapter", leaf(VALUE)), projectList=())
    assert [each.kind for each in graph_of(moved).nodes] == ["StreamingRelationExec"]
    order = {"global": True, "sortOrder": (node("SortOrder", ID),)}
    (sort, _) = graph_of(planned("SortExec", moved, **order)).nodes
    assert (sort.kind, sort.options) == ("SortExec", (("global", "true"),))
    assert len(sort.terms("sortOrder")) == 1


def believed(name: str = BELIEVED) -> Node:
    """What a view leaves out as too far ahead; the time differs with each plan."""
    struct = node("CreateNamedStruct", literal(name, "string"), attribute("ts", 3))
    return node("LessThanOrEqual", struct, literal("[1795003200000000]", "struct"))


def test_what_is_too_far_ahead_to_be_believed_is_no_part_of_what_a_plan_means() -> None:
    limit = node("EqualTo", attribute("id", 1), literal("5"))
    without = graph_of(planned("FilterExec", leaf(attribute("id", 1)), condition=limit))
    assert (
        graph_of(
            planned(
                "FilterExec", leaf(attribute("id", 1)), condition=node("And", limit, believed())
            )
        )
        == without
    )
    alone = planned("FilterExec", leaf(attribute("id", 1)), condition=believed())
    assert graph_of(alone) == graph_of(leaf(attribute("id", 1)))
    # Another struct is the author's own.
    own = planned("FilterExec", leaf(attribute("id", 1)), condition=believed("mine"))
    assert len(graph_of(own).nodes) == 2
    three = node("And", node("And", limit, believed()), limit)
    both = node("And", limit, limit)
    assert graph_of(planned("FilterExec", leaf(attribute("id", 1)), condition=three)) == graph_of(
        planned("FilterExec", leaf(attribute("id", 1)), condition=both)
    )


def test_a_join_keeps_the_columns_of_both_sides() -> None:
    left = replace(planned("ShuffleExchangeExec", leaf(VALUE)), columns=(attribute("n", 3), VALUE))
    left = replace(left, watermarked=frozenset({1}))
    right = replace(planned("ShuffleExchangeExec", leaf(OTHER)), columns=(OTHER,))
    join = planned(
        "StreamingSymmetricHashJoinExec",
        left,
        right,
        leftKeys=(ID,),
        rightKeys=(decoded(OTHER),),
        joinType={"object": "x.LeftOuter$"},
        condition=None,
    )
    condition = node("GreaterThan", ID, decoded(OTHER))
    answers = PlannedJoin(condition, PlannedSide(True, VALUE), PlannedSide(False, None))
    found = graph_of(replace(join, state=INFO, join=answers))
    made = found.nodes[0]
    assert made.inputs == (1, 2)
    assert [each.source for each in found.nodes[1:]] == [0, 1]
    assert made.option("joinType") == "LeftOuter"
    assert [name for name, _ in made.expressions] == ["leftKeys", "rightKeys", "condition"]
    assert made.state is not None
    assert [(each.side, each.type) for each in made.state.columns] == [
        ("left", "bigint"),
        ("left", "binary"),
        ("right", "binary"),
    ]
    early = made.state.columns[1].term
    assert made.state.sides == (JoinSide(True, early, (early,)), JoinSide(False))


def test_an_operator_that_is_not_known_is_a_node_and_is_not_described() -> None:
    strange = planned("StrangeExec", leaf(VALUE), keyExpressions=(ID,), limit=5, secret="x")
    found = graph_of(replace(strange, state=INFO))
    assert found.nodes[0].options == (("limit", "5"),)
    assert len(found.nodes[0].terms("keyExpressions")) == 1
    with pytest.raises(SparkUnknown, match="StrangeExec"):
        describe_operators(found)


def test_what_takes_columns_by_their_places_has_those_of_each_input() -> None:
    left, right = (replace(leaf(each), columns=(decoded(each),)) for each in (VALUE, OTHER))
    (union, *_) = graph_of(planned("UnionExec", left, right)).nodes
    assert [name for name, _ in union.expressions] == ["input", "input"]
    assert len({terms for _, terms in union.expressions}) == 2
    (matched, *_) = graph_of(planned("BroadcastHashJoinExec", left, right)).nodes
    assert matched.expressions == ()


def test_rows_that_a_node_makes_of_one_are_reported_apart() -> None:
    rows = ((ID, literal("0")), (literal(None), literal("1")))
    output = (attribute("id", 5), attribute("spark_grouping_id", 6))
    root = planned("ExpandExec", leaf(VALUE), projections=rows, output=output)
    expand = graph_of(root).nodes[0]
    assert [(name, len(terms)) for name, terms in expand.expressions] == [("projections", 2)] * 2


def test_of_a_leaf_what_leaves_rows_out_is_reported() -> None:
    scan = planned("FileSourceScanExec", output=(VALUE,), dataFilters=(node("IsNotNull", VALUE),))
    (found,) = graph_of(scan).nodes
    assert [name for name, _ in found.expressions] == ["dataFilters"]
    assert found.source == 0


def test_operators_are_reported_in_the_order_of_their_ids() -> None:
    found = graph_of(chain(chain(leaf(VALUE), "Sum", state=0), "Max", state=1))
    assert [each.operator_id for each in describe_operators(found)] == [0, 1]


def test_columns_of_a_query_have_their_names_and_only_terms_that_are_used_are_there() -> None:
    root = replace(leaf(VALUE), columns=(attribute("id", 5), VALUE))
    found = build_graph(plan(root, CLICKS, n1=0))
    assert found.columns == (PlanColumn("id", "bigint", 0), PlanColumn("value", "binary", 1))
    assert len(found.terms) == 2
    filtered = planned("FilterExec", leaf(VALUE), condition=node("IsNotNull", ID))
    assert [each.name for each in graph_of(filtered).terms] == ["id", "IsNotNull"]
