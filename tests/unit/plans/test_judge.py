"""Verdicts on Nexmark's queries: each keeps its own state, and none takes another's."""

import json
from dataclasses import replace
from itertools import permutations

import pytest
from tests.unit.plans.test_version_changes import NAMES, graph_of

from ashore.cli.migrate_view import judged_document, judged_lines
from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import StateVerdict, worst_verdict
from ashore.plans.graph import StoredPlan, read_stored, write_stored
from ashore.plans.matching import MappingEdits
from ashore.plans.operators import keeps_state
from ashore.queries.change.check import JudgedQuery
from ashore.topics.decode.evolution import Change, Compatibility

PLANS = {name: StoredPlan("one", (name,), (), graph_of(name)) for name in NAMES}
STATEFUL = [name for name in NAMES if keeps_state(PLANS[name].graph)]


@pytest.mark.parametrize("name", NAMES)
def test_a_query_keeps_its_own_state(name: str) -> None:
    found = judge_query(PLANS[name], PLANS[name])
    assert found.verdict is StateVerdict.FULL
    assert len(found.mapping) == len(found.operators)
    assert {each.score for each in found.mapping} <= {1.0}
    assert bool(found.operators) == (name in STATEFUL)


def test_no_query_takes_the_state_of_another() -> None:
    for old, new in permutations(STATEFUL, 2):
        before, after = PLANS[old], PLANS[new]
        is_same = replace(before, texts=after.texts) == after
        found = judge_query(before, after)
        assert is_same or found.verdict is not StateVerdict.FULL, (old, new)
        assert found.verdict is worst_verdict(each.verdict for each in found.operators) or found.why


def test_plans_of_two_releases_are_not_compared() -> None:
    plan = PLANS[STATEFUL[0]]
    found = judge_query(plan, replace(plan, planner="another"))
    assert found.verdict is StateVerdict.REFUSED
    assert "cannot be compared" in found.why[0]


@pytest.mark.parametrize("name", ["q7", "q9", "q20"])
def test_a_plan_without_the_event_times_of_joins_is_the_same(name: str) -> None:
    """Logs of before do not have them."""
    plan = PLANS[name]
    document = json.loads(write_stored(plan))
    sides = [
        side
        for node in document["graph"]["nodes"]
        for side in node.get("state", {}).get("sides", ())
    ]
    assert [bool(side.pop("times")) for side in sides] == [True, True]
    before = read_stored(json.dumps(document))
    assert before != plan
    for old, new in ((before, plan), (plan, before)):
        found = judge_query(old, new)
        assert found.verdict is StateVerdict.FULL
        assert not any(each.why or each.differs_from_replay for each in found.operators)


def test_a_forbidden_pair_is_lost_and_starts_anew() -> None:
    plan = PLANS[STATEFUL[0]]
    (pair, *_) = judge_query(plan, plan).mapping
    found = judge_query(plan, plan, MappingEdits(forbidden=((pair.old, pair.new),)))
    verdicts = [each.verdict for each in found.operators]
    assert {StateVerdict.LOST, StateVerdict.PARTIAL} <= set(verdicts)
    assert found.verdict is StateVerdict.LOST


def test_lines_and_document_say_the_same() -> None:
    old, new = PLANS["q11"], PLANS["q12"]
    judged = [JudgedQuery("ods.big", judge_query(old, new))]
    text, document = "\n".join(judged_lines(judged)), judged_document(judged)
    assert str(document["verdict"]) in text
    operators = document["operators"]
    assert isinstance(operators, list)
    for operator in operators:
        assert isinstance(operator, dict)
        assert str(operator["name"]) in text
    assert "table" not in text
    (line,) = judged_lines([])
    assert line.endswith("keeps no state")


@pytest.mark.parametrize(
    ("verdict", "words"), [("risky", "--accept-schema"), ("refused", "another table")]
)
def test_a_change_of_the_table_is_shown_with_what_a_start_needs(verdict: str, words: str) -> None:
    plan = PLANS["q11"]
    change = Change(Compatibility(verdict), "column n is dropped")
    query = JudgedQuery("ods.big", judge_query(plan, plan), table_changes=(change,))
    *lines, full, last = judged_lines([query])
    assert "  table: column n is dropped" in lines
    assert full.startswith("full: ")
    assert words in last
    (document,) = judged_document([query])["queries"]
    assert document["table"] == [{"verdict": verdict, "text": "column n is dropped"}]
    allowed = replace(query, table_changes=(Change(Compatibility.ALLOWED, "column n is added"),))
    *_, full, last = judged_lines([allowed])
    assert full == "  table: column n is added"
    assert last.startswith("full: ")
