"""Digests of the terms of a graph, in which no place and no name of a query is left.

What it is: `TermDigests`, one digest for each term, and `hash_form`, the digest of a JSON value.
`Canonical` gives one form to calls that are written in several ways and compute the same: `a > 3`
is `3 < a`, the operands of `=` and `+` have an order of their own, and CASE with one branch is
`if`.
What it promises: pure. Equal digests mean equal values of equal sources, in any two graphs; calls
have one form only where they have the same value for every row. Operands of `+` are not grouped
anew: sums of DOUBLE would differ. Which of two operands is evaluated first is no part of a value,
but an error of the second one may never be raised: operands of AND and OR, by which authors prevent
such errors, are sorted only where none of them can fail.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from ashore.base import codec
from ashore.base.codec import Json
from ashore.plans.graph import (
    NULLABLE,
    OF_BRANCH,
    RANDOM,
    UNION_READS,
    UNITED,
    PlanGraph,
    Term,
    TermKind,
    Window,
)

_MIRRORED = {"GreaterThan": "LessThan", "GreaterThanOrEqual": "LessThanOrEqual"}
_COMMUTATIVE = {"EqualTo", "EqualNullSafe", "Add", "Multiply"}
_NEGATED = {
    "GreaterThan": "LessThanOrEqual",
    "LessThanOrEqual": "GreaterThan",
    "LessThan": "GreaterThanOrEqual",
    "GreaterThanOrEqual": "LessThan",
}
_CONDITIONALS = {"If", "CaseWhen"}
# Functions that truncate a time, and which of their arguments is the unit, in any case.
_UNITS = {"TruncTimestamp": 0, "TruncDate": 1}
# Both `[]` and `element_at` raise an error outside of the array. Where they do not, a default that
# Spark does not write here may take the place of NULL.
_FAILS = ("failOnError", "true")
# None of these raises an error, whatever the values of its arguments are.
_NEVER_FAILS = {
    *("EqualTo", "EqualNullSafe", "LessThan", "LessThanOrEqual", *_MIRRORED),
    *("And", "Or", "Not", "In", "IsNull", "IsNotNull", "IsNaN"),
    *("StartsWith", "EndsWith", "Contains", "Coalesce", NULLABLE, OF_BRANCH),
}
_LEAVES = {TermKind.COLUMN, TermKind.RECORD, TermKind.LITERAL, TermKind.NULL}


@dataclass(frozen=True, slots=True)
class CanonicalCall:
    """A call in its canonical form."""

    name: str
    arguments: tuple[str, ...]  # their digests
    options: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Canonical:
    """The canonical forms of the calls of one plan."""

    terms: Sequence[Term]
    digests: Sequence[str]  # of terms, of which those that a call is over are there
    digest_of: Callable[[Term], str]  # the digest of a term that need not be in the plan

    def call(self, term: Term) -> CanonicalCall:
        """Return the form of a call."""
        arguments = tuple(self.digests[each] for each in term.arguments)
        made = CanonicalCall(term.name, arguments, term.options)
        match term.name:
            case name if name in _MIRRORED:
                return CanonicalCall(_MIRRORED[name], arguments[::-1], term.options)
            case name if name in _COMMUTATIVE:
                return CanonicalCall(name, tuple(sorted(arguments)), term.options)
            case name if name in _CONDITIONALS and len(arguments) in {2, 3}:
                # Of one branch: without ELSE it is NULL.
                is_null = self.terms[term.arguments[-1]].kind is TermKind.NULL
                is_short = len(arguments) == 3 and is_null
                return CanonicalCall("If", arguments[:2] if is_short else arguments)
            case "And" | "Or":
                return self._junction(term, made)
            case "In":
                equalities = self._equalities(term)
                return CanonicalCall("Or", tuple(sorted(equalities))) if equalities else made
            case name if name in _UNITS:
                return self._truncation(term, made)
            case "ElementAt":
                return self._element(term, made)
            case _:
                return made

    def counted(self, term: Term) -> tuple[str, ...] | None:
        """Return the conditions that rows meet which a function counts; None: it is no such one.

        `count_if(p)`, `count(*) FILTER (WHERE p)` and `count(CASE WHEN p THEN 1 END)` count the
        same rows.
        """
        if term.kind is not TermKind.AGGREGATE or term.name != "Count" or term.is_distinct:
            return None
        found = {self.digests[each] for each in term.filters}
        for each in term.arguments:
            found |= self._not_null(each)
        return tuple(sorted(found))

    def _not_null(self, place: int) -> set[str]:
        """Return the conditions under which a term is not NULL."""
        term = self.terms[place]
        if term.kind is TermKind.LITERAL:
            return set()
        if term.kind is TermKind.CALL and term.name in _CONDITIONALS:
            condition, then, *others = term.arguments
            has_other = any(self.terms[each].kind is not TermKind.NULL for each in others)
            if len(others) < 2 and not has_other:
                return {self.digests[condition], *self._not_null(then)}
            if len(others) == 1 and self.terms[then].kind is TermKind.NULL:
                (other,) = others
                if self._is_negation(condition, other):
                    return {self.digests[other]}
        return {self.digest_of(Term(TermKind.CALL, "IsNotNull", arguments=(place,)))}

    def _is_negation(self, place: int, of: int) -> bool:
        """Return whether one condition is true where another one is false, and only there."""
        term, other = self.terms[place], self.terms[of]
        if term.kind is not TermKind.CALL:
            return False
        if term.name == "Not":
            return term.arguments == (of,)
        if term.name == "EqualTo" and of in term.arguments:
            return any(_is_false(self.terms[each]) for each in term.arguments)
        is_comparison = other.kind is TermKind.CALL and _NEGATED.get(term.name) == other.name
        return is_comparison and term.arguments == other.arguments

    def _junction(self, term: Term, made: CanonicalCall) -> CanonicalCall:
        """Return the form of AND or OR: a set of operands, where none of them can fail."""
        operands = [*self._operands(term)]
        if not all(self._never_fails(each) for each in operands):
            return made
        if term.name == "And":
            return CanonicalCall("And", tuple(sorted({self.digests[each] for each in operands})))
        found = set[str]()
        for each in operands:
            found.update(self._equalities(self.terms[each]) or {self.digests[each]})
        return CanonicalCall("Or", tuple(sorted(found)))

    def _operands(self, term: Term) -> Iterator[int]:
        """Yield the operands of a junction and of those in it, each once."""
        waiting, seen = [*term.arguments], set[int]()
        while waiting:
            place = waiting.pop()
            if place in seen:
                continue
            seen.add(place)
            below = self.terms[place]
            if below.kind is TermKind.CALL and below.name == term.name:
                waiting += below.arguments
            else:
                yield place

    def _never_fails(self, place: int) -> bool:
        waiting, seen = [place], {place}
        while waiting:
            term = self.terms[waiting.pop()]
            is_safe = term.kind is TermKind.CALL and (
                term.name in _NEVER_FAILS or self._is_safe_cast(term)
            )
            if not is_safe and term.kind not in _LEAVES:
                return False
            waiting += set(term.parts) - seen
            seen |= set(term.parts)
        return True

    def _is_safe_cast(self, term: Term) -> bool:
        """Return whether a call is a cast of an integer to one that has all of its values."""
        widths = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
        if term.name != "Cast" or term.type not in widths:
            return False
        source = self.terms[term.arguments[0]]
        return source.type in widths and widths[source.type] <= widths[term.type]

    def _equalities(self, term: Term) -> set[str]:
        """Return the digests of what IN a list of literals is the OR of; none: it is another."""
        if term.kind is not TermKind.CALL or term.name != "In":
            return set()
        value, *others = term.arguments
        if any(self.terms[each].kind is not TermKind.LITERAL for each in others):
            return set()
        equal = (Term(TermKind.CALL, "EqualTo", arguments=(value, each)) for each in others)
        return {self.digest_of(each) for each in equal}

    def _truncation(self, term: Term, made: CanonicalCall) -> CanonicalCall:
        """Return the form of a truncation of a time: its unit in upper case."""
        place = _UNITS[term.name]
        unit = self.terms[term.arguments[place]]
        if unit.kind is not TermKind.LITERAL:
            return made
        upper = self.digest_of(Term(TermKind.LITERAL, unit.name.upper(), unit.type))
        arguments = (*made.arguments[:place], upper, *made.arguments[place + 1 :])
        return CanonicalCall(term.name, arguments, term.options)

    def _element(self, term: Term, made: CanonicalCall) -> CanonicalCall:
        """Return the form of `element_at(arr, 1)`, which is `arr[0]` in ANSI mode."""
        array, place = term.arguments
        number = self.terms[place]
        is_place = number.kind is TermKind.LITERAL and number.type == "int"
        if not is_place or int(number.name) < 1 or term.options != (_FAILS,):
            return made
        before = self.digest_of(Term(TermKind.LITERAL, str(int(number.name) - 1), "int"))
        return CanonicalCall("GetArrayItem", (self.digests[array], before), term.options)


def _is_false(term: Term) -> bool:
    return term.kind is TermKind.LITERAL and (term.type, term.name.lower()) == ("boolean", "false")


@dataclass(slots=True)
class TermDigests:
    """The digests of a graph's terms."""

    graph: PlanGraph
    # how each source is distinguished from others, in the order of the graph
    sources: Sequence[Json]
    # whether seeds of random functions count: Spark makes up those that are missing
    has_seeds: bool = True
    # whether calls have their canonical form. Ids of operators are of calls as they are written, so
    # that they stay the same when more forms are known to be equal
    is_canonical: bool = True
    _digests: list[str] = field(default_factory=list)
    _canonical: Canonical = field(init=False)

    def __post_init__(self) -> None:
        self._canonical = Canonical(self.graph.terms, self._digests, self._digest_of)
        for term in self.graph.terms:
            self._digests.append(self._digest_of(term))

    def __getitem__(self, place: int) -> str:
        """Return the digest of the term at a place."""
        return self._digests[place]

    def all(self, places: Sequence[int]) -> list[str]:
        """Return the digests of terms, in their order."""
        return [self._digests[each] for each in places]

    def _digest_of(self, term: Term) -> str:
        return hash_form(self._form(term))

    def _form(self, term: Term) -> Json:
        counted = self._canonical.counted(term) if self.is_canonical else None
        if counted is not None:
            return [term.kind.value, term.name, [*counted]]
        window: Window | None = term.window
        is_random = term.name in RANDOM and not self.has_seeds
        is_united = term.kind is TermKind.CALL and term.name == UNITED
        call = self._call(term)
        is_generated = term.kind is TermKind.MADE and bool(term.arguments)
        return [
            term.kind.value,
            "" if is_generated else call.name,  # which column it is say the options
            term.type,
            self._united(term) if is_united else [*([] if is_random else call.arguments)],
            None if term.source is None else self._source(term.source, term.copy),
            [] if is_united else [[*each] for each in call.options],
            [*self.all(term.filters)],
            term.is_distinct,
            None if window is None else codec.encode(window),
        ]

    def _call(self, term: Term) -> CanonicalCall:
        if term.kind is TermKind.CALL and self.is_canonical:
            return self._canonical.call(term)
        return CanonicalCall(term.name, tuple(self.all(term.arguments)), term.options)

    def _united(self, term: Term) -> Json:
        """Return the form of a column of a union: the order of inputs means nothing."""
        reads = dict(term.options).get(UNION_READS, "").split(",")
        readings = [self._read(each) if each else None for each in reads]
        pairs: list[Json] = [
            [digest, source]
            for digest, source in zip(self.all(term.arguments), readings, strict=True)
        ]
        return sorted(pairs, key=hash_form)

    def _read(self, text: str) -> Json:
        place, _, copy = text.partition(".")
        return self._source(int(place), int(copy or 0))

    def _source(self, place: int, copy: int) -> Json:
        return [self.sources[place], copy] if copy else self.sources[place]


def hash_form(form: Json) -> str:
    """Return the SHA-256 of a JSON value."""
    return hashlib.sha256(json.dumps(form, separators=(",", ":")).encode()).hexdigest()
