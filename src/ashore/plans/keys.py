"""Whether columns of a result distinguish its groups.

What it promises: pure. A key that the columns do not contain is found; one that they contain in a
formula only is taken for one that they do not.
"""

from collections.abc import Sequence

from ashore.plans.graph import PlanGraph
from ashore.plans.operators import GROUPED, describe_operators
from ashore.plans.words import Words


def find_hidden_keys(graph: PlanGraph, columns: Sequence[str]) -> tuple[str, ...] | None:
    """Return what an aggregate of a query groups by and `columns` do not contain.

    Where there is some, rows of one batch may be equal in all of the columns. None where nothing
    is aggregated. Raises SparkUnknown.
    """
    words = Words(graph.terms, graph.sources, is_qualified=True)
    described = {each.name: words.of(each.term) for each in graph.columns}
    reported = {described[name] for name in columns if name in described}
    operators = describe_operators(graph, is_qualified=True)
    grouped = [each for each in operators if each.kind in GROUPED]
    if not grouped:
        return None
    keys = (key for operator in grouped for key in operator.keys)
    return tuple(key for key in keys if not reported & {key, f"start of {key}", f"end of {key}"})
