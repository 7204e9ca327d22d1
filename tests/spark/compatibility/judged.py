"""What the judge says of a change, compared with what it was to say."""

from pyspark.sql import SparkSession
from tests.spark.compatibility.change import Base, Change

from ashore.plans.change.judge import judge_query
from ashore.plans.change.rewriting import StateRewrite, plan_rewrite
from ashore.plans.change.verdicts import QueryVerdict
from ashore.plans.graph import StoredPlan
from ashore.plans.text import normalise_sql
from ashore.queries.spark.internals.reading import read_plan


class Planner:
    """Plans the queries of one session, each once."""

    def __init__(self, session: SparkSession) -> None:
        self._session = session
        self._plans: dict[str, StoredPlan] = {}

    def anew(self) -> "Planner":
        """Return one that has planned nothing yet."""
        return Planner(self._session)

    def plan(self, sql: str) -> StoredPlan:
        if sql not in self._plans:
            graph = read_plan(self._session.sql(sql))
            self._plans[sql] = StoredPlan("one", (normalise_sql(sql),), (), graph)
        return self._plans[sql]

    def judge(self, base: Base, change: Change) -> QueryVerdict:
        return judge_query(self.plan(base.old(change)), self.plan(base.new(change)))

    def rewrite(self, base: Base, change: Change, verdict: QueryVerdict) -> StateRewrite:
        """Return how the state is rewritten. Raises QueryRefused."""
        old, new = self.plan(base.old(change)), self.plan(base.new(change))
        return plan_rewrite(old, new, verdict)


def tell(found: QueryVerdict) -> str:
    """Return all that is said."""
    parts = [*found.operators, *found.sources]
    whys = [*found.why, *(why for each in parts for why in each.why)]
    columns = (column for each in found.operators for column in each.columns)
    return "\n".join([*whys, *(f"{each.name}: {each.verdict} {each.why}" for each in columns)])


def wrong_with(change: Change, found: QueryVerdict) -> str:
    """Return how a verdict differs from the one in the table; empty where it does not."""
    if found.verdict is not change.verdict:
        return f"it is {found.verdict}, expected {change.verdict}"
    if change.why not in tell(found):
        return f"nothing is said of {change.why!r}"
    columns = [column for each in found.operators for column in each.columns]
    for part, verdict in change.columns.items():
        if verdict not in {each.verdict for each in columns if part in each.name}:
            return f"no column {part!r} is {verdict}"
    return ""
