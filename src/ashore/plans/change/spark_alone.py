"""A verdict beside what Spark says of the same change.

What it is: `add_spark`.
What it promises: pure. No verdict is changed: what Spark compares says nothing of what numbers
mean, and what it refuses may be rewritten.
"""

from dataclasses import replace

from ashore.plans.change.verdicts import QueryVerdict, SparkAlone
from ashore.plans.operator_graph import describe_graph
from ashore.plans.query import PlannedQuery


def add_spark(verdict: QueryVerdict, new: PlannedQuery) -> QueryVerdict:
    """Return a verdict with what Spark says of the query and of each operator, if it was asked.

    `new`: the query that was judged.
    """
    says = new.spark
    if says is None:
        return verdict
    if says.unknown:
        return replace(verdict, spark=SparkAlone(None, says.unknown))
    operators = describe_graph(new.plan.graph).operators
    numbers = {each.id: each.state.operator_id for each in operators if each.state}
    return replace(
        verdict,
        spark=_alone(says.error),
        operators=tuple(
            replace(each, spark=_alone(says.error_of(numbers.get(each.new or ""))))
            for each in verdict.operators
        ),
    )


def _alone(error: str) -> SparkAlone:
    return SparkAlone(not error, error)
