"""A query of a job file as it would be started: its sink, its slice, its plan.

What it is: `PlannedQuery`, as one process sends it to another.
What it promises: pure.
"""

from dataclasses import dataclass

from ashore.base.codec import added
from ashore.plans.log_form import StoredPlan


@dataclass(frozen=True, slots=True)
class RefusedState:
    """The state of an operator, by its number in the new plan, and the class of the error."""

    operator: int
    error: str


@dataclass(frozen=True, slots=True)
class StateCheck:
    """What Spark says of a plan that is to continue with a state.

    Spark compares the names of operators and the types of their state, and no more: that it accepts
    says nothing of what the numbers would mean.

    Arguments:
        error: the class of the error with which it refuses the query, or its words; empty: it would
            start.
        refused: operators whose state it refuses; none: the error is about all of them together.
        unknown: why it could not be asked; empty: it was.

    """

    error: str = ""
    refused: tuple[RefusedState, ...] = added(())
    unknown: str = added("")

    def error_of(self, operator: int | None) -> str:
        """Return the error of an operator; empty where Spark accepts its state.

        `operator`: its number in the new plan; None: it is not in it.
        """
        if not self.refused:
            return self.error
        return next((each.error for each in self.refused if each.operator == operator), "")


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
