"""How a state is rewritten for other SQL: Nexmark's queries, each for each."""

from dataclasses import replace
from itertools import permutations

import pytest
from tests.unit.plans.test_judge import PLANS, STATEFUL

from ashore.errors import QueryRefused
from ashore.jobs.requests import (
    CheckpointAddress,
    MigrateRequest,
    read_request,
    write_request,
)
from ashore.plans.change.judge import OTHER_NULLS, judge_query
from ashore.plans.change.rewriting import RewriteKind, StateRewrite, plan_rewrite
from ashore.plans.change.verdicts import StateVerdict
from ashore.plans.graph import PlanGraph, StoredPlan
from ashore.plans.regions import FILTER

SOME = ["q0", "q3", "q5", "q7", "q8", "q11"]


def rewrite_of(old: StoredPlan, new: StoredPlan) -> StateRewrite:
    return plan_rewrite(old, new, judge_query(old, new))


def numbers_of(graph: PlanGraph) -> list[int]:
    return sorted(each.state.operator_id for each in graph.nodes if each.state is not None)


@pytest.mark.parametrize("name", STATEFUL)
def test_the_state_of_the_same_sql_is_kept(name: str) -> None:
    found = rewrite_of(PLANS[name], PLANS[name])
    numbers = numbers_of(PLANS[name].graph)
    assert [(each.operator, each.old) for each in found.operators] == [(n, n) for n in numbers]
    assert {each.kind for each in found.operators} == {RewriteKind.KEEP}
    assert not found.dropped


def test_each_operator_is_said_once() -> None:
    """Each of the new plan is made of something, each of the old one goes somewhere or is named."""
    written = 0
    for old, new in permutations([PLANS[name] for name in SOME], 2):
        verdict = judge_query(old, new)
        if verdict.verdict is StateVerdict.REFUSED:
            with pytest.raises(QueryRefused, match="cannot be rewritten: "):
                plan_rewrite(old, new, verdict)
            continue
        found = plan_rewrite(old, new, verdict)  # what is not supported has no such verdict
        written += 1
        assert [each.operator for each in found.operators] == numbers_of(new.graph)
        used = [each.old for each in found.operators if each.old is not None]
        dropped = [each.operator for each in found.dropped]
        assert sorted(used + dropped) == numbers_of(old.graph)
    assert written > 5


def test_a_store_is_kept_whether_its_columns_may_be_null_or_not() -> None:
    """The bytes are the same; as it is, Spark refuses what may be NULL where it never was."""
    old = PLANS["q5"]
    graph = old.graph
    states = [
        each
        if each.state is None
        else replace(
            each,
            state=replace(
                each.state, columns=tuple(replace(c, is_nullable=True) for c in each.state.columns)
            ),
        )
        for each in graph.nodes
    ]
    loose = replace(old, graph=replace(graph, nodes=tuple(states)))
    assert loose != old
    found = judge_query(old, loose)
    assert found.verdict is StateVerdict.CONVERT
    assert any(OTHER_NULLS in each.why for each in found.operators)
    assert judge_query(loose, old).verdict is StateVerdict.FULL, "the same rows were kept"
    for one, other in ((old, loose), (loose, old)):
        kept = rewrite_of(one, other).operators
        assert {each.kind for each in kept} == {RewriteKind.KEEP}
        assert not any(each.never_null for each in kept)


def without_columns(plan: StoredPlan, name: str) -> StoredPlan:
    """Return a plan whose join keeps no column of a name."""

    def is_kept(term: int) -> bool:
        return plan.graph.terms[term].name != name

    nodes = tuple(
        each
        if each.state is None
        else replace(
            each,
            state=replace(
                each.state, columns=tuple(c for c in each.state.columns if is_kept(c.term))
            ),
        )
        for each in plan.graph.nodes
    )
    return replace(plan, texts=("less",), graph=replace(plan.graph, nodes=nodes))


def over_files(plan: StoredPlan) -> StoredPlan:
    """Return a plan whose streams are of files."""
    sources = tuple(replace(each, format="json") for each in plan.graph.sources)
    return replace(plan, graph=replace(plan.graph, sources=sources))


def without_conditions(plan: StoredPlan) -> StoredPlan:
    """Return a plan whose filters let all rows pass."""
    nodes = (
        replace(each, expressions=()) if each.kind == FILTER else each for each in plan.graph.nodes
    )
    return replace(plan, texts=("all",), graph=replace(plan.graph, nodes=tuple(nodes)))


def test_a_new_column_of_which_a_condition_leaves_out_null_is_refused_with_files() -> None:
    """Spark may read the NULL of a row that waits as 0, though the plan says that it is NULL."""
    plan = over_files(PLANS["q3"])  # ON seller = id
    (join,) = (each for each in plan.graph.nodes if each.kind.startswith("StreamingSymmetric"))
    assert join.state is not None
    names = {plan.graph.terms[each.term].name for each in join.state.columns if each.is_nullable}
    assert {"seller", "city"} <= names
    found = judge_query(without_columns(plan, "seller"), plan)
    assert found.verdict is StateVerdict.REFUSED
    assert "seller is new" in found.operators[0].why[-1]
    found = judge_query(without_columns(plan, "city"), plan)
    assert found.verdict is StateVerdict.PARTIAL
    with pytest.raises(QueryRefused, match="is new and never NULL"):
        plan_rewrite(without_columns(plan, "seller"), plan, found)
    kafka = PLANS["q3"]  # a batch is planned as the query was
    assert judge_query(without_columns(kafka, "seller"), kafka).verdict is StateVerdict.PARTIAL


def test_rows_that_wait_are_searched_for_nulls_that_a_new_condition_leaves_out() -> None:
    """Of files: Spark would read the NULL of a column that the state had already as 0."""
    new = over_files(PLANS["q3"])
    old = without_conditions(new)
    assert judge_query(old, new).verdict is StateVerdict.PARTIAL
    (join,) = rewrite_of(old, new).operators
    assert join.kind is RewriteKind.KEEP
    assert {each.of for each in join.never_null} == {"left", "right"}
    kafka = PLANS["q3"]
    (join,) = rewrite_of(without_conditions(kafka), kafka).operators
    assert not join.never_null


def test_a_rewrite_crosses_to_the_state_process() -> None:
    request = MigrateRequest(
        source=CheckpointAddress("file:///old", ()),
        target=CheckpointAddress("file:///new", (("user", "x"),)),
        batch=7,
        state_format=1,
        query="ods.big",
        rewrite=rewrite_of(PLANS["q0"], PLANS["q5"]),
    )
    assert request.rewrite.operators
    assert read_request(MigrateRequest, write_request(request)) == request
