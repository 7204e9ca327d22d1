"""Which source of one graph is which of another, and graphs without some inputs of unions."""

from dataclasses import replace

import pytest

from ashore.plans.change.judge import find_changes, judge_query
from ashore.plans.change.rewriting import plan_rewrite
from ashore.plans.change.sources import FIXED, judge_sources, match_sources, moves_offsets
from ashore.plans.change.verdicts import StateVerdict
from ashore.plans.graph import (
    INPUT,
    UNION,
    UNITED,
    PlanGraph,
    PlanNode,
    PlanSource,
    StoredPlan,
    Term,
    TermKind,
)
from ashore.plans.regions import narrow

TABLE = PlanSource("countries", "LogicalRDD", "countries", False)
LEAF = "StreamingRelationExec"


def stream(reads: str) -> PlanSource:
    return PlanSource(reads, "kafka", reads, True)


def union(*reads: str, table: bool = False) -> PlanGraph:
    """A union of one column of each source; `table`: one that is no stream stands first."""
    sources = (*([TABLE] if table else []), *(stream(each) for each in reads))
    first = len(sources) - len(reads)
    columns = [Term(TermKind.COLUMN, "id", "bigint", source=first + at) for at in range(len(reads))]
    options = (("union", "0"), ("reads", ",".join(str(first + at) for at in range(len(reads)))))
    united = Term(TermKind.CALL, UNITED, arguments=tuple(range(len(reads))), options=options)
    leaves = [PlanNode(LEAF, source=first + at) for at in range(len(reads))]
    top = PlanNode(
        UNION,
        inputs=tuple(range(1, len(reads) + 1)),
        expressions=tuple((INPUT, (at,)) for at in range(len(reads))),
        options=(("union", "0"),),
        taken=tuple((at,) for at in range(len(reads))),
    )
    return PlanGraph(sources, (*columns, united), (top, *leaves), ())


MATCHED = [
    (("a", "b"), ("a", "b"), {0: 0, 1: 1}),
    (("a", "b"), ("b", "a"), {0: 1, 1: 0}),
    (("a", "b"), ("c", "b"), {1: 1}),
    (("a", "b"), ("c", "b", "a"), {1: 1, 2: 0}),
    (("a,b", "c"), ("c", "b,a"), {0: 1, 1: 0}),
    (("a,b", "c"), ("c", "a,d"), {0: 1, 1: 0}),
    (("a", "a"), ("a", "a"), {0: 0, 1: 1}),
    (("a", "a", "b"), ("a", "a", "c"), {0: 0, 1: 1}),
    (("a", "b"), ("c",), {}),
]


@pytest.mark.parametrize(("old", "new", "pairs"), MATCHED)
def test_sources_are_matched_by_topics(
    old: tuple[str, ...], new: tuple[str, ...], pairs: dict[int, int]
) -> None:
    found = match_sources(union(*old), union(*new))
    assert not found.unclear
    assert found.pairs == pairs
    assert found.added == set(range(len(new))) - pairs.keys()
    assert found.dropped == set(range(len(old))) - {*pairs.values()}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (("a", "a"), ("b", "a", "a")),
        (("a", "a"), ("a",)),
        (("a,b",), ("a,c", "b,c")),
        (("a,b", "b,c"), ("b",)),
    ],
)
def test_what_cannot_be_told_apart_is_not_guessed(
    old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    found = match_sources(union(*old), union(*new))
    assert found.unclear
    assert not found.pairs


@pytest.mark.parametrize(
    ("old", "new"),
    [(("a",), ("a", "a")), (("a", "b"), ("a", "b", "a")), (("a,b",), ("b,a", "c", "a,b"))],
)
def test_a_topic_that_is_read_once_more_is_refused(
    old: tuple[str, ...], new: tuple[str, ...]
) -> None:
    plans = [StoredPlan("one", (), (), union(*each)) for each in (old, new)]
    found = judge_query(*plans)
    assert found.verdict is StateVerdict.REFUSED
    assert "is read once more: " in found.why[0]
    assert judge_query(plans[0], plans[0]).verdict is StateVerdict.FULL


def test_two_readings_that_are_both_new_begin_together() -> None:
    old, new = union("b"), union("b", "a", "a")
    assert match_sources(old, new).added == {1, 2}
    assert not match_sources(old, new).unclear


def test_a_table_has_no_place_among_the_offsets() -> None:
    old, new = union("a", "b", table=True), union("b", "c")
    found = judge_sources(old, new, match_sources(old, new))
    told = [(each.name, each.verdict, each.old, each.new) for each in found]
    assert told == [
        ("b", StateVerdict.CONVERT, 1, 0),
        ("c", StateVerdict.PARTIAL, None, 1),
        ("a", StateVerdict.LOST, 0, None),
    ]


def test_a_union_keeps_the_inputs_that_both_queries_have() -> None:
    graph = union("a", "b", "c")
    assert narrow(graph, frozenset()) is graph
    assert narrow(graph, frozenset({0, 1, 2})) is graph  # nothing would be left
    found = narrow(graph, frozenset({0}))
    assert found.nodes[0].inputs == (2, 3)
    assert found.nodes[0].taken == ((1,), (2,))
    assert found.nodes[0].terms(INPUT) == (1,)
    assert found.terms[3].arguments == (1, 2)
    assert dict(found.terms[3].options)["reads"] == "1,2"
    alone = narrow(graph, frozenset({0, 2}))
    assert alone.nodes[0].inputs == (2,)
    assert alone.terms[3] == graph.terms[1]


def test_offsets_move_with_places_and_with_topics_that_go() -> None:
    moving = {}
    for old, new in ((("a", "b"), ("b", "a")), (("a,b",), ("a",)), (("a",), ("a,b",))):
        graphs = union(*old), union(*new)
        found = judge_sources(*graphs, match_sources(*graphs))
        moving[old, new] = [moves_offsets(each) for each in found]
    assert list(moving.values()) == [[True, True], [True], [False]]


def test_a_rewrite_of_state_says_nothing_of_offsets() -> None:
    old, new = (StoredPlan("one", (), (), union(*each)) for each in (("a", "b"), ("b", "a")))
    assert judge_query(old, new).verdict is StateVerdict.CONVERT
    assert not plan_rewrite(old, new, judge_query(old, new)).operators
    assert not plan_rewrite(old, old, judge_query(old, old)).operators


def test_streams_that_are_not_kafkas_keep_their_places() -> None:
    """Nothing in a checkpoint says which of them offsets are of."""
    old, new = union("a", "b"), union("b", "a")
    files = [
        replace(
            each, sources=tuple(replace(source, format="FileSource") for source in each.sources)
        )
        for each in (old, new)
    ]
    plans = [StoredPlan("one", (), (), each) for each in files]
    assert not match_sources(files[0], files[0]).unclear
    assert match_sources(*files).unclear == (FIXED,)
    assert judge_query(*plans).verdict is StateVerdict.REFUSED
    assert "1 FileSource a, 2 FileSource b" in find_changes(*plans)[0]
    assert not find_changes(plans[0], plans[0])
