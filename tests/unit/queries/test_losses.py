"""How much state a change of SQL drops."""

from pathlib import Path

import pytest
from tests.checkpoint_files import opened, unpack

from ashore.plans.change.verdicts import OperatorVerdict, QueryVerdict, StateVerdict
from ashore.plans.graph import OperatorState, PlanGraph, PlanNode
from ashore.plans.operator_graph import describe_graph
from ashore.queries.change.check import has_losses, measure_survey
from ashore.queries.state.inspection import inspect_checkpoint
from ashore.queries.state.survey import take_survey

GONE = QueryVerdict(StateVerdict.LOST, ("its INSERT is gone",), (), ())


@pytest.mark.parametrize(
    "name", ["rocksdb", "rocksdb-changelog", "hdfs-backed", "join-3", "format-2"]
)
def test_all_of_a_query_is_what_inspect_counts(name: str, tmp_path: Path) -> None:
    survey = take_survey(opened(unpack(name, tmp_path)))
    shown = inspect_checkpoint(survey, {})
    (lost,) = measure_survey(survey, None, GONE)
    rows = [each.rows for each in shown.operators]
    assert lost.size_bytes == sum(each.size_bytes for each in shown.operators) > 0
    if None not in rows:
        assert lost.rows == sum(each for each in rows if each is not None)
        assert not lost.is_estimate
    else:
        assert lost.rows is None or lost.is_estimate


def test_an_operator_that_is_kept_loses_nothing(tmp_path: Path) -> None:
    survey = take_survey(opened(unpack("rocksdb", tmp_path)))
    node = PlanNode("StreamingDeduplicateExec", state=OperatorState(0, 2))
    graph = PlanGraph((), (), (node,), ())
    (operator,) = describe_graph(graph).operators

    def judged(verdict: StateVerdict) -> QueryVerdict:
        found = OperatorVerdict("deduplicate", verdict, (), (), operator.id, operator.id)
        return QueryVerdict(verdict, (), (found,), ())

    assert not list(measure_survey(survey, graph, judged(StateVerdict.FULL)))
    assert not has_losses(judged(StateVerdict.PARTIAL))
    (lost,) = measure_survey(survey, graph, judged(StateVerdict.LOST))
    assert has_losses(judged(StateVerdict.LOST))
    assert lost.old == operator.id
    assert lost.size_bytes > 0
