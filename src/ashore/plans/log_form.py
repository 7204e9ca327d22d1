"""The plan of a query as its log keeps it.

What it is: `StoredPlan`, the graph of a query with what the graph does not say; its JSON.
What it promises: pure. `read_stored(write_stored(plan)) == plan`.
"""

import json
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.plans.graph import PlanGraph


@dataclass(frozen=True, slots=True)
class ViewRule:
    """How the records of topics become the rows of a view: a graph sees the rows alone."""

    topics: tuple[str, ...]  # that the view reads
    decode: str  # how
    select: tuple[str, ...]  # expressions that make its columns; none: all that were decoded
    where: str  # which rows it has; empty: all


@dataclass(frozen=True, slots=True)
class StoredPlan:
    """What a query does."""

    planner: str  # who made the graph: graphs of two planners cannot be compared
    # the statements, with one space for white space: the views that are read, the INSERT
    texts: tuple[str, ...]
    views: tuple[ViewRule, ...]  # the topics that are read
    graph: PlanGraph
    functions: str = codec.added("")  # digest of the Python functions, where it calls any


def released_plan(planner: str) -> StoredPlan:
    """Return the plan of a query whose INSERT was dropped: it does nothing, and keeps no state."""
    return StoredPlan(planner, (), (), PlanGraph((), (), (), ()))


def is_released(plan: StoredPlan) -> bool:
    """Return whether a plan is that of a query whose INSERT was dropped."""
    return not plan.texts


def write_stored(plan: StoredPlan) -> str:
    """Return the JSON of a plan, on one line."""
    return json.dumps(codec.encode(plan), separators=(",", ":"), ensure_ascii=False)


def read_stored(text: str) -> StoredPlan:
    """Return the plan that was written. Raises Malformed."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        raise Malformed("", "it is not JSON") from None
    return codec.decode(StoredPlan, value)
