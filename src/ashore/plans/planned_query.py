"""A query of a job file as it would be started: its sink, its slice, its plan.

What it is: `PlannedQuery`, as one process tells another.
What it promises: pure.
What it must not know: how it was planned; what it is compared with.
"""

from dataclasses import dataclass

from ashore.plans.stored import StoredPlan


@dataclass(frozen=True, slots=True)
class PlannedQuery:
    """A query.

    Arguments:
        query: the table or topic that it fills.
        slice: whose log it would have.
        plan: what it does, as its log would keep it.

    """

    query: str
    slice: str
    plan: StoredPlan
