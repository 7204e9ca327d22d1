"""The verdict on the state of a query whose SQL has changed.

What it is: `judge_query`, from the plan that made a state and the one that is to continue with it;
`find_changes`, what differs between the two, in words; `require_continued`, which refuses a state
that cannot continue as it is.
What it promises: pure. `full` is said only where the state means the same to both plans: operators
are compared by what they compute down to the columns of sources, never by types or names. What
cannot be compared is refused, and so is a state that would have to be rewritten and cannot be.
No change is found only where the same state would have come about: Spark compares types alone, and
would continue with a sum as if it were a maximum. What stands above all state may change: it
decides what is written from now on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from ashore.errors import QueryRefused, SparkUnknown
from ashore.plans.change.columns import judge_aggregate, judge_deduplicate, judge_join
from ashore.plans.change.rewriting import find_obstacles
from ashore.plans.change.side import KeptOperator, compare_plans, describe_pair
from ashore.plans.change.sources import SourceMapping, judge_sources, match_sources
from ashore.plans.change.verdicts import (
    ColumnVerdict,
    MappedPair,
    OperatorVerdict,
    QueryVerdict,
    StateVerdict,
    describe_verdict,
    worst_verdict,
)
from ashore.plans.graph import (
    FUNCTIONS,
    PlanGraph,
    PlanNode,
    StoredPlan,
    ViewRule,
    is_released,
    list_fixed,
    list_topics,
    split_condition,
)
from ashore.plans.matching import NO_EDITS, MappingEdits, match_operators
from ashore.plans.operator_graph import Operator
from ashore.plans.operators import GROUPED, OperatorKind, describe_operators
from ashore.plans.regions import Region, find_regions, options_of
from ashore.plans.words import Words

FILTERED = "it takes other rows from now on: results differ from those of a replay"
MOVED = (
    "a filter below a watermark has changed: the watermark follows other rows, so windows close, "
    "late rows are dropped and state is forgotten at other times than before"
)
NOT_MET = "what is in the state and does not meet the new condition would still come out"
OTHER_OWN = "it computes something else, in a way that Ashore does not know"
OTHER_INPUTS = "an operator below it computes other rows"
OTHER_NULLS = "other columns of its state may be NULL than before"
MORE_INPUTS = "a union below it has more inputs: their rows reach it from now on"
FEWER_INPUTS = (
    "a union below it has fewer inputs: rows of those that are gone stay in the state, so results "
    "differ from those of a replay"
)
DISTINCT = "rows are deduplicated below it from now on: results differ from those of a replay"
NOT_DISTINCT = (
    "rows are no longer deduplicated below it, and those that wait there are lost: results differ "
    "from those of a replay"
)
REPEATED = "rows that wait, and are equal, would still come out each"
UNSEEN = (
    "Spark does not show everything that it computes (a subquery, a function of the user, a "
    "condition that a database is handed), and the text of the SQL has changed"
)
RELEASED = (
    "its INSERT was dropped by a migration: it starts empty, where its log ends; `ashore migrate "
    "undo` brings its state back"
)


class _Finding(NamedTuple):
    """What is said of one pair besides its columns. `differs`: from a replay, from now on."""

    verdict: StateVerdict
    why: str
    differs: bool = False


def judge_query(old: StoredPlan, new: StoredPlan, edits: MappingEdits = NO_EDITS) -> QueryVerdict:
    """Return the verdict on a state.

    `old` made it, `new` would continue with it. `edits`: what the user says of which operator is
    which.
    Raises SparkUnknown where an operator is not known. Not judged is what Spark does not write (the
    body of a function, a condition that a database is handed): a query that has such is refused
    where its text has changed.
    """
    if old.planner != new.planner:
        return _refuse(f"the plans cannot be compared: {old.planner} and {new.planner} made them")
    views = tuple(find_changed_views(old.views, new.views))
    if views and any(node.state for graph in (old.graph, new.graph) for node in graph.nodes):
        return _refuse(*views)  # without state no row is remembered that was read another way
    mapping = match_sources(old.graph, new.graph)
    if mapping.unclear:
        return _refuse(*mapping.unclear)
    verdict = _Judge(old, new, edits, mapping).judge()
    if is_released(old) and not is_released(new):
        return replace(
            verdict, verdict=worst_verdict([verdict.verdict, StateVerdict.PARTIAL]), why=(RELEASED,)
        )
    if verdict.verdict in {StateVerdict.FULL, StateVerdict.REFUSED}:
        return verdict  # nothing is rewritten
    return _with_obstacles(verdict, find_obstacles(old, new, verdict.mapping))


def require_continued(
    subject: str, old: StoredPlan, new: StoredPlan, hint: str, edits: MappingEdits = NO_EDITS
) -> QueryVerdict | None:
    """Return the verdict on a state that continues as it is; None: nothing that made it changed.

    `subject`: whose state it is, for the message. Raises QueryRefused where it would mean something
    else to `new`; SparkUnknown.
    """
    changes = find_changes(old, new)
    if not changes:
        return None
    verdict = judge_query(old, new, edits)
    if verdict.verdict is StateVerdict.FULL:
        return verdict
    reasons = dict.fromkeys([*describe_verdict(verdict), *changes])
    raise QueryRefused(
        f"{subject} was made by different SQL, and would give wrong rows: {'; '.join(reasons)}",
        hint=hint,
        changes=list(changes),
        verdict=verdict.verdict.value,
        operators=[
            {"name": each.name, "verdict": each.verdict.value} for each in verdict.operators
        ],
    )


def _with_obstacles(verdict: QueryVerdict, obstacles: Mapping[str, str]) -> QueryVerdict:
    """Refuse the operators whose stores cannot be rewritten. `obstacles`: why, by their new ids."""
    operators = tuple(
        replace(
            each, verdict=StateVerdict.REFUSED, why=(*each.why, f"it cannot be rewritten: {why}")
        )
        if (why := obstacles.get(each.new or ""))
        else each
        for each in verdict.operators
    )
    found = worst_verdict([verdict.verdict, *(each.verdict for each in operators)])
    return replace(verdict, verdict=found, operators=operators)


def _refuse(*why: str) -> QueryVerdict:
    return QueryVerdict(StateVerdict.REFUSED, why, (), ())


class _Judge:
    def __init__(
        self, old: StoredPlan, new: StoredPlan, edits: MappingEdits, mapping: SourceMapping
    ) -> None:
        self._sources = judge_sources(old.graph, new.graph, mapping)
        compared = compare_plans(old, new, mapping)
        self._before, self._after = compared.before.operators, compared.after.operators
        self._pairs = [
            (pair, self._before[pair.old], self._after[pair.new])
            for pair in match_operators(compared.before, compared.after, edits)
            if self._before[pair.old].state and self._after[pair.new].state
        ]
        self._old, self._new = compared.sides((one, other) for _, one, other in self._pairs)
        self._moves_watermark = self._old.watermarked != self._new.watermarked

    def judge(self) -> QueryVerdict:
        operators = tuple(self._judge_operators())
        mapping = tuple(
            MappedPair(one.id, other.id, pair.why, pair.score) for pair, one, other in self._pairs
        )
        parts = [each.verdict for each in self._sources]
        verdict = worst_verdict([*parts, *(each.verdict for each in operators)])
        return QueryVerdict(verdict, (), operators, mapping, sources=self._sources)

    def _judge_operators(self) -> Iterator[OperatorVerdict]:
        of_new = {other.id: one for _, one, other in self._pairs}
        for operator in self._after:
            if operator.state is not None:
                was = of_new.get(operator.id)
                yield self._judge_pair(was, operator) if was else _judge_added(operator)
        paired = {one.id for _, one, _ in self._pairs}
        for operator in self._before:
            if operator.state is not None and operator.id not in paired:
                yield _judge_removed(operator)

    def _judge_pair(self, one: Operator, other: Operator) -> OperatorVerdict:
        old, new = self._old.kept(one), self._new.kept(other)
        found, columns = _judge_kept(old, new)
        if self._moves_watermark and new.may_follow_watermark:
            found.append(_Finding(StateVerdict.FULL, MOVED, differs=True))
        return OperatorVerdict(
            other.name,
            worst_verdict([*(each.verdict for each in found), *(each.verdict for each in columns)]),
            tuple(each.why for each in found),
            columns,
            one.id,
            other.id,
            any(each.differs for each in found),
        )


def _judge_added(operator: Operator) -> OperatorVerdict:
    why = ("it starts empty: rows of earlier batches are not in it",)
    return OperatorVerdict(operator.name, StateVerdict.PARTIAL, why, (), None, operator.id)


def _judge_removed(operator: Operator) -> OperatorVerdict:
    why = ("the new SQL has no such operator: its state is dropped",)
    return OperatorVerdict(operator.name, StateVerdict.LOST, why, (), operator.id, None)


def _judge_kept(
    old: KeptOperator, new: KeptOperator
) -> tuple[list[_Finding], tuple[ColumnVerdict, ...]]:
    is_seen = old.region.is_seen and new.region.is_seen
    if not is_seen and not old.side.is_same_text(new.side):
        return [_Finding(StateVerdict.REFUSED, UNSEEN)], ()
    if old.region.digest == new.region.digest:
        return [*_judge_whole(old, new)], new.all_as(StateVerdict.FULL)
    if old.operator.kind != new.operator.kind and {old.operator.kind, new.operator.kind} != GROUPED:
        why = f"it was {old.operator.name}, is {new.operator.name}"
        return [_Finding(StateVerdict.REFUSED, why)], ()
    if old.region.inputs != new.region.inputs:
        return [_Finding(StateVerdict.REFUSED, OTHER_INPUTS)], ()
    columns = _judge_columns(old, new)
    if _is_full(columns) and old.region.own != new.region.own:
        return [_Finding(StateVerdict.REFUSED, OTHER_OWN)], ()
    return [*_judge_whole(old, new), *_judge_conditions(old, new)], columns


def _judge_whole(old: KeptOperator, new: KeptOperator) -> Iterator[_Finding]:
    """Judge what is true of all of a state, whatever its columns are."""
    was, now = old.state.operator_id, new.state.operator_id
    if was != now:  # Spark knows an operator by its number
        yield _Finding(StateVerdict.CONVERT, f"it is operator {now}, was operator {was}")
    if not _has_nulls_of(old, new):
        yield _Finding(StateVerdict.CONVERT, OTHER_NULLS)
    if new.loses_inputs:
        yield _Finding(StateVerdict.FULL, MORE_INPUTS, differs=True)
    if old.loses_inputs:  # what is in the state stays
        yield _Finding(StateVerdict.FULL, FEWER_INPUTS, differs=True)
    if new.takes_distinct:
        yield _Finding(StateVerdict.FULL, DISTINCT, differs=True)
        if new.operator.kind == OperatorKind.JOIN:
            yield _Finding(StateVerdict.PARTIAL, REPEATED, differs=True)
    if old.takes_distinct:
        yield _Finding(StateVerdict.FULL, NOT_DISTINCT, differs=True)


def _has_nulls_of(old: KeptOperator, new: KeptOperator) -> bool:
    """Return whether Spark reads NULLs of a state as they were written."""
    was, now = old.nullable, new.nullable
    is_same = old.is_continued_by(new)  # then what is never NULL from now on never was
    return all(
        now[each] <= was[each] if is_same else now[each] == was[each]
        for each in was.keys() & now.keys()
    )


def _judge_conditions(old: KeptOperator, new: KeptOperator) -> Iterator[_Finding]:
    """Judge conditions that rows have to meet before they reach the operator.

    The state was made without those that are new. Where a row of it can still come out that does
    not meet one (a row that waits for a match, a group that the condition is on), the operator
    cannot continue as it is.
    """
    if old.conditions.keys() == new.conditions.keys():
        return
    yield _Finding(StateVerdict.FULL, FILTERED, differs=True)
    come = [term for digest, term in new.conditions.items() if digest not in old.conditions]
    keys = new.columns_in(new.keys)
    is_join = new.operator.kind == OperatorKind.JOIN
    if any(is_join or new.columns_in([each]) <= keys for each in come):
        yield _Finding(StateVerdict.PARTIAL, NOT_MET, differs=True)


def _is_full(columns: tuple[ColumnVerdict, ...]) -> bool:
    return all(each.verdict is StateVerdict.FULL for each in columns)


def _judge_columns(old: KeptOperator, new: KeptOperator) -> tuple[ColumnVerdict, ...]:
    match new.operator.kind:
        case OperatorKind.AGGREGATE | OperatorKind.DISTINCT:
            return tuple(judge_aggregate(old, new))
        case OperatorKind.DEDUPLICATE:
            return tuple(judge_deduplicate(old, new))
        case OperatorKind.JOIN:
            return tuple(judge_join(old, new))
        case _ if old.operator.own == new.operator.own:
            return new.all_as(StateVerdict.FULL)
        case _:
            why = "it was {}, is {}".format(*describe_pair(old, new))
            return (ColumnVerdict("rows", StateVerdict.REFUSED, why),)


_SHOWN_MAX = 6
HIDDEN = "it computes something else from other columns or in another form, by the same words"


# ---- changes in words


def find_changes(old: StoredPlan, new: StoredPlan) -> tuple[str, ...]:
    """Return what differs in meaning, each in a sentence; none where a state may be gone on with.

    `old` made it, `new` would continue with it; their statements differ.
    """
    if old.planner != new.planner:
        return (f"the plans cannot be compared: {old.planner} made one, {new.planner} the other",)
    streams = tuple(find_changed_streams(old.graph, new.graph))
    if streams:
        return streams
    before, after = find_regions(old.graph), find_regions(new.graph)
    if before.keys() != after.keys():
        return (f"the stateful operators were {_list(old.graph)}, and are {_list(new.graph)}",)
    if not before:
        return ()
    return (*find_changed_views(old.views, new.views), *_changed_regions(old, new, before, after))


# ---- changes of sources


def find_changed_streams(old: PlanGraph, new: PlanGraph) -> Iterator[str]:
    """Yield streams that have changed places, come or gone: Spark knows them by their order."""
    topics = list_topics(old.sources), list_topics(new.sources)
    for number, (before, after) in enumerate(zip_longest(*topics, fillvalue=list[str]()), 1):
        # Topics may come; one that goes has offsets in the checkpoint, and Spark fails on these.
        if not after or not before or not set(before) <= set(after):
            was, now = ", ".join(before) or "none", ", ".join(after) or "none"
            yield f"stream {number} that it reads was {was}, is {now}"
    was, now = (
        ", ".join(f"{at + 1} {reads}" for at, reads in list_fixed(each.sources).items()) or "none"
        for each in (old, new)
    )
    if was != now:
        yield f"the streams that are not Kafka's were {was}, are {now}"


def find_changed_views(old: Sequence[ViewRule], new: Sequence[ViewRule]) -> Iterator[str]:
    """Yield what differs in how records of a topic become rows: no graph shows it."""
    before = {topic: rule for rule in old for topic in rule.topics}
    reported = set[str]()
    for rule in new:
        for topic in rule.topics:
            known = before.get(topic)
            for text in _changed_rule(topic, known, rule) if known is not None else ():
                if text not in reported:
                    reported.add(text)
                    yield text


def _changed_rule(topic: str, old: ViewRule, new: ViewRule) -> Iterator[str]:
    if old.decode != new.decode:
        yield f"{topic} was decoded as {old.decode}, is as {new.decode}"
    if old.mask != new.mask:
        yield f"`mask` of {topic} was {_or_none(old.mask)}, is {_or_none(new.mask)}"
    if old.where != new.where:
        yield f"`where` of {topic} was {_or_none(old.where)}, is {_or_none(new.where)}"
    removed = [each for each in old.select if each not in new.select]
    if removed or bool(old.select) != bool(new.select):
        yield (
            f"`select` of {topic} was {_or_none(', '.join(old.select))}, "
            f"is {_or_none(', '.join(new.select))}"
        )


# ---- changes of operators


def _changed_regions(
    old: StoredPlan, new: StoredPlan, before: dict[int, Region], after: dict[int, Region]
) -> Iterator[str]:
    """Yield what differs in an operator, where nothing does below: what is above follows it."""
    differing = {each for each in before if before[each].digest != after[each].digest}
    for operator_id in sorted(differing):
        if differing.isdisjoint(_all_below(after, operator_id)):
            yield _describe(old.graph, new.graph, before[operator_id], after[operator_id])
    unseen = [each for each in after.values() if not each.is_seen]
    if unseen and not differing:
        name = _names(new.graph)[unseen[0].operator_id]
        is_same_text = old.texts == new.texts and old.functions != new.functions
        other = (
            "the Python functions have changed"
            if is_same_text
            else "the text of the SQL has changed"
        )
        yield (
            f"`{name}`: Spark does not show everything that is computed below it (a subquery, a "
            f"user-defined function, a filter that is pushed down to a database), and {other}"
        )


def _all_below(regions: dict[int, Region], operator_id: int) -> set[int]:
    found = set[int]()
    waiting = list(regions[operator_id].below)
    while waiting:
        each = waiting.pop()
        if each not in found:
            found.add(each)
            waiting += regions[each].below
    return found


def _describe(old: PlanGraph, new: PlanGraph, before: Region, after: Region) -> str:
    was, now = list(_facts(old, before)), list(_facts(new, after))
    if was == now:
        was, now = (list(_facts(*each, is_full=True)) for each in ((old, before), (new, after)))
    removed = [each for each in was if each not in now]
    come = [each for each in now if each not in was]
    if not removed and not come:
        # The same facts in another order, as of two functions that have changed places.
        removed, come = was, now
    name = _names(old)[before.operator_id]
    if removed == come:
        return f"`{name}`: {HIDDEN}"
    return f"`{name}`: was {_join(removed)}, is {_join(come)}"


def _facts(graph: PlanGraph, region: Region, *, is_full: bool = False) -> Iterator[str]:
    """Yield what is computed in a region, each in words, from the operator down."""
    words = Words(graph.terms, graph.sources, is_qualified=True, is_exact=True, is_full=is_full)
    for place in region.nodes:
        yield from _facts_of(graph, graph.nodes[place], words)


def _facts_of(graph: PlanGraph, node: PlanNode, words: Words) -> Iterator[str]:
    functions = node.terms(FUNCTIONS)
    for name, terms in node.expressions:
        for term in (part for each in terms for part in split_condition(graph, each)):
            text = words.of(term)
            yield text if name == FUNCTIONS else f"{_role(node, name)} {text}"
    for name, value in options_of(node):
        yield f"{name} {value}"
    for column in node.state.columns if node.state else ():
        if column.term not in functions:
            yield f"keeps {words.of(column.term)}"
    if node.source is not None and not graph.sources[node.source].is_kafka:
        yield f"reads {graph.sources[node.source].reads}"


_ROLES = {
    "condition": "where",
    "dataFilters": "where",
    "partitionFilters": "where",
    "leftKeys": "left key",
    "rightKeys": "right key",
    "generator": "rows of",
}


def _role(node: PlanNode, name: str) -> str:
    if node.kind.endswith("JoinExec") and name == "condition":
        return "joined where"
    return _ROLES.get(name, "by" if "key" in name.lower() or "grouping" in name else name)


def _names(graph: PlanGraph) -> dict[int, str]:
    try:
        return {each.operator_id: each.name for each in describe_operators(graph)}
    except SparkUnknown:
        return {node.state.operator_id: node.kind for node in graph.nodes if node.state}


def _list(graph: PlanGraph) -> str:
    names = _names(graph)
    return " and ".join(f"`{names[each]}`" for each in sorted(names)) or "nothing"


def _join(facts: Sequence[str]) -> str:
    shown = [f"`{each}`" for each in facts[:_SHOWN_MAX]]
    more = [f"{len(facts) - _SHOWN_MAX} more"] if len(facts) > _SHOWN_MAX else []
    return ", ".join([*shown, *more]) or "without it"


def _or_none(text: str) -> str:
    return f"`{text}`" if text else "not there"
