"""From expressions to terms: what an attribute stands for, down to the columns of sources."""

import pytest
from tests.unit.plans.trees import (
    CLICKS,
    TABLE,
    VIEWS,
    aggregate,
    alias,
    attribute,
    decoded,
    leaf,
    literal,
    node,
    plan,
    planned,
)

from ashore.plans.graph import BY_GROUP, PlanSource, Term, TermKind
from ashore.plans.lineage import Lineage, learn_lineage
from ashore.plans.physical import Node, PlannedNode, parse_tree

VALUE = attribute("value", 1, "binary")
_PHASES = ("Partial", "Final")
ID = Term(TermKind.COLUMN, "id", "bigint", source=0)


def project(child: PlannedNode, *columns: Node) -> PlannedNode:
    return planned("ProjectExec", child, projectList=columns)


def lineage(root: PlannedNode, *sources: PlanSource, **columns: int) -> Lineage:
    return learn_lineage(plan(root, *(sources or (CLICKS,)), **(columns or {"n1": 0})), {})


def term_of(found: Lineage, expression: Node) -> Term:
    return found.terms.table[found.term(expression)]


def test_a_field_of_a_record_is_a_column_of_its_source() -> None:
    found = lineage(project(leaf(VALUE), alias(decoded(VALUE), "anything", 7)))
    assert term_of(found, attribute("anything", 7)) == ID
    assert term_of(found, decoded(VALUE)) == ID
    assert term_of(found, VALUE).kind is TermKind.RECORD


def test_an_attribute_is_what_it_stands_for_however_often_it_was_named() -> None:
    root = leaf(VALUE)
    for number in range(10, 150):
        before = decoded(VALUE) if number == 10 else attribute(f"c{number - 1}", number - 1)
        root = project(root, alias(before, f"c{number}", number))
    assert term_of(lineage(root), attribute("c149", 149)) == ID


def test_terms_do_not_grow_faster_than_what_is_written() -> None:
    """Each view doubles what it reads: written out, the last would have 2 to the 60th parts."""
    root = project(leaf(VALUE), alias(decoded(VALUE), "c0", 100))
    for number in range(101, 161):
        before = attribute("c", number - 1)
        root = project(root, alias(node("Add", before, before), "c", number))
    found = lineage(root)
    assert term_of(found, attribute("c", 160)).name == "Add"
    assert term_of(found, decoded(attribute("c", 160))).kind is TermKind.FIELD
    assert len(found.terms.table) < 70


def test_what_sql_takes_apart_itself_is_no_column_of_the_source() -> None:
    """A record is decoded once, by the view; a text in it that is JSON stays what it is."""
    found = lineage(project(leaf(VALUE), alias(decoded(VALUE), "text", 7)))
    inner = term_of(found, decoded(attribute("text", 7)))
    assert (inner.kind, inner.name) == (TermKind.FIELD, "id")
    assert found.terms.table[inner.arguments[0]].name == "JsonToStructs"


def test_fields_of_what_several_sources_hold_are_no_columns() -> None:
    other = attribute("value", 2, "binary")
    both = node("Concat", VALUE, other)
    found = lineage(leaf(VALUE), CLICKS, VIEWS, n1=0, n2=1)
    assert term_of(found, decoded(both)).kind is TermKind.FIELD
    assert term_of(found, decoded(other)) == Term(TermKind.COLUMN, "id", "bigint", source=1)


def test_columns_of_tables_are_told_from_records() -> None:
    code = attribute("code", 3, "string")
    found = lineage(leaf(VALUE), CLICKS, TABLE, n1=0, n3=1)
    assert term_of(found, code) == Term(TermKind.COLUMN, "code", "string", source=1)


@pytest.mark.parametrize("kind", ["Alias", "KnownNotNull", "UpCast", "NormalizeNaNAndZero"])
def test_how_a_value_is_held_plays_no_part(kind: str) -> None:
    assert term_of(lineage(leaf(VALUE)), node(kind, decoded(VALUE))) == ID


def test_a_cast_is_reported_by_its_type() -> None:
    found = lineage(leaf(VALUE))
    casts = [node("Cast", decoded(VALUE), dataType=each) for each in ("integer", "long", "integer")]
    places = found.all(casts)
    assert places[0] == places[2] != places[1]
    assert [found.terms.table[each].type for each in places] == ["int", "bigint", "int"]


def test_nothing_and_the_text_null_are_two_things() -> None:
    found = lineage(leaf(VALUE))
    assert term_of(found, literal(None, "string")) == Term(TermKind.NULL, type="string")
    assert term_of(found, literal("null", "string")) == Term(TermKind.LITERAL, "null", "string")


