"""Two versions of a query: which operator is which, and what differs."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from ashore.plans.graph import PlanGraph
from ashore.plans.matching import Why, match_operators
from ashore.plans.operator_graph import OperatorGraph, describe_graph
from ashore.plans.text import mask_literals
from ashore.plans.version_changes import ChangeKind, compare_operators
from ashore_lab.testing.graph_files import read_graph

PLANS = Path(__file__).parents[2] / "golden" / "plans"
NAMES = sorted(path.stem for path in PLANS.iterdir())


def graph_of(name: str) -> PlanGraph:
    return read_graph((PLANS / f"{name}.json").read_text("utf-8"))


def operators_of(name: str) -> OperatorGraph:
    return describe_graph(graph_of(name))


@pytest.mark.parametrize("name", NAMES)
def test_a_graph_is_the_same_as_itself(name: str) -> None:
    graph = operators_of(name)
    pairs = match_operators(graph, graph)
    assert [(each.old, each.new) for each in pairs] == [(n, n) for n in range(len(graph.operators))]
    assert {each.why for each in pairs} == {Why.SAME}
    changes = list(compare_operators(graph, graph))
    assert {each.change for each in changes} == {ChangeKind.SAME}


@pytest.mark.parametrize("name", NAMES)
def test_every_operator_of_both_is_told_once_and_in_order(name: str) -> None:
    old, new = operators_of(name), operators_of("q9")
    changes = list(compare_operators(old, new))
    after = [each.after.id for each in changes if each.after]
    assert after == [each.id for each in new.operators]
    before = [each.before.id for each in changes if each.before]
    assert sorted(before) == sorted(each.id for each in old.operators)
    gone = [each.before.id for each in changes if each.before and not each.after]
    assert gone == [each.id for each in old.operators if each.id in gone]


def changed(graph: PlanGraph, kind: str, **fields: object) -> PlanGraph:
    nodes = tuple(replace(each, **fields) if each.kind == kind else each for each in graph.nodes)
    return replace(graph, nodes=nodes)


def test_an_operator_that_computes_something_else_is_changed_and_those_above_are_not() -> None:
    graph = graph_of("q11")
    (save,) = [each for each in graph.nodes if each.state]
    other = changed(graph, save.kind, expressions=save.expressions[:1])
    found = {
        each.operator.kind: each
        for each in compare_operators(describe_graph(graph), describe_graph(other))
    }
    aggregate = found.pop("aggregate" if "aggregate" in found else "distinct")
    assert aggregate.change is ChangeKind.CHANGED
    assert aggregate.why is Why.ALIKE
    assert aggregate.gone
    assert not aggregate.come
    assert {each.change for each in found.values()} == {ChangeKind.SAME}


def test_operators_that_the_author_named_are_pairs_whatever_they_compute() -> None:
    old, new = graph_of("q16"), graph_of("q9")
    old, new = (changed(graph, "StateStoreSaveExec", given="per_day") for graph in (old, new))
    before, after = describe_graph(old), describe_graph(new)
    named = [pair for pair in match_operators(before, after) if pair.why is Why.GIVEN]
    (pair,) = named
    assert before.operators[pair.old].id == after.operators[pair.new].id == "per_day"


def test_another_order_of_what_a_state_keeps_is_a_change() -> None:
    graph = graph_of("q17")
    (save,) = [each for each in graph.nodes if each.state]
    assert save.state is not None
    turned = replace(save.state, columns=save.state.columns[::-1])
    other = changed(graph, save.kind, state=turned)
    (change,) = [
        each
        for each in compare_operators(describe_graph(graph), describe_graph(other))
        if each.change is not ChangeKind.SAME
    ]
    assert change.gone == change.come[-2::-1] + change.come[-1:]


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("OPTIONS (user 'a', password 'b')", "OPTIONS (user 'a', password '***')"),
        ("OPTIONS ('x.password'='b', url='u')", "OPTIONS ('x.password'='***', url='u')"),
        ('OPTIONS (x.password "b")', "OPTIONS (x.password '***')"),
        ("OPTIONS (password '${env:P}')", "OPTIONS (password '${env:P}')"),
        ("SELECT 1 WHERE password = 'b'", "SELECT 1 WHERE password = 'b'"),
        ("SELECT f(password => 'b')", "SELECT f(password => 'b')"),
        ("OPTIONS (user 'a') AS SELECT concat(secret, 'b')",
         "OPTIONS (user 'a') AS SELECT concat(secret, 'b')"),
    ],
)  # fmt: skip
def test_secret_options_are_masked_and_nothing_else(text: str, masked: str) -> None:
    assert mask_literals(text, re.compile("password|secret"), "***") == masked
