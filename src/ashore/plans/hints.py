"""Ids that a query gives its operators: `SELECT /*+ id('per_minute') */ ...`.

What it is: `find_ids`, the ids in a text, `strip_ids`, the text without them, `id_at`, the id of
the SELECT that something stands in, and `place_ids`, from those to the nodes of a graph.
What it promises: pure. Spark knows no such hint, and leaves it out of its plan: an id is given to
an operator only where the operators that Spark plans are, one by one, those that the SQL has, over
the same sources. Everything else is refused.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ashore.errors import QueryRefused
from ashore.plans.graph import PlanGraph
from ashore.plans.operator_graph import ID_LENGTH
from ashore.plans.operators import JOIN
from ashore.plans.text import cut

# From classes of Spark's analysed plan to those of the operators that it plans for them.
STATEFUL = {
    "Aggregate": "aggregate",
    "Distinct": "aggregate",
    "Deduplicate": "deduplicate",
    "DeduplicateWithinWatermark": "deduplicate within",
    "Join": "join",
}
_PLANNED = {
    "SessionWindowStateStoreSaveExec": "aggregate",
    "StateStoreSaveExec": "aggregate",
    "StreamingDeduplicateExec": "deduplicate",
    "StreamingDeduplicateWithinWatermarkExec": "deduplicate within",
    JOIN: "join",
}
_ID = re.compile(r"""\bid\s*\(\s*(?P<value>'[^']*'|"[^"]*")\s*\)""", re.IGNORECASE)
_AUTHOR_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_DERIVED = re.compile(rf"[0-9a-f]{{{ID_LENGTH}}}(-[0-9]+)?")
_ONE_EACH = "give each operator a SELECT of its own, in a subquery or a view, with its own id"


@dataclass(frozen=True, slots=True)
class WrittenOperator:
    """An operator with state as Spark's analysed plan has it, from the sink to the sources."""

    kind: str  # one of the values of `STATEFUL`
    sources: frozenset[int]  # places of the sources that it takes rows of
    id: str = ""  # that its SELECT gives it; empty: none


def find_ids(text: str) -> tuple[str, ...]:
    """Return the ids that a text gives, in their order."""
    return tuple(each["value"][1:-1] for _, hint in _hints(text) for each in _ID.finditer(hint))


def strip_ids(text: str) -> str:
    """Return a text without its ids: a hint that says no more is gone with them."""
    for start, hint in reversed(list(_hints(text))):
        rest = _ID.sub("", hint[3:-2])
        if rest == hint[3:-2]:
            continue
        parts = [each.strip() for each in _split(rest)]
        kept = ", ".join(each for each in parts if each)
        made = f"/*+ {kept} */" if kept else " "
        text = text[:start] + made + text[start + len(hint) :]
    return text


def id_at(text: str, index: int) -> str:
    """Return the id of the innermost SELECT that a place of a text stands in; empty: none."""
    hints = dict(_hints(text))
    open_: list[str] = [""]  # by depth, the id of the last SELECT
    for start, kind, part in cut(text):
        if start > index:
            break
        if kind == "word" and part.upper() == "SELECT":
            open_[-1] = _id_after(text, start + len(part), hints)
        elif part == "(":
            open_.append("")
        elif part == ")" and len(open_) > 1:
            open_.pop()
    return open_[-1]


def place_ids(graph: PlanGraph, written: Sequence[WrittenOperator]) -> PlanGraph:
    """Return the graph with the ids that its SQL gives. Raises QueryRefused.

    `written`: all operators with state of the analysed plan, from the sink on, left before right.
    """
    author_ids = [each.id for each in written if each.id]
    if not author_ids:
        return graph
    check_ids(author_ids)
    places = [place for place, node in enumerate(graph.nodes) if node.state is not None]
    planned = [
        (_PLANNED.get(graph.nodes[place].kind, ""), _sources_below(graph, place))
        for place in places
    ]
    if planned != [(each.kind, each.sources) for each in written]:
        raise QueryRefused(
            "Spark plans other operators than the SQL has, so that "
            f"`id('{author_ids[0]}')` names none",
            hint="remove the id, or write what it names as one `GROUP BY`, `DISTINCT` or `JOIN`",
        )
    nodes = list(graph.nodes)
    for place, operator in zip(places, written, strict=True):
        nodes[place] = replace(nodes[place], given=operator.id)
    return replace(graph, nodes=tuple(nodes))


def check_ids(ids: Sequence[str]) -> None:
    """Raise QueryRefused for an id that cannot be one, or that names two operators."""
    for each in ids:
        if _AUTHOR_ID.fullmatch(each) is None or _DERIVED.fullmatch(each) is not None:
            raise QueryRefused(
                f"`{each}` cannot be the id of an operator",
                hint="use letters, digits, `_` and `-`, at most 64, such as `per_minute`; eight "
                "hexadecimal digits look like ids that were generated",
            )
        if ids.count(each) > 1:
            raise QueryRefused(f"`id('{each}')` names two operators", hint=_ONE_EACH)


def check_all_placed(graph: PlanGraph, ids: Sequence[str]) -> None:
    """Raise QueryRefused where an id of a query's statements names no operator of its graph."""
    placed = {node.given for node in graph.nodes}
    for each in ids:
        if each not in placed:
            raise QueryRefused(
                f"`id('{each}')` names no operator that keeps state",
                hint="write it after the SELECT of a `GROUP BY`, a `DISTINCT` or a `JOIN` of two "
                "streams: `SELECT /*+ id('per_minute') */ ...`",
            )


# ---- text


def _hints(text: str) -> Iterator[tuple[int, str]]:
    """Yield where hints begin, and their texts: `/*+ ... */`, in no literal and no comment."""
    pieces = list(cut(text))
    number = 0
    while number < len(pieces):
        start = pieces[number][0]
        if text.startswith("/*+", start) and pieces[number][1] == "other":
            end = _end(text, pieces, number)
            yield start, text[start:end]
            while number < len(pieces) and pieces[number][0] < end:
                number += 1
        else:
            number += 1


def _end(text: str, pieces: Sequence[tuple[int, str, str]], number: int) -> int:
    for start, kind, _ in pieces[number + 3 :]:
        if kind == "other" and text.startswith("*/", start):
            return start + 2
    return len(text)


def _id_after(text: str, at: int, hints: dict[int, str]) -> str:
    """Return the ids of the hints that follow a SELECT."""
    found: list[str] = []
    while True:
        blank = re.compile(r"\s*").match(text, at)
        at = blank.end() if blank else at
        if at not in hints:
            return ", ".join(found)
        found += find_ids(hints[at])
        at += len(hints[at])


def _split(hint: str) -> Iterator[str]:
    """Yield what stands between the commas of a hint, but for those in parentheses."""
    depth, part = 0, ""
    for _, kind, piece in cut(hint):
        depth += (piece == "(") - (piece == ")") if kind == "other" else 0
        if piece == "," and not depth:
            yield part
            part = ""
        else:
            part += piece
    yield part


def _sources_below(graph: PlanGraph, place: int) -> frozenset[int]:
    node = graph.nodes[place]
    own = () if node.source is None else (node.source,)
    return frozenset(own).union(*(_sources_below(graph, each) for each in node.inputs))
