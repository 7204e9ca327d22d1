"""What Spark would run, and not rightly.

What it is: a second look at what Spark's own check lets through: a query that fails with its first
batch, one that silently loses rows, and one whose columns decide which rows it has.
What it promises: pure.

Of a join of two streams Spark takes any comparison of a side's columns with the other side's event
time for the bound of its state, and then applies it to the side's own event time, whatever column
the comparison was about. And rows without a match are emitted when they are forgotten, also where
they never are.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ashore.errors import QueryRefused
from ashore.plans.graph import EVENT_TIME, KEYS, RANDOM, WATERMARK, PlanGraph, PlanNode, TermKind
from ashore.plans.operators import GROUPED, JOIN, OperatorKind, describe_operators, join_type
from ashore.plans.text import find_outside_literals
from ashore.plans.words import Words

UPSERT = "write into a topic with `mode: upsert`, which takes each row as often as it changes"
BOUND = "`AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR`"
# Which sides are emitted without a match: left, right.
OUTER = {"left outer": (True, False), "right outer": (False, True), "full outer": (True, True)}


def check_graph(graph: PlanGraph, *, appends: bool) -> None:
    """Refuse what would fail or lose rows. `appends`: rows are handed on once they are final.

    Raises QueryRefused, SparkUnknown.
    """
    _refuse_limit(graph)
    _refuse_random_keys(graph)
    if appends:
        _refuse_endless(graph)
    words = Words(graph.terms, graph.sources, is_qualified=True)
    for join in (each for each in graph.nodes if each.kind == JOIN):
        if _is_silent(join):  # Spark's check is content with a bound by any column
            raise QueryRefused(
                f"a {join_type(join)} join emits rows without a match when their state expires, "
                "and it never does: the join is bounded by a column without a watermark",
                hint=f"bound it by the columns that have one: {BOUND}",
            )
        for side in join.state.sides if join.state else ():
            if side.early is not None:
                column = words.of(side.early)
                raise QueryRefused(
                    "Spark would expire rows of a join while they can still match: their state "
                    f"expires by {column}, but the join is bounded by another column",
                    hint=f"bound it by {column} as well, by the longest time that a match can "
                    f"take: {BOUND}",
                )


def check_leaving_aside(streams: Iterable[Sequence[str]]) -> None:
    """Refuse a query that no single record can be left out of. Raises QueryRefused.

    Where a topic is read twice, one of the two may have come further: a record would be left out of
    a batch of the one that is behind, and have been in one of the other.

    `streams`: the topics of each that the query reads.
    """
    topics = [topic for stream in streams for topic in stream]
    twice = sorted({topic for topic in topics if topics.count(topic) > 1})
    if twice:
        raise QueryRefused(
            f"`on_error: dead_letter` is for a query that reads each topic once, and this reads "
            f"{twice[0]} twice",
            hint="write one SELECT, or write each part to a table of its own",
        )


def _refuse_limit(graph: PlanGraph) -> None:
    """Spark takes the first rows of all; after them the query runs on and writes nothing."""
    if any(operator.kind is OperatorKind.LIMIT for operator in describe_operators(graph)):
        raise QueryRefused(
            "`LIMIT` takes the first rows of the whole stream, and no later row",
            hint="remove `LIMIT`, and limit when you query the table; for the best n of a window: "
            "`max_by(struct(...), price, n)` with `GROUP BY window(ts, '1 minute')`",
        )


def _refuse_random_keys(graph: PlanGraph) -> None:
    """A batch that runs again would file its rows under other keys, in state that is kept."""
    random = find_random(graph)
    keys = (each for node in graph.nodes if node.state for each in _keys_of(node))
    found = next((each for each in keys if each in random), None)
    if found is not None:
        key = Words(graph.terms, graph.sources).of(found)
        raise QueryRefused(
            f"state is keyed by `{key}`, which has another value when a batch is run again",
            hint="use columns of the record; to spread a key: `pmod(xxhash64(id), 16)`",
        )


def _keys_of(node: PlanNode) -> Iterator[int]:
    for name in (*KEYS, "leftKeys", "rightKeys"):
        yield from node.terms(name)


def _refuse_endless(graph: PlanGraph) -> None:
    """Spark's check is content with event time anywhere below; the first batch is not."""
    for operator in describe_operators(graph):
        if operator.kind in GROUPED and not operator.is_bounded:
            raise QueryRefused(
                f"append mode writes a row of `{operator.name}` once it is final, and none ever "
                "is: no watermark applies to these keys",
                hint="group by the window itself, not by its start or end: a column that is "
                f"computed from event time has no watermark; or {UPSERT}",
            )


def _is_silent(join: PlanNode) -> bool:
    """Return whether rows without a match are expected that never come."""
    expected = OUTER.get(join_type(join), (False, False))
    are_bounded = [each.is_bounded for each in join.state.sides] if join.state else [False, False]
    return any(
        expects and not bounded for expects, bounded in zip(expected, are_bounded, strict=True)
    )


