"""What a person has said of operators holds for the plans that it was said of, and the way back."""

import pytest
from tests.unit.plans.test_version_changes import graph_of

from ashore.log.query import EditsState, MappingEdit
from ashore.plans.graph import StoredPlan
from ashore.plans.matching import NO_EDITS, MappingEdits, choose_edits, restrict_edits
from ashore.plans.operator_graph import describe_graph


def plan_of(name: str) -> StoredPlan:
    return StoredPlan("one", (name,), (), graph_of(name))


def stateful(plan: StoredPlan) -> list[str]:
    return [each.id for each in describe_graph(plan.graph).operators if each.state is not None]


OLD, NEW, OTHER = plan_of("q11"), plan_of("q12"), plan_of("q8")
(A,), (B,) = stateful(OLD), stateful(NEW)
KEPT = EditsState(10, "old", (MappingEdit(A, B),), (MappingEdit(A, B),))
FORTH, BACK = MappingEdits(((A, B),), ((A, B),)), MappingEdits(((B, A),), ((B, A),))


@pytest.mark.parametrize(
    ("digest", "old", "new", "expected"),
    [
        ("old", OLD, NEW, FORTH),  # again, as after an undo
        ("old", OLD, OTHER, NO_EDITS),
        ("new", NEW, OLD, BACK),  # the way back
        ("new", NEW, NEW, NO_EDITS),  # an operator is itself
        ("new", NEW, OTHER, NO_EDITS),
        ("another", OLD, NEW, NO_EDITS),  # nothing was said of it
    ],
)
def test_edits_hold_for_what_they_were_said_of(
    digest: str, old: StoredPlan, new: StoredPlan, expected: MappingEdits
) -> None:
    assert choose_edits(KEPT, digest, old, new) == expected
    assert choose_edits(None, digest, old, new) == NO_EDITS


def test_a_query_keeps_what_names_its_operators() -> None:
    edits = MappingEdits(((A, B), ("ffff", B)), ((A, "ffff"),))
    assert restrict_edits(edits, OLD, NEW) == MappingEdits(((A, B),))


def test_edits_in_words() -> None:
    assert MappingEdits((("a", "b"), ("c", "d")), (("e", "f"),)).describe() == (
        "pins a -> b, c -> d; forbids e -> f"
    )
    assert NO_EDITS.describe() == ""
