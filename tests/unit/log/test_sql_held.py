"""The plan in a query's log, held against the one that is about to run."""

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ashore.errors import QueryRefused
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.query import PlanState, QueryState
from ashore.plans.graph import PlanGraph, StoredPlan, read_stored, write_stored
from ashore.queries.spark.sql.frames import PlannedFrame, name_planner
from ashore.queries.spark.sql.start_checks import check_plan

NAME = SliceName("j", "ods__big")
GRAPH = PlanGraph((), (), (), ())
FRAME = SimpleNamespace(sparkSession=SimpleNamespace(version="4.2.0"))
PLANNED = PlannedFrame(FRAME, GRAPH)  # type: ignore[arg-type]
NOW = name_planner("4.2.0")


class Plan:
    """What is asked of a QueryPlan."""

    digest = "same"

    def describe(self, graph: PlanGraph, version: str) -> StoredPlan:
        return StoredPlan(name_planner(version), ("SELECT 1",), (), graph)


def fold(digest: str, planner: str) -> Fold:
    plan = PlanState(digest, write_stored(StoredPlan(planner, ("SELECT 1",), (), GRAPH)))
    return replace(EMPTY, plan=plan, query=QueryState("q", 4, "lineage", ""))


def hold(known: Fold) -> PlanState | None:
    return check_plan(Plan(), NAME, known, PLANNED)  # type: ignore[arg-type]


def test_a_plan_that_is_there_is_not_written_again() -> None:
    assert hold(fold("same", NOW)) is None


def test_the_same_sql_is_planned_anew_by_another_release_so_that_later_sql_can_be_compared() -> (
    None
):
    new = hold(fold("same", "Spark 4.1.0, graphs 1"))
    assert new is not None
    assert read_stored(new.document).planner == NOW
    with pytest.raises(QueryRefused, match="cannot be compared"):
        hold(fold("other", "Spark 4.1.0, graphs 1"))


def test_a_plan_of_a_release_to_come_stays() -> None:
    known = fold("same", NOW)
    assert hold(replace(known, plan=PlanState("same", '{"form": 99}'))) is None
