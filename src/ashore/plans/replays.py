"""What comes out differently where a batch is run again, or a table is made again from its topics.

What it is: the expressions of a query that are other values then, reported as warnings.
What it promises: pure. Spark runs a batch again after a crash, and exactly once rests on equal
rows: where such an expression is in them, the rows that stay are those of one run, and what state
adds up may be that of the other.
"""

from collections.abc import Iterable, Iterator

from ashore.plans.graph import PlanGraph
from ashore.plans.terms import RANDOM
from ashore.plans.text import find_outside_literals
from ashore.plans.words import Words

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
