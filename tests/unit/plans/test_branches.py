"""Columns of one view that is read twice are told apart by the branch that reads them."""

from dataclasses import replace

from tests.unit.plans.trees import CLICKS, alias, attribute, leaf, literal, node, planned

from ashore.plans.build import build_graph
from ashore.plans.graph import NULLABLE, OF_BRANCH, Term, TermKind
from ashore.plans.physical import HANDED_ON, Node, Planned, PlannedNode, separate_branches

ID, OTHER = attribute("id", 1), attribute("other", 2)
READING = replace(leaf(ID), columns=(ID,))
FILES = replace(CLICKS, format="csv")


def filtered(condition: Node, child: PlannedNode) -> PlannedNode:
    return replace(planned("FilterExec", child, condition=condition), columns=child.columns)


def more_than(column: Node, limit: str) -> Node:
    return node("GreaterThan", column, literal(limit))


def renamed(child: PlannedNode) -> PlannedNode:
    return replace(
        planned("ProjectExec", child, projectList=(alias(ID, "other", 2),)), columns=(OTHER,)
    )


def joined(left: PlannedNode, right: PlannedNode, how: str = "Inner") -> PlannedNode:
    made = planned(
        "SortMergeJoinExec",
        *(left, right),
        leftKeys=left.columns,
        rightKeys=right.columns,
        joinType={"object": f"x.{how}$"},
    )
    return replace(made, columns=(*left.columns, *right.columns))


def plan(root: PlannedNode, *readings: int) -> Planned:
    return Planned(root, (FILES, FILES), {1: readings[0]}, {1: readings})


def columns_of(found: Planned) -> list[Term]:
    return [each for each in build_graph(found).terms if each.kind is TermKind.COLUMN]


def test_each_side_of_a_self_join_reads_a_source_of_its_own() -> None:
    root = joined(READING, renamed(READING))
    graph = build_graph(plan(root, 0, 1))
    assert [each.source for each in graph.nodes] == [None, 0, 1]
    assert [each.source for each in columns_of(plan(root, 0, 1))] == [0, 1]
    keys = [graph.nodes[0].terms(each) for each in ("leftKeys", "rightKeys")]
    assert keys[0] != keys[1]


def test_a_condition_belongs_to_the_side_that_it_is_on() -> None:
    one = joined(filtered(more_than(ID, "3"), READING), renamed(READING))
    other = joined(READING, renamed(filtered(more_than(ID, "3"), READING)))
    graphs = [build_graph(plan(each, 0, 1)) for each in (one, other)]
    conditions = [
        graph.terms[graph.terms[node.terms("condition")[0]].arguments[0]].source
        for graph in graphs
        for node in graph.nodes
        if node.kind == "FilterExec"
    ]
    assert conditions == [0, 1]


def test_what_is_listed_once_and_read_twice_is_a_source_and_its_copy() -> None:
    root = joined(READING, renamed(READING))
    assert [(each.source, each.copy) for each in columns_of(plan(root, 0))] == [(0, 0), (0, 1)]
    assert [each.options for each in build_graph(plan(root, 0)).nodes[1:]] == [
        (),
        (("copy", "1"),),
    ]


def test_a_column_of_an_outer_join_is_another_one_where_no_row_may_match() -> None:
    for how, marked in (("Inner", []), ("LeftOuter", [1]), ("RightOuter", [0])):
        root = joined(READING, renamed(READING), how)
        graph = build_graph(plan(root, 0, 1))
        names = [graph.terms[each.term].name for each in graph.columns]
        assert [at for at, each in enumerate(names) if each == NULLABLE] == marked, how


def test_what_one_side_makes_of_no_column_is_another_thing_than_what_the_other_makes() -> None:
    def numbered(number: int) -> PlannedNode:
        column = attribute("copy", number)
        rows = planned(
            "GenerateExec",
            READING,
            generator=node("Explode", literal("1")),
            generatorOutput=(column,),
        )
        return replace(rows, columns=(column,))

    graph = build_graph(plan(joined(numbered(7), numbered(8)), 0, 1))
    terms = [graph.terms[each.term] for each in graph.columns]
    assert [each.name for each in terms] == [OF_BRANCH, OF_BRANCH]
    assert terms[0] != terms[1]
    assert terms[0].arguments == terms[1].arguments


def test_a_plan_of_one_branch_stays_as_it_is() -> None:
    root = filtered(more_than(ID, "3"), READING)
    found = separate_branches(plan(root, 0))
    assert found.root == root
    assert found.columns == {1: 0}


def test_below_a_join_nothing_is_marked() -> None:
    found = separate_branches(plan(joined(READING, renamed(READING), "LeftOuter"), 0, 1))
    assert HANDED_ON in found.root.node.fields
    assert found.root.children[0] == READING
