"""Which operator of one graph is which of another.

What it is: `match_operators`, pairs of operators with why they are pairs.
What it promises: pure and deterministic; each operator is in one pair at most. Only pairs that an
id of the author or digests make are certain; `alike` is a guess: two operators of one kind, with
the most in common of what they compute and of what is around them.
What it must not know: what is done with a pair; whether a state could be carried over.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ashore.plans.operator_graph import Operator, OperatorGraph

ALIKE_MIN = 0.25  # of 1: below it two operators have nothing in common but their kind


class Why(StrEnum):
    """Why two operators are a pair."""

    GIVEN = "the author gave both the same id"
    SAME = "it computes the same over the same inputs"
    OWN = "it computes the same over other inputs"
    ALIKE = "it is of the same kind and has most in common"


@dataclass(frozen=True, slots=True)
class Pair:
    """An operator of the old graph and one of the new graph, by their places."""

    old: int
    new: int
    why: Why


def match_operators(old: OperatorGraph, new: OperatorGraph) -> tuple[Pair, ...]:
    """Return the pairs, in the order of the new graph."""
    matcher = _Matcher(old.operators, new.operators)
    matcher.match(Why.GIVEN, lambda each: each.id if each.is_given else None)
    matcher.match(Why.SAME, lambda each: each.with_inputs + each.with_outputs)
    matcher.match(Why.SAME, lambda each: each.with_inputs)
    matcher.match(Why.OWN, lambda each: each.own)
    matcher.match_alike()
    return tuple(sorted(matcher.pairs, key=lambda pair: pair.new))


class _Matcher:
    def __init__(self, old: Sequence[Operator], new: Sequence[Operator]) -> None:
        self.pairs: list[Pair] = []
        self._old, self._new = old, new
        self._around = tuple(_find_around(each) for each in (old, new))

    def match(self, why: Why, key_of: Callable[[Operator], str | None]) -> None:
        """Pair operators that have the same key, in their order."""
        waiting: dict[str, list[int]] = {}
        for place in self._free_old():
            if (key := key_of(self._old[place])) is not None:
                waiting.setdefault(key, []).append(place)
        for place in self._free_new():
            found = waiting.get(key_of(self._new[place]) or "", [])
            if found:
                self.pairs.append(Pair(found.pop(0), place, why))

    def match_alike(self) -> None:
        """Pair operators of one kind, those first that have most in common."""
        while found := self._find_alike():
            self.pairs.append(Pair(*found, Why.ALIKE))

    def _find_alike(self) -> tuple[int, int] | None:
        known = {(pair.old, pair.new) for pair in self.pairs}
        scored = [
            (-score, old, new)
            for old in self._free_old()
            for new in self._free_new()
            if (score := self._score(old, new, known)) >= ALIKE_MIN
        ]
        return min(scored)[1:] if scored else None

    def _score(self, old: int, new: int, known: set[tuple[int, int]]) -> float:
        """Return how much two operators have in common, from 0 to 1."""
        before, after = self._old[old], self._new[new]
        if not _is_of_kind(before, after) or (before.is_given and after.is_given):
            return 0.0
        facts = {(each.role, each.text) for each in before.facts}
        others = {(each.role, each.text) for each in after.facts}
        common = len(facts & others) / max(len(facts | others), 1)
        around = self._around[0][old], self._around[1][new]
        is_near = [
            any((one, other) in known for one in mine for other in theirs)
            for mine, theirs in zip(*around, strict=True)
        ]
        return 0.5 * common + 0.25 * sum(is_near)

    def _free_old(self) -> Iterator[int]:
        used = {pair.old for pair in self.pairs}
        return (each for each in range(len(self._old)) if each not in used)

    def _free_new(self) -> Iterator[int]:
        used = {pair.new for pair in self.pairs}
        return (each for each in range(len(self._new)) if each not in used)


def _is_of_kind(one: Operator, other: Operator) -> bool:
    """Tell whether operators are of one kind: a DISTINCT is an aggregate without functions."""
    kinds = {one.kind, other.kind}
    return len(kinds) == 1 or kinds <= {"aggregate", "distinct"}


def _find_around(operators: Sequence[Operator]) -> list[tuple[list[int], list[int]]]:
    """Return the places of each operator's inputs, and of those that take its rows."""
    places = {each.id: place for place, each in enumerate(operators)}
    inputs = [[places[edge.source] for edge in each.inputs] for each in operators]
    outputs: list[list[int]] = [[] for _ in operators]
    for place, below in enumerate(inputs):
        for each in below:
            outputs[each].append(place)
    return list(zip(inputs, outputs, strict=True))