def test_an_aggregate_has_its_filters_and_options() -> None:
    function = node("CollectList", decoded(VALUE), ignoreNulls=True, inputAggBufferOffset=3)
    condition = node("IsNotNull", decoded(VALUE))
    found = lineage(leaf(VALUE))
    made = term_of(found, aggregate(function, condition, isDistinct=True))
    assert (made.kind, made.name, made.is_distinct) == (TermKind.AGGREGATE, "CollectList", True)
    assert made.options == (("ignoreNulls", "true"),)
    assert [found.terms.table[each].name for each in made.parts] == ["id", "IsNotNull"]


def test_results_of_an_aggregate_are_its_functions() -> None:
    function = aggregate(node("Max", decoded(VALUE)), mode="Final")
    final = planned(
        "HashAggregateExec",
        leaf(VALUE),
        aggregateExpressions=(function,),
        aggregateAttributes=(attribute("max(x)", 9),),
    )
    assert term_of(lineage(final), attribute("max(x)", 9)).name == "Max"


def test_what_an_aggregate_over_another_computes_is_named_with_its_keys() -> None:
    """`count(*)` of rows is a key of the second `count(*)`: these are two numbers."""

    def counted(child: PlannedNode, number: int, *keys: Node) -> PlannedNode:
        functions = (aggregate(node("Count", literal("1")), mode=mode) for mode in _PHASES)
        for each in functions:
            child = planned(
                "HashAggregateExec",
                child,
                groupingExpressions=keys,
                aggregateExpressions=(each,),
                aggregateAttributes=(attribute("count(1)", number),),
            )
        return child

    def numbers(*keys: Node) -> tuple[Lineage, int, int]:
        found = lineage(counted(counted(leaf(VALUE), 9, decoded(VALUE)), 10, *keys))
        return found, *found.all((attribute("count(1)", 9), attribute("count(1)", 10)))

    rows = attribute("count(1)", 9)
    found, inner, outer = numbers(rows)
    assert found.terms.table[inner].kind is TermKind.AGGREGATE
    assert found.terms.table[outer].name == BY_GROUP
    assert found.terms.table[outer].arguments == (inner, inner)  # of one function by the other
    other, _, by_another = numbers(VALUE)
    assert other.terms.table[by_another] != found.terms.table[outer]


def test_copies_of_a_row_hold_what_it_held_but_the_number_that_tells_them_apart() -> None:
    expand = planned(
        "ExpandExec",
        leaf(VALUE),
        projections=((decoded(VALUE), literal("0", "long")), (literal(None, "long"), literal("1"))),
        output=(attribute("id", 5), attribute("spark_grouping_id", 6)),
    )
    found = lineage(expand)
    assert term_of(found, attribute("id", 5)) == ID
    assert term_of(found, attribute("spark_grouping_id", 6)).kind is TermKind.MADE


def test_what_a_generator_makes_is_reported_by_it() -> None:
    generator = node("Explode", decoded(VALUE))
    root = planned(
        "GenerateExec",
        leaf(VALUE),
        generator=generator,
        generatorOutput=(attribute("pos", 4), attribute("item", 5)),
    )
    found = lineage(root)
    made = term_of(found, attribute("item", 5))
    assert (made.kind, made.name, made.options) == (TermKind.MADE, "item", (("output", "1"),))
    assert found.terms.table[made.arguments[0]].name == "Explode"


def test_variables_of_functions_are_reported_by_their_order() -> None:
    def function(one: int, other: int) -> Node:
        x, y = (node("NamedLambdaVariable", name="v", exprId={"id": each}) for each in (one, other))
        return node("LambdaFunction", node("Subtract", x, y), x, y)

    found = lineage(leaf(VALUE))
    assert found.term(function(20, 21)) == found.term(function(31, 30))
    (body, *_) = term_of(found, function(20, 21)).arguments
    one, other = found.terms.table[body].arguments
    assert one != other


def test_a_window_is_a_term_over_its_time() -> None:
    ends = {"type": "struct", "fields": [{"name": "start"}, {"name": "end"}]}
    clock = node("Literal", value="[1000000,11000000]", dataType=ends)
    made = term_of(lineage(leaf(VALUE)), clock)
    assert made.kind is TermKind.WINDOW
    assert made.window is not None
    assert made.window.text == "window 10 seconds of processing time"


def test_a_tree_is_read_as_spark_writes_it() -> None:
    text = (
        '[{"class":"a.b.Filter","num-children":1,"condition":[{"class":"a.And","num-children":0}]},'
        '{"class":"a.b.Leaf","num-children":0,"output":[[{"class":"a.X","num-children":0}]],"n":3}]'
    )
    root = parse_tree(text)
    assert (root.kind, [each.kind for each in root.walk()]) == ("Filter", ["Filter", "Leaf"])
    assert [each.kind for each in root.nodes("condition")] == ["And"]
    assert [each.kind for each in root.children[0].nodes("output")] == ["X"]
    assert root.children[0].fields["n"] == 3
