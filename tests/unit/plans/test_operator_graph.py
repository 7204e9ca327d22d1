"""Graphs as operators: Nexmark's, byte for byte, and what is told of an operator."""

from dataclasses import replace
from pathlib import Path

import pytest

from ashore.plans.graph import DELAY, PlanGraph
from ashore.plans.operator_graph import FactRole, describe_graph, identify, write_operators
from ashore_lab.testing.graph_files import read_graph

GOLDEN = Path(__file__).parents[2] / "golden"
PLANS = sorted((GOLDEN / "plans").iterdir())


def graph_of(name: str) -> PlanGraph:
    return read_graph((GOLDEN / "plans" / f"{name}.json").read_text("utf-8"))


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_operators_of_nexmark_are_what_they_were(path: Path) -> None:
    written = write_operators(describe_graph(read_graph(path.read_text("utf-8"))))
    golden = GOLDEN / "operators" / path.name
    if not golden.exists():
        golden.parent.mkdir(exist_ok=True)
        golden.write_text(written, "utf-8")
        pytest.fail(f"{golden} was not there and is written: look at it, and run this again")
    assert written == golden.read_text("utf-8")


@pytest.mark.parametrize("path", PLANS, ids=lambda path: path.stem)
def test_an_operator_comes_after_its_inputs_and_has_an_id_of_its_own(path: Path) -> None:
    graph = describe_graph(read_graph(path.read_text("utf-8")))
    seen = set[str]()
    for each in graph.operators:
        assert {edge.source for edge in each.inputs} <= seen
        assert all(edge.columns for edge in each.inputs)
        assert each.id not in seen
        seen.add(each.id)


def test_a_state_has_keys_and_columns_with_types_and_whether_they_may_be_null() -> None:
    (aggregate,) = [each for each in describe_graph(graph_of("q11")).operators if each.state]
    assert aggregate.state is not None
    keys = [(each.name, each.type) for each in aggregate.state.keys]
    assert ("bid.bidder", "bigint") in keys
    (count,) = aggregate.state.columns
    assert (count.name, count.type, count.is_nullable) == ("count(*)", "bigint", False)


def observed(graph: PlanGraph, name: str) -> PlanGraph:
    """The graph with a node that counts what its last source gives."""
    place = len(graph.nodes) - 1
    source = graph.nodes[place]
    assert source.source is not None
    counts = replace(
        source,
        kind="CollectMetricsExec",
        inputs=(place + 1,),
        expressions=(),
        options=(("name", name),),
        source=None,
    )
    return replace(graph, nodes=(*graph.nodes[:place], counts, source))


@pytest.mark.parametrize("name", ["q5", "q8", "q11"])
def test_what_only_counts_rows_is_no_part_of_other_ids(name: str) -> None:
    graph = graph_of(name)
    plain = identify(graph)
    for called in ("bad:clicks", "bad:renamed"):
        seen = identify(observed(graph, called))
        assert (*seen[:-2], seen[-1]) == plain
        assert seen[-2].with_inputs == plain[-1].with_inputs


def test_how_late_a_watermark_is_is_told_and_is_no_part_of_ids() -> None:
    graph = graph_of("q11")
    nodes = tuple(
        replace(each, options=((DELAY, "1"),)) if each.option(DELAY) else each
        for each in graph.nodes
    )
    later = replace(graph, nodes=nodes)
    assert identify(later) == identify(graph)
    told = [fact.text for each in describe_graph(graph).operators for fact in each.facts
            if fact.role is FactRole.LATE]  # fmt: skip
    assert told
    assert describe_graph(later) != describe_graph(graph)


def test_an_id_that_the_author_gave_stays_and_no_digest_knows_it() -> None:
    graph = graph_of("q11")
    place = next(at for at, each in enumerate(graph.nodes) if each.state)
    given = replace(graph.nodes[place], given="per_bidder")
    named = replace(graph, nodes=(*graph.nodes[:place], given, *graph.nodes[place + 1 :]))
    before, after = identify(graph), identify(named)
    assert after[place].id == "per_bidder"
    assert [each.own for each in before] == [each.own for each in after]
    assert [each.with_outputs for each in before] == [each.with_outputs for each in after]
    operator = next(each for each in describe_graph(named).operators if each.state)
    assert (operator.id, operator.is_given) == ("per_bidder", True)