# Spark plans a batch with the time itself in the place of these: no plan shows them.
_CLOCK = (
    r"\b(current_timestamp|current_date|localtimestamp|(now|curdate)\s*\(\s*\)"
    r"|unix_timestamp\s*\(\s*\))"
)


def find_random(graph: PlanGraph) -> frozenset[int]:
    """Return the terms that are another value at each run, or are made of such."""
    found = set[int]()
    for place, term in enumerate(graph.terms):
        if term.name in RANDOM or not found.isdisjoint(term.parts):
            found.add(place)
    return frozenset(found)


def warn_of_replays(graph: PlanGraph, texts: Iterable[str]) -> tuple[str, ...]:
    """Return what differs at a replay, each in a sentence; none where nothing does.

    Spark runs a batch again after a crash, and exactly once rests on equal rows: where such an
    expression is in them, the rows that stay are those of one run, and the state may be that of the
    other.

    `texts`: the statements that the graph was made of.
    """
    return tuple(dict.fromkeys([*_random(graph), *_clock(texts)]))


def _random(graph: PlanGraph) -> Iterator[str]:
    words = Words(graph.terms, graph.sources)
    for place in sorted(find_random(graph)):
        if graph.terms[place].name in RANDOM:
            name = words.of(place).partition("(")[0]  # Spark has put a seed where none was written
            yield f"`{name}()` has another value when a batch is run again"


def _clock(texts: Iterable[str]) -> Iterator[str]:
    for text in texts:
        found = find_outside_literals(_CLOCK, text)
        if found is not None:
            yield (
                f"`{found[1]}` is the time of a batch: it is the same when the batch is run again, "
                "but not when the table is built again from its topics"
            )


def warn_of_late_rows(graph: PlanGraph, known: Mapping[str, str]) -> tuple[str, ...]:
    """Return which joins keep or drop late rows by the columns of the query, each in a sentence.

    Spark drops a late row where a join takes it in, and only if its event time is among the columns
    there. A join that compares event times has it always; any other has it only where it is used
    after the join, so that one more column of the SELECT takes rows away.

    `known`: names of event times, by what their source reads; without one it is named by its
    formula.

    Raises SparkUnknown.
    """
    names = {each.operator_id: each.name for each in describe_operators(graph)}
    words = Words(graph.terms, graph.sources, is_qualified=True)

    def name_time(place: int) -> str:
        reads = {graph.sources[each].reads for each in words.roots(graph.terms[place])}
        is_window = graph.terms[place].kind is TermKind.WINDOW
        name = known.get(reads.pop()) if len(reads) == 1 and not is_window else None
        return f"`{name or words.of(place)}`"

    found = list[str]()
    for join in (each for each in graph.nodes if each.kind == JOIN):
        if join.state is None:
            continue
        name, compared = names[join.state.operator_id], _find_compared(graph, join)
        for place, side in zip(join.inputs, join.state.sides, strict=True):
            times = tuple(dict.fromkeys(_find_times(graph, place)))
            if times and compared.isdisjoint(side.times):
                late = " and ".join(map(name_time, side.times or times))
                found.append(_warn_of_late(name, late, is_dropped=bool(side.times)))
    return tuple(found)


def _warn_of_late(join: str, late: str, *, is_dropped: bool) -> str:
    if is_dropped:
        return (
            f"`{join}` drops rows that are late by {late}, because the query uses their event time "
            "after the join; a query that does not use it keeps them"
        )
    return (
        f"`{join}` keeps rows that are late by {late}, because the query does not use their event "
        "time after the join; a query that uses it drops them"
    )


def _find_compared(graph: PlanGraph, join: PlanNode) -> frozenset[int]:
    """Return the columns that a join itself needs: those in its keys and in its condition."""
    columns = {term for some in join.taken for term in some}
    found = set[int]()
    waiting = [each for name in ("leftKeys", "rightKeys", "condition") for each in join.terms(name)]
    while waiting:
        term = waiting.pop()
        if term in columns:  # what it is made of may be no column here
            found.add(term)
        else:
            waiting += graph.terms[term].parts
    return frozenset(found)


def _find_times(graph: PlanGraph, place: int) -> Iterator[int]:
    """Yield the event times by which rows of a node may be late.

    State that a watermark bounds has no late rows to hand on.
    """
    node = graph.nodes[place]
    if node.kind == WATERMARK:
        yield from node.terms(EVENT_TIME)
    elif node.state is None or _is_endless_join(node):
        for each in node.inputs:
            yield from _find_times(graph, each)


def _is_endless_join(node: PlanNode) -> bool:
    sides = node.state.sides if node.state else ()
    return node.kind == JOIN and not all(each.is_bounded for each in sides)
