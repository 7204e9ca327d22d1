"""Joins that keep or drop late rows by the columns of the query."""

from dataclasses import replace

import pytest
from tests.unit.plans.test_version_changes import graph_of
from tests.unit.plans.trees import CLICKS, VIEWS

from ashore.plans.checks import warn_of_late_rows
from ashore.plans.graph import (
    EVENT_TIME,
    WATERMARK,
    JoinSide,
    OperatorState,
    PlanGraph,
    PlanNode,
    Term,
    TermKind,
    Window,
    WindowKind,
)
from ashore.plans.operators import JOIN

LEAF = "StreamingRelationExec"
TERMS = (
    Term(TermKind.COLUMN, "id", "bigint", source=0),
    Term(TermKind.COLUMN, "ts", "timestamp", source=0),
    Term(TermKind.COLUMN, "id", "bigint", source=1),
    Term(TermKind.COLUMN, "ts", "timestamp", source=1),
    Term(TermKind.CALL, "Hour", "int", arguments=(1,)),
    Term(TermKind.CALL, "Hour", "int", arguments=(3,)),
)
ID, TS, OTHER_ID, OTHER_TS, HOUR, OTHER_HOUR = range(len(TERMS))


def join(
    *inputs: int,
    times: tuple[tuple[int, ...], tuple[int, ...]],
    on: tuple[int, int] = (ID, OTHER_ID),
    taken: tuple[tuple[int, ...], ...] = ((ID, TS), (OTHER_ID, OTHER_TS)),
    bounded: bool = False,
) -> PlanNode:
    sides = tuple(JoinSide(bounded, times=each) for each in times)
    keys = (("leftKeys", on[:1]), ("rightKeys", on[1:]))
    state = OperatorState(len(inputs), 2, sides=sides)
    return PlanNode(JOIN, inputs, keys, (("joinType", "Inner"),), state=state, taken=taken)


def watermark(below: int, time: int) -> PlanNode:
    return PlanNode(WATERMARK, (below,), ((EVENT_TIME, (time,)),))


def graph(*above: PlanNode, right: tuple[PlanNode, ...] = ()) -> PlanGraph:
    """A join of two streams with event time, with nodes above it."""
    first = len(above)
    left = (watermark(first + 1, TS), PlanNode(LEAF, source=0))
    right = right or (watermark(first + 3, OTHER_TS), PlanNode(LEAF, source=1))
    return PlanGraph((CLICKS, VIEWS), TERMS, (*above, *left, *right), ())


def said(found: PlanGraph, **known: str) -> list[tuple[str, str]]:
    """Return what happens to rows that are late, and the column by which they are."""
    warnings = [each.split("`") for each in warn_of_late_rows(found, known)]
    return [(each[2].split()[0], each[3]) for each in warnings]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("q3", [("keeps", "auction.date_time"), ("keeps", "person.date_time")]),
        ("q20", [("drops", "bid.date_time"), ("drops", "auction.date_time")]),
        pytest.param("q7", [], id="q7: by a window"),
        pytest.param("q8", [], id="q8: of windows"),
        pytest.param("q9", [], id="q9: bounded by a condition"),
        pytest.param("q11", [], id="q11: no join"),
    ],
)
def test_of_nexmark_unbounded_joins_are_reported(
    query: str, expected: list[tuple[str, str]]
) -> None:
    assert said(graph_of(query)) == expected


def test_each_side_is_reported_by_its_own_columns() -> None:
    made = graph(join(1, 3, times=((TS,), ()), taken=((ID, TS), (OTHER_ID,))))
    assert said(made) == [("drops", "clicks.ts"), ("keeps", "views.ts")]


def test_a_side_without_event_time_has_no_late_rows() -> None:
    made = graph(join(1, 3, times=((), ())), right=(PlanNode(LEAF, source=1),))
    assert said(made) == [("keeps", "clicks.ts")]


def test_what_the_join_itself_compares_is_there_whatever_is_selected() -> None:
    times = ((TS,), (OTHER_TS,))
    assert said(graph(join(1, 3, times=times, on=(TS, OTHER_TS)))) == []
    assert said(graph(join(1, 3, times=times, on=(HOUR, OTHER_HOUR)))) == []
    # Computed below the join, by a view say: of the time itself the join has no need.
    taken = ((HOUR, TS), (OTHER_HOUR, OTHER_TS))
    made = graph(join(1, 3, times=times, on=(HOUR, OTHER_HOUR), taken=taken))
    assert [each for each, _ in said(made)] == ["drops", "drops"]


def test_a_condition_compares_as_keys_do() -> None:
    unequal = Term(TermKind.CALL, "LessThan", "boolean", arguments=(TS, OTHER_TS))
    made = join(1, 3, times=((TS,), (OTHER_TS,)))
    made = replace(made, expressions=(*made.expressions, ("condition", (len(TERMS),))))
    found = graph(made)
    assert said(replace(found, terms=(*found.terms, unequal))) == []


def test_rows_stay_late_through_a_join_without_a_bound_and_through_no_other_state() -> None:
    upper = join(1, 5, times=((TS,), ()), taken=((ID, TS), (OTHER_ID,)))
    third = (PlanNode(LEAF, source=1),)

    def over(lower: PlanNode) -> list[tuple[str, str]]:
        found = graph(replace(upper, inputs=(1, 6)), lower)
        return said(replace(found, nodes=(*found.nodes, *third)))

    below = {"times": ((TS,), (OTHER_TS,)), "on": (TS, OTHER_TS)}
    assert over(join(2, 4, **below)) == [("drops", "clicks.ts")]
    assert over(join(2, 4, **below, bounded=True)) == []


def test_an_event_time_has_the_name_that_is_known_for_its_source() -> None:
    window = Term(TermKind.WINDOW, arguments=(TS,), window=Window(WindowKind.SESSION, gap="1 hour"))
    place = len(TERMS)
    made = join(1, 3, times=((TS,), (OTHER_TS,)))
    assert said(graph(made), clicks="c.at") == [("drops", "c.at"), ("drops", "views.ts")]
    windowed = graph(join(1, 3, times=((place,), ()), taken=((ID, place), (OTHER_ID,))))
    found = said(replace(windowed, terms=(*TERMS, window)), clicks="c.at")
    assert found[0] == ("drops", "session window 1 hour")
