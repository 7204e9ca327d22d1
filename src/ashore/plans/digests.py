"""Digests of the terms of a graph, in which no place and no name of a query is left.

What it is: `TermDigests`, one digest for each term, and `hash_form`, the digest of a JSON value.
What it promises: pure. Equal digests mean equal values of equal sources, in any two graphs.
"""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from ashore.base import codec
from ashore.base.codec import Json
from ashore.plans.canonical import Canonical, CanonicalCall
from ashore.plans.graph import PlanGraph
from ashore.plans.terms import RANDOM, UNITED, Term, TermKind
from ashore.plans.unions import READS
from ashore.plans.windows import Window


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
        reads = dict(term.options).get(READS, "").split(",")
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
