"""Which operator of one graph is which of another: pins, names, likeness."""

from dataclasses import replace

import pytest
from tests.unit.plans.test_version_changes import NAMES, operators_of

from ashore.plans.matching import NO_EDITS, MappingEdits, Why, match_operators
from ashore.plans.operator_graph import Edge, Fact, FactRole, Operator, OperatorGraph


def operator(name: str, *inputs: str, kind: str = "aggregate", keys: str = "") -> Operator:
    """An operator whose digests are like no other's."""
    facts = tuple(Fact(FactRole.KEY, each) for each in keys.split())
    edges = tuple(Edge(each, ("id",)) for each in inputs)
    own = f"{kind} {name} {keys}"
    digests = (f"own {own}", f"in {own} {inputs}", f"out {own}")
    return Operator(f"{name}{keys}", kind, name, "Exec", *digests, edges, facts)


def graph(*operators: Operator) -> OperatorGraph:
    return OperatorGraph(operators, ())


def paired(
    old: OperatorGraph, new: OperatorGraph, edits: MappingEdits = NO_EDITS
) -> dict[str, tuple[str, Why]]:
    found = match_operators(old, new, edits)
    return {new.operators[each.new].id: (old.operators[each.old].id, each.why) for each in found}


def test_a_name_that_is_there_once_makes_a_pair() -> None:
    old = graph(operator("by country", keys="country"), operator("by page", keys="page"))
    new = graph(operator("by page", keys="upper(page)"), operator("by day", keys="day"))
    assert paired(old, new) == {}  # by name, and with nothing in common
    near = graph(operator("by page", keys="page week"), operator("by day", keys="day"))
    assert paired(old, near) == {"by pagepage week": ("by pagepage", Why.NAME)}


def test_equal_names_are_never_guessed() -> None:
    old = graph(operator("by page", keys="page a"), operator("by page", keys="page b"))
    new = graph(operator("by page", keys="page c"))
    assert {why for _, why in paired(old, new).values()} <= {Why.ALIKE}


def test_an_operator_of_another_kind_is_no_pair_whatever_its_name() -> None:
    old, new = graph(operator("it", keys="a")), graph(operator("it", kind="join", keys="a"))
    assert paired(old, new) == {}


@pytest.mark.parametrize("name", [each for each in NAMES if each != "q9"])
def test_the_user_says_what_is_a_pair_and_what_is_none(name: str) -> None:
    same = operators_of(name)
    stateful = [each.id for each in same.operators if each.state]
    if not stateful:
        return
    first, last = stateful[0], stateful[-1]
    forbidden = paired(same, same, MappingEdits(forbidden=((first, first),)))
    assert forbidden.get(first, ("",))[0] != first
    pinned = paired(same, same, MappingEdits(pinned=((first, last), ("gone", last))))
    assert pinned[last] == (first, Why.PINNED)


def test_likeness_follows_the_pairs_around() -> None:
    """Two that are alike in themselves are told apart by what stands below them."""
    old = graph(
        replace(operator("read", kind="source", keys="clicks"), id="clicks"),
        replace(operator("read", kind="source", keys="views"), id="views"),
        replace(operator("by id", "clicks", keys="id"), id="a"),
        replace(operator("by id", "views", keys="id"), id="b"),
    )
    new = graph(
        replace(operator("read", kind="source", keys="views"), id="other views"),
        replace(operator("read", kind="source", keys="clicks"), id="other clicks"),
        replace(operator("by id", "other views", keys="id more"), id="c"),
        replace(operator("by id", "other clicks", keys="id more"), id="d"),
    )
    found = {each: was for each, (was, _) in paired(old, new).items()}
    assert found == {"other views": "views", "other clicks": "clicks", "c": "b", "d": "a"}


def test_two_hundred_operators_are_paired_once_each() -> None:
    def chain(keys: str) -> OperatorGraph:
        made = [
            replace(
                operator("step", *([str(n - 1)] if n else []), keys=f"k{n % 7} {keys}"), id=str(n)
            )
            for n in range(200)
        ]
        return graph(*made)

    found = match_operators(chain("a"), chain("b"))
    assert len(found) == len({each.old for each in found}) == 200
    assert all(0 < each.score <= 1 for each in found)
