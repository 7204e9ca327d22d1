"""Which INSERT of a job continues as which, where they fill other tables.

What it is: `find_moved`, and `read_renames`, which reads what a person says of it.
What it promises: an INSERT that fills another table is taken for one of before where a person says
so, or where its query is the same, and of no other: two that are alike are never guessed.
"""

from collections.abc import Iterator, Mapping, Sequence

from ashore.base import codec
from ashore.base.codec import Json, Malformed
from ashore.errors import JobFileInvalid, QueryRefused
from ashore.log.fold import Fold
from ashore.plans.digests import hash_form
from ashore.plans.graph import PlanGraph, StoredPlan, is_released, read_stored
from ashore.plans.operator_graph import describe_graph
from ashore.plans.query import PlannedQuery

_HINT = "`ashore migrate check JOB.yaml --to NEW.yaml` names INSERTs that come and go"


def read_renames(typed: Sequence[str]) -> dict[str, str]:
    """Return what `ods.a=ods.b` says; `ods.a=` says that it is dropped. Raises JobFileInvalid."""
    found: dict[str, str] = {}
    for text in typed:
        old, sign, new = text.partition("=")
        if not sign or not old or old in found or (new and new in found.values()):
            raise JobFileInvalid(
                f"--rename {text} does not say which table an INSERT fills from now on",
                hint="write --rename ods.old=ods.new, each table once; --rename ods.old= drops it",
            )
        found[old] = new
    return found


def find_moved(
    folds: Mapping[str, Fold], new: Mapping[str, PlannedQuery], renames: Mapping[str, str]
) -> dict[str, str]:
    """Return what INSERTs fill from now on that fill something else.

    All are by what their INSERTs fill. `renames`: what a person says; empty: it is dropped.
    Raises QueryRefused where a rename names no query.
    """
    dropped = {name: plan for name, plan in _plans(folds) if name not in new}
    come = {name: each.plan for name, each in new.items() if name not in folds}
    for old, into in renames.items():
        _require_there(
            old, dropped, "the job has no INSERT that the new job file drops, of the name"
        )
        if into:
            _require_there(into, come, "the new job file adds no INSERT of the name")
    chosen = {old: into for old, into in renames.items() if into}
    dropped = {name: plan for name, plan in dropped.items() if name not in renames}
    come = {name: plan for name, plan in come.items() if name not in chosen.values()}
    for old, plan in dropped.items():
        alike = [name for name, each in come.items() if _is_same(plan, each)]
        others = [name for name, each in dropped.items() if _is_same(plan, each)]
        if len(alike) == len(others) == 1:
            chosen[old] = alike[0]
    return chosen


def _plans(folds: Mapping[str, Fold]) -> Iterator[tuple[str, StoredPlan]]:
    """Yield the plans of queries that have run, and that no migration has dropped."""
    for name, fold in folds.items():
        if fold.query is None or fold.plan is None:
            continue
        try:
            plan = read_stored(fold.plan.document)
        except Malformed:
            continue  # its verdict says so
        if not is_released(plan):
            yield name, plan


def _is_same(old: StoredPlan, new: StoredPlan) -> bool:
    """Return whether two queries do the same: what their INSERTs fill is in the texts alone."""
    was, now = (
        (each.planner, each.views, each.functions, _digest(each.graph), each.graph.columns)
        for each in (old, new)
    )
    return was == now


def _digest(graph: PlanGraph) -> str:
    """Return what distinguishes what a plan computes from others: it is the same in any session."""
    # The nodes that only count rows are left out: they hold the time of the planning.
    operators = describe_graph(graph).operators
    described: list[Json] = [
        [each.own, [*(edge.source for edge in each.inputs)], codec.encode(each.state)]
        for each in operators
    ]
    return hash_form(described)


def _require_there(name: str, names: Mapping[str, StoredPlan], why: str) -> None:
    if name not in names:
        there = ", ".join(sorted(names)) or "none"
        raise QueryRefused(f"--rename: {why} {name}; there is {there}", hint=_HINT)
