"""What another plan means for a state that is there.

What it is: `find_changes`, from the plan that made a state and the one that is to continue with it,
to what differs, in words.
What it promises: pure. No change is found only where the same state would have come about: Spark
compares types alone, and would continue with a sum as if it were a maximum. What stands above all
state may change: it decides what is written from now on. What cannot be compared is a change.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest

from ashore.errors import SparkUnknown
from ashore.plans.graph import (
    FUNCTIONS,
    PlanGraph,
    PlanNode,
    StoredPlan,
    ViewRule,
    list_fixed,
    list_topics,
    split_condition,
)
from ashore.plans.operators import describe_operators
from ashore.plans.regions import Region, find_regions, options_of
from ashore.plans.words import Words

_SHOWN_MAX = 6
HIDDEN = "it computes something else from other columns or in another form, by the same words"


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


# ---- sources


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
    if old.where != new.where:
        yield f"`where` of {topic} was {_or_none(old.where)}, is {_or_none(new.where)}"
    removed = [each for each in old.select if each not in new.select]
    if removed or bool(old.select) != bool(new.select):
        yield (
            f"`select` of {topic} was {_or_none(', '.join(old.select))}, "
            f"is {_or_none(', '.join(new.select))}"
        )


# ---- operators


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
