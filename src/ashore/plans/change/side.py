"""Two queries as far as they read the same, and their operators that keep state.

What it is: `compare_plans`, both plans without the inputs of unions that only one of them has;
`Side`, one of them with what is derived of it once, and `KeptOperator`.
What it promises: pure. Operators keep the ids and numbers that they have in the whole plans.
Digests of two sides can be compared: those of the old one are over the ids that its operators have
in the new one.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from ashore.base.codec import Json
from ashore.errors import fail
from ashore.plans.change.sources import SourceMapping
from ashore.plans.change.verdicts import ColumnVerdict, StateVerdict
from ashore.plans.digests import TermDigests, hash_form
from ashore.plans.graph import (
    FUNCTIONS,
    KEYS,
    NULLABLE,
    SESSION_PLACE,
    WATERMARK,
    KeptColumn,
    OperatorState,
    PlanGraph,
    PlanNode,
    StoredPlan,
    Term,
    TermKind,
    list_fixed,
    split_condition,
)
from ashore.plans.operator_graph import Operator, OperatorGraph, State, describe_graph
from ashore.plans.operators import OperatorKind
from ashore.plans.regions import (
    FILTER,
    Region,
    find_below,
    find_regions,
    narrow,
    number_sources,
    walk_region,
)
from ashore.plans.words import Words

SESSIONS = "SessionWindowStateStoreSaveExec"
WITHIN = "StreamingDeduplicateWithinWatermarkExec"
# Without event time among their keys, these keep what they have.
_BY_KEYS = {OperatorKind.AGGREGATE, OperatorKind.DISTINCT, OperatorKind.DEDUPLICATE}
_DISTINCT = {OperatorKind.DISTINCT, OperatorKind.DEDUPLICATE}


@dataclass(frozen=True, kw_only=True)
class Side:
    """A query, compared with the other one."""

    plan: StoredPlan  # of the query, without inputs of unions that the other query does not have
    whole: PlanGraph  # the graph with these inputs
    numbers: Sequence[Json]  # what distinguishes its sources, in both queries
    # the ids that its stateful operators have in the other query; None: this is that
    renumbered: Mapping[int, int] | None = None
    # the ids of its deduplications that the other query does not have: what stands on them is
    # compared with what stands on their inputs there
    passed: frozenset[int]

    @cached_property
    def digests(self) -> TermDigests:
        """The digests of its terms."""
        return TermDigests(self.plan.graph, self.numbers)

    @cached_property
    def _regions(self) -> dict[int, Region]:
        return find_regions(self.plan.graph, self.renumbered, self.numbers, self.passed)

    @cached_property
    def _nodes(self) -> dict[int, PlanNode]:
        return {node.state.operator_id: node for node in self.plan.graph.nodes if node.state}

    @cached_property
    def words(self) -> Words:
        """Its terms in words."""
        graph = self.plan.graph
        return Words(graph.terms, graph.sources, is_qualified=True, is_exact=True)

    @cached_property
    def full_words(self) -> Words:
        """Its terms in words, with types, options and readings."""
        return replace(self.words, is_full=True, _texts={})

    def kept(self, operator: Operator) -> "KeptOperator":
        """Return an operator that keeps state."""
        state = operator.state or fail("an operator without state is judged")
        number = state.operator_id
        return KeptOperator(self, operator, state, self._nodes[number], self._regions[number])

    def is_same_text(self, other: "Side") -> bool:
        """Return whether both have the same statements and Python functions."""
        mine, theirs = self.plan, other.plan
        return (mine.texts, mine.functions) == (theirs.texts, theirs.functions)

    @cached_property
    def watermarked(self) -> frozenset[str]:
        """The conditions that rows have to meet to move a watermark, by their digests."""
        graph = self.plan.graph
        waiting = [place for place, node in enumerate(graph.nodes) if node.kind == WATERMARK]
        found, below = set[str](), find_below(graph)
        while waiting:
            place = waiting.pop()
            node = graph.nodes[place]
            waiting += node.inputs
            if node.kind == FILTER:
                terms = node.terms("condition")
                parts = (part for term in terms for part in split_condition(graph, term))
                labels = sorted((self.numbers[each] for each in below[place]), key=hash_form)
                found |= {hash_form([self.digests[part], labels]) for part in parts}
        return frozenset(found)

    def term(self, place: int) -> Term:
        """Return a term."""
        return self.plan.graph.terms[place]


@dataclass(frozen=True)
class KeptOperator:
    """An operator that keeps state, and what is below it down to the next."""

    side: Side
    operator: Operator
    state: State
    node: PlanNode
    region: Region

    @cached_property
    def keys(self) -> tuple[int, ...]:
        """The terms that it groups by, in the order of the state's bytes."""
        return tuple(term for name in KEYS for term in self.node.terms(name))

    @cached_property
    def grouped(self) -> tuple[int, ...]:
        """The keys that a session window keeps once more with its functions, in that order."""
        if self.node.kind != SESSIONS:
            return ()
        *others, session = self.keys
        place = int(self.node.option(SESSION_PLACE) or 0)
        return (*others[:place], session, *others[place:])

    @cached_property
    def functions(self) -> tuple[int, ...]:
        """The terms that it computes of each group."""
        return self.node.terms(FUNCTIONS)

    @property
    def planned(self) -> OperatorState:
        """Its state as Spark plans it."""
        return self.node.state or fail("an operator without state is judged")

    @property
    def columns(self) -> tuple[KeptColumn, ...]:
        """What it keeps for each key, in the order of the state's bytes."""
        return self.planned.columns

    def form_of(self, term: int) -> list[tuple[str, str]]:
        """Return what it keeps for a function: each part with its type."""
        return [(each.part, each.type) for each in self.columns if each.term == term]

    def columns_of_side(self, side: str) -> list[KeptColumn]:
        """Return the columns of the rows of one side of a join."""
        return [each for each in self.columns if each.side == side]

    @cached_property
    def conditions(self) -> Mapping[str, int]:
        """The conditions that a row has to meet before it reaches it, by their digests.

        A condition on another input of a union or a join is another one.
        """
        return dict(self.region.filters)

    def columns_in(self, terms: Iterable[int]) -> frozenset[int]:
        """Return the columns of sources that terms are computed from."""
        found, waiting = set[int](), [*terms]
        while waiting:
            place = waiting.pop()
            parts = self.side.term(place).parts
            waiting += parts
            found |= set() if parts else {place}
        kinds = {TermKind.COLUMN, TermKind.RECORD, TermKind.MADE}
        return frozenset(each for each in found if self.side.term(each).kind in kinds)

    @cached_property
    def loses_inputs(self) -> bool:
        """Whether a union below it has inputs that the other query does not have."""
        graph, whole = self.side.plan.graph, self.side.whole
        place = graph.nodes.index(self.node)
        walked = walk_region(graph, place, self.side.passed)
        return any(graph.nodes[at] != whole.nodes[at] for at in walked)

    @property
    def takes_distinct(self) -> bool:
        """Whether rows are deduplicated before they reach it, and are not in the other query."""
        states = (self.side.plan.graph.nodes[place].state for place in self.region.nodes[1:])
        return any(each is not None for each in states)

    def is_continued_by(self, new: "KeptOperator") -> bool:
        """Return whether rows of its state are such as the new operator takes from now on."""
        return self.region.digest == new.region.digest and not self.loses_inputs

    @property
    def nullable(self) -> Mapping[tuple[str, str, str], bool]:
        """Whether each column of its state may be NULL, by what it is of."""
        return {
            (self.side.digests[each.term], each.part, each.side): each.is_nullable
            for each in (*self.planned.keys, *self.columns)
        }

    @property
    def never_null(self) -> frozenset[tuple[str, str, str]]:
        """The columns of its state that Spark may read as if none of them was NULL."""
        by_plan = {of for of, is_nullable in self.nullable.items() if not is_nullable}
        by_conditions = {
            (self.side.digests[each.term], each.part, each.side)
            for each in self.columns
            if each.side and self.is_null_excluded(each.term)
        }
        return frozenset(by_plan | by_conditions)

    def is_null_excluded(self, term: int) -> bool:
        """Return whether Spark may take a term for never NULL, though the plan does not say so.

        Of a stream of files each batch is planned with fewer columns, so that a filter may stand
        right below the operator: what its conditions leave out is never NULL then. Spark adds such
        a condition for whatever an author's conditions compare. With Kafka the plan is what runs.
        """
        return term in self._null_excluded

    @cached_property
    def _null_excluded(self) -> frozenset[int]:
        if not list_fixed(self.side.plan.graph.sources):
            return frozenset()
        terms = self.side.plan.graph.terms
        conditions = (terms[each] for each in self.conditions.values())
        found = {each.arguments[0] for each in conditions if each.name == "IsNotNull"}
        for place, term in enumerate(terms):  # each comes after those that it is made of
            if term.kind is not TermKind.CALL or term.name == NULLABLE:
                continue
            parts = [each for each in term.parts if terms[each].kind is not TermKind.LITERAL]
            is_any = term.name == "Coalesce" and not found.isdisjoint(parts)
            if is_any or (parts and found.issuperset(parts)):
                found.add(place)
        return frozenset(found)

    @property
    def has_event_time(self) -> bool:
        """Whether a watermark lets it forget keys."""
        return self.planned.has_event_time

    @property
    def may_follow_watermark(self) -> bool:
        """Whether a watermark may say what it hands on, drops or forgets."""
        if self.operator.kind == OperatorKind.JOIN:
            return any(each.is_bounded for each in self.planned.sides)
        is_by_keys = self.operator.kind in _BY_KEYS and self.node.kind != WITHIN
        return self.has_event_time or not is_by_keys

    def digests(self, terms: Sequence[int]) -> list[str]:
        """Return the digests of terms."""
        return self.side.digests.all(terms)

    def describe(self, term: int, *, is_full: bool = False) -> str:
        """Return a term in words. `is_full`: with its types, options and readings."""
        return (self.side.full_words if is_full else self.side.words).of(term)

    def describe_column(self, column: KeptColumn) -> str:
        """Return a column of the state in words."""
        parts = (column.side, self.describe(column.term), column.part)
        return ".".join(each for each in parts if each)

    def all_as(self, verdict: StateVerdict, why: str = "") -> tuple[ColumnVerdict, ...]:
        """Return one verdict on all keys and columns."""
        names = [f"key {each.name}" for each in self.state.keys]
        names += [self.describe_column(each) for each in self.columns]
        return tuple(ColumnVerdict(name, verdict, why) for name in names)


