"""Graphs as JSON, and what is told of those of Nexmark's queries: no Spark is needed for it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from ashore.base.codec import Malformed
from ashore.errors import QueryRefused
from ashore.plans.checks import check_graph
from ashore.plans.graph import PlanGraph
from ashore.plans.operators import describe_operators, find_hidden_keys
from ashore_lab.testing.graph_files import read_graph, write_graph

GRAPHS = Path(__file__).parents[2] / "golden" / "plans"
NAMES = {
    "q0": [],
    "q3": ["join on auction.seller = person.id"],
    "q5": [
        "aggregate by window 10 seconds every 2 seconds",
        "aggregate by auction, window 10 seconds every 2 seconds",
    ],
    "q8": [
        "join on person.id = auction.seller and window 10 seconds = window 10 seconds",
        "distinct id, name, window 10 seconds",
        "distinct seller, window 10 seconds",
    ],
    "q9": ["aggregate by id", "join on auction.id = bid.auction"],
    "q11": ["aggregate by bidder, session window 10 seconds"],
    "q12": ["aggregate by bidder, window 10 seconds of processing time"],
    "q16": ["aggregate by channel, date_format(date_time, 'yyyy-MM-dd')"],
}


def graph_of(name: str) -> PlanGraph:
    return read_graph((GRAPHS / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("path", sorted(GRAPHS.iterdir()), ids=lambda path: path.stem)
def test_a_graph_is_written_as_it_was_read(path: Path) -> None:
    text = path.read_text("utf-8")
    assert write_graph(read_graph(text)) == text


@pytest.mark.parametrize("path", sorted(GRAPHS.iterdir()), ids=lambda path: path.stem)
def test_places_are_of_what_came_before_or_comes_after(path: Path) -> None:
    graph = read_graph(path.read_text("utf-8"))
    for place, term in enumerate(graph.terms):
        assert all(part < place for part in term.parts)
    for place, node in enumerate(graph.nodes):
        assert all(place < each < len(graph.nodes) for each in node.inputs)
    used = [term for node in graph.nodes for _, terms in node.expressions for term in terms]
    used += [each.term for each in graph.columns]
    used += [each.term for node in graph.nodes if node.state for each in node.state.columns]
    used += [part for term in graph.terms for part in term.parts]
    used += [term for node in graph.nodes for taken in node.taken for term in taken]
    assert set(used) == set(range(len(graph.terms)))


@pytest.mark.parametrize("name", NAMES)
def test_operators_are_told_from_the_graph_alone(name: str) -> None:
    assert [each.name for each in describe_operators(graph_of(name))] == NAMES[name]


def test_keys_that_columns_do_not_tell() -> None:
    graph = graph_of("q16")
    assert find_hidden_keys(graph, ["channel", "day"]) == ()
    day = "date_format(bid.date_time, 'yyyy-MM-dd')"
    assert find_hidden_keys(graph, ["channel"]) == (day,)
    assert find_hidden_keys(graph_of("q0"), ["auction"]) is None
    started = graph_of("q12")
    assert find_hidden_keys(started, ["bidder", "start_time"]) == ()
    assert find_hidden_keys(started, ["bid_count"]) == (
        "bid.bidder",
        "window 10 seconds of processing time",
    )


def test_an_aggregate_that_is_never_final_is_not_appended() -> None:
    graph = graph_of("q16")
    check_graph(graph, appends=False)
    with pytest.raises(QueryRefused, match=r"`aggregate by channel, date_format.*none ever is"):
        check_graph(graph, appends=True)
    check_graph(graph_of("q5"), appends=True)


def test_a_join_that_would_forget_too_early_or_never() -> None:
    graph = graph_of("q9")
    place = next(at for at, each in enumerate(graph.nodes) if "Join" in each.kind)
    join = graph.nodes[place]
    assert join.state is not None
    left, right = join.state.sides

    def changed(join_type: str, *sides: object) -> PlanGraph:
        options = tuple((n, join_type if n == "joinType" else v) for n, v in join.options)
        made = replace(join, options=options, state=replace(join.state, sides=sides))
        return replace(graph, nodes=(*graph.nodes[:place], made, *graph.nodes[place + 1 :]))

    check_graph(changed("LeftOuter", left, right), appends=False)
    with pytest.raises(QueryRefused, match="a left outer join"):
        check_graph(changed("LeftOuter", replace(left, is_bounded=False), right), appends=False)
    other_side = changed("RightOuter", replace(left, is_bounded=False), right)
    check_graph(other_side, appends=False)
    early = join.state.columns[0].term
    with pytest.raises(QueryRefused, match=r"expires by auction\.id"):
        check_graph(changed("Inner", replace(left, early=early), right), appends=False)


@pytest.mark.parametrize("damage", ["sources", "terms", "nodes", "columns"])
def test_a_graph_in_part_is_none(damage: str) -> None:
    document = json.loads((GRAPHS / "q5.json").read_text("utf-8"))
    del document[damage]
    with pytest.raises(Malformed, match=damage):
        read_graph(json.dumps(document))
