"""Which operator of one graph is which of another.

What it is: `match_operators`, pairs of operators with why they are pairs, and how surely;
`choose_edits`, from what a log keeps of an earlier migration to the edits of a comparison, and
`restrict_edits`, what a log is to keep of those of a whole job.
What it promises: pure and deterministic; each operator is in one pair at most. What the user pins
comes first and what the user forbids is no pair; then ids of the author, digests, names that are
there once in each graph. What is left is paired by likeness, the most alike first: operators of one
kind, by what they compute, by the columns that they depend on, and by pairs around them.
Ids are those of two plans: what was said is used for the same plan again, as after an undo, and the
other way round for the plan that came of it, so that the way back pairs what the way forth has
paired.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ashore.log.query import EditsState, MappingEdit
from ashore.plans.graph import StoredPlan
from ashore.plans.operator_graph import Operator, OperatorGraph, describe_graph

ALIKE_MIN = 0.25  # of 1: below it two operators have nothing in common but their kind
COMPUTED, DEPENDED, AROUND = 0.4, 0.2, 0.2  # what each likeness counts; AROUND below and above


class Why(StrEnum):
    """Why two operators are a pair."""

    PINNED = "the mapping file pairs them"
    GIVEN = "the author gave both the same id"
    SAME = "it computes the same over the same inputs"
    NAME = "no other operator of either has this name"
    OWN = "it computes the same over other inputs"
    ALIKE = "it is of the same kind and has most in common"


@dataclass(frozen=True, slots=True)
class Pair:
    """An operator of the old graph and one of the new graph, by their places.

    `score`: from 0 to 1, how much speaks for it; 1 where an id or a digest makes it certain.
    """

    old: int
    new: int
    why: Why
    score: float


@dataclass(frozen=True, slots=True)
class MappingEdits:
    """What the user says of pairs: ids of an old and of a new operator each."""

    pinned: tuple[tuple[str, str], ...] = ()  # pairs, whatever else speaks for others
    forbidden: tuple[tuple[str, str], ...] = ()  # that are no pairs

    def describe(self) -> str:
        """Return them in words; empty where there are none."""
        parts = (
            f"{verb} {', '.join(f'{old} -> {new}' for old, new in some)}"
            for verb, some in (("pins", self.pinned), ("forbids", self.forbidden))
            if some
        )
        return "; ".join(parts)


NO_EDITS = MappingEdits()


def match_operators(
    old: OperatorGraph, new: OperatorGraph, edits: MappingEdits = NO_EDITS
) -> tuple[Pair, ...]:
    """Return the pairs, in the order of the new graph. An edit of no operator has no effect."""
    matcher = _Matcher(old.operators, new.operators, edits)
    matcher.match_pinned()
    matcher.match(Why.GIVEN, lambda each: each.id if each.is_given else None)
    matcher.match(Why.SAME, lambda each: each.with_inputs + each.with_outputs)
    matcher.match(Why.SAME, lambda each: each.with_inputs)
    matcher.match_unique(Why.NAME, lambda each: f"{each.kind} {each.name}")
    matcher.match_unique(Why.OWN, lambda each: each.own)
    matcher.match_alike()
    return tuple(sorted(matcher.pairs, key=lambda pair: pair.new))


class _Matcher:
    def __init__(
        self, old: Sequence[Operator], new: Sequence[Operator], edits: MappingEdits
    ) -> None:
        self.pairs: list[Pair] = []
        self._old, self._new, self._edits = old, new, edits
        self._forbidden = frozenset(edits.forbidden)
        self._used_old: set[int] = set()
        self._used_new: set[int] = set()
        self._known: set[tuple[int, int]] = set()
        self._around = tuple(_find_around(each) for each in (old, new))

    def match_pinned(self) -> None:
        """Pair what the user pins."""
        places = {each.id: place for place, each in enumerate(self._old)}
        others = {each.id: place for place, each in enumerate(self._new)}
        for old, new in self._edits.pinned:
            if old in places and new in others:
                self._add(places[old], others[new], Why.PINNED, 1.0)

    def match(self, why: Why, key_of: Callable[[Operator], str | None]) -> None:
        """Pair operators that have the same key, in their order: those of one key are equal."""
        waiting: dict[str, list[int]] = {}
        for place in self._free_old():
            if (key := key_of(self._old[place])) is not None:
                waiting.setdefault(key, []).append(place)
        for place in self._free_new():
            found = waiting.get(key_of(self._new[place]) or "", [])
            allowed = next((each for each in found if self._may_pair(each, place)), None)
            if allowed is not None:
                found.remove(allowed)
                self._add(allowed, place, why, 1.0)

    def match_unique(self, why: Why, key_of: Callable[[Operator], str]) -> None:
        """Pair operators whose key is there once in each graph: of several none is guessed."""
        counts = [Counter(key_of(each) for each in some) for some in (self._old, self._new)]
        places = {key_of(self._old[place]): place for place in self._free_old()}
        for place in self._free_new():
            key = key_of(self._new[place])
            if key in places and counts[0][key] == counts[1][key] == 1:
                score = self._score(places[key], place)
                if score > 0:
                    self._add(places[key], place, why, score)

    def match_alike(self) -> None:
        """Pair operators of one kind, those first that have most in common.

        A pair makes those around it more alike: these are put into the heap once more.
        """
        free_new = list(self._free_new())
        heap = [self._candidate(old, new) for old in self._free_old() for new in free_new]
        heapq.heapify(heap)
        while heap:
            negative, old, new = heapq.heappop(heap)
            if -negative < ALIKE_MIN:
                return
            if old in self._used_old or new in self._used_new:
                continue
            self._add(old, new, Why.ALIKE, -negative)
            for before, after in zip(self._around[0][old], self._around[1][new], strict=True):
                for one in before:
                    for other in after:
                        heapq.heappush(heap, self._candidate(one, other))

    def _add(self, old: int, new: int, why: Why, score: float) -> None:
        if old in self._used_old or new in self._used_new or not self._may_pair(old, new):
            return
        self._used_old.add(old)
        self._used_new.add(new)
        self._known.add((old, new))
        self.pairs.append(Pair(old, new, why, round(score, 3)))

    def _may_pair(self, old: int, new: int) -> bool:
        return (self._old[old].id, self._new[new].id) not in self._forbidden

    def _candidate(self, old: int, new: int) -> tuple[float, int, int]:
        return (-self._score(old, new), old, new)

    def _score(self, old: int, new: int) -> float:
        """Return how much two operators have in common, from 0 to 1."""
        before, after = self._old[old], self._new[new]
        if not _is_of_kind(before, after) or (before.is_given and after.is_given):
            return 0.0
        if not self._may_pair(old, new):
            return 0.0
        is_near = [
            any((one, other) in self._known for one in mine for other in theirs)
            for mine, theirs in zip(self._around[0][old], self._around[1][new], strict=True)
        ]
        facts = _common(_facts(before), _facts(after))
        return (
            COMPUTED * facts
            + DEPENDED * _common(_columns(before), _columns(after))
            + (AROUND * sum(is_near))
        )

    def _free_old(self) -> Iterator[int]:
        return (each for each in range(len(self._old)) if each not in self._used_old)

    def _free_new(self) -> Iterator[int]:
        return (each for each in range(len(self._new)) if each not in self._used_new)


def _facts(operator: Operator) -> set[str]:
    return {f"{each.role} {each.text}" for each in operator.facts}


def _columns(operator: Operator) -> set[str]:
    return {column for edge in operator.inputs for column in edge.columns}


def _common(one: set[str], other: set[str]) -> float:
    return len(one & other) / max(len(one | other), 1)


def _is_of_kind(one: Operator, other: Operator) -> bool:
    """Return whether operators are of one kind: a DISTINCT is an aggregate without functions."""
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


# ---- what a person has said


def choose_edits(
    kept: EditsState | None, digest: str, old: StoredPlan, new: StoredPlan
) -> MappingEdits:
    """Return the edits that hold for a comparison; none, where nothing that was said fits.

    `digest`: of `old`, the plan that the log has. Raises SparkUnknown.
    """
    if kept is None:
        return NO_EDITS
    ids = (_ids(old), _ids(new))
    is_same = digest == kept.before
    pinned, forbidden = (
        tuple(_fit(some, *ids, is_same=is_same)) for some in (kept.pinned, kept.forbidden)
    )
    return MappingEdits(pinned, forbidden)


def restrict_edits(edits: MappingEdits, old: StoredPlan, new: StoredPlan) -> MappingEdits:
    """Return the edits that name operators of both plans. Raises SparkUnknown."""
    before, after = _ids(old), _ids(new)
    return MappingEdits(
        *(
            tuple(each for each in some if each[0] in before and each[1] in after)
            for some in (edits.pinned, edits.forbidden)
        )
    )


def _fit(
    kept: Iterable[MappingEdit], old: Collection[str], new: Collection[str], *, is_same: bool
) -> Iterator[tuple[str, str]]:
    for each in kept:
        if is_same and each.old in old and each.new in new:
            yield each.old, each.new
        elif not is_same and _is_only_in(each.new, old, new) and _is_only_in(each.old, new, old):
            yield each.new, each.old


def _is_only_in(id_: str, some: Collection[str], others: Collection[str]) -> bool:
    return id_ in some and id_ not in others


def _ids(plan: StoredPlan) -> set[str]:
    operators = describe_graph(plan.graph).operators
    return {each.id for each in operators if each.state is not None}
