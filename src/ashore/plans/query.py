"""A query of a job file as it would be started: its sink, its slice, its plan.

What it is: `PlannedQuery`, as one process sends it to another.
What it promises: pure.
"""

from dataclasses import dataclass

from ashore.plans.log_form import StoredPlan
from ashore.plans.state_check import StateCheck


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query.

    Arguments:
        query: the table or topic that it fills.
        slice: whose log it would have.
        plan: what it does, as its log would keep it.
        digest: of its statements and of the views that they read, as its log would keep it.
        spark: what Spark says of the state that is there; None: it was not asked.

    """

    query: str
    slice: str
    plan: StoredPlan
    digest: str
    spark: StateCheck | None = None
