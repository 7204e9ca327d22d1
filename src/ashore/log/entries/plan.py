"""`plan`: what a query computes from here on.

What it promises: a plan stands in the log before Spark continues with a state under it, so that the
next one can be compared with the plan that the state came from. Only a slice of a query has one.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.fold import Changes, Fold
from ashore.log.query import PlanState
from ashore.log.rules import keep_read, require


@dataclass(frozen=True, slots=True)
class Plan:
    """What a query computes from here on."""

    kind: ClassVar[str] = "plan"
    digest: str  # of the statements and the views that they read
    document: str  # the plan, as JSON


def fold_plan(fold: Fold, body: Plan) -> Changes:
    """Return what a `plan` changes in the fold. Raises Refused."""
    is_of_query = fold.query is not None or fold.next_batch == 0
    require(is_of_query, "a plan in a slice that landed topics")
    require(bool(body.digest and body.document), "the plan is empty")
    left_out = fold.left_out
    if fold.plan is not None and fold.plan.digest != body.digest:
        left_out = keep_read(left_out, fold.shards)
    return {"plan": PlanState(body.digest, body.document), "left_out": left_out}