def distinguish(
    old: KeptOperator, was: Sequence[int], new: KeptOperator, now: Sequence[int]
) -> tuple[str, str]:
    """Return terms of two queries in words, with types and options where the words are the same."""
    sides = ((old, was), (new, now))
    for is_full in (False, True):
        one, other = (
            ", ".join(each.describe(term, is_full=is_full) for term in terms) or "none"
            for each, terms in sides
        )
        if one != other:
            break
    return one, other


def describe_pair(old: KeptOperator, new: KeptOperator) -> tuple[str, str]:
    """Return the names of two operators, with their keys in full where the names are the same."""
    one, other = old.operator.name, new.operator.name
    if one != other:
        return one, other
    before, after = distinguish(old, old.keys, new, new.keys)
    return f"{one} ({before})", f"{other} ({after})"


# ---- both


@dataclass(frozen=True, slots=True)
class ComparedPlans:
    """Two plans as they are compared: without the inputs of unions that only one of them has."""

    old: StoredPlan
    new: StoredPlan
    before: OperatorGraph  # of the old one
    after: OperatorGraph  # of the new one
    wholes: tuple[PlanGraph, PlanGraph]  # with all inputs
    numbers: tuple[Sequence[Json], Sequence[Json]]  # what distinguishes the sources of both

    def sides(self, pairs: Iterable[tuple[Operator, Operator]]) -> tuple[Side, Side]:
        """Return both queries. `pairs`: which stateful operator of the new one an old one is."""
        renumbered = {
            one.state.operator_id: other.state.operator_id
            for one, other in pairs
            if one.state and other.state
        }
        old = Side(
            plan=self.old,
            whole=self.wholes[0],
            numbers=self.numbers[0],
            renumbered=renumbered,
            passed=_find_distinct(self.before) - renumbered.keys(),
        )
        new = Side(
            plan=self.new,
            whole=self.wholes[1],
            numbers=self.numbers[1],
            passed=_find_distinct(self.after) - {*renumbered.values()},
        )
        return old, new


def _find_distinct(graph: OperatorGraph) -> frozenset[int]:
    """Return the ids of operators that hand on each distinct row once, as it is."""
    return frozenset(
        each.state.operator_id
        for each in graph.operators
        if each.state is not None and each.kind in _DISTINCT
    )


def compare_plans(old: StoredPlan, new: StoredPlan, mapping: SourceMapping) -> ComparedPlans:
    """Return two plans as they are compared. `mapping`: of their sources. Raises SparkUnknown."""
    was = replace(old, graph=narrow(old.graph, mapping.dropped))
    now = replace(new, graph=narrow(new.graph, mapping.added))
    return ComparedPlans(
        was,
        now,
        describe_graph(was.graph, old.graph),
        describe_graph(now.graph, new.graph),
        (old.graph, new.graph),
        (mapping.number_old(old.graph, new.graph), number_sources(now.graph.sources)),
    )
