"""The executable model, in its smaller settings: it holds, and mutations of it are caught.

The larger settings are in tests/crash/test_model_settings.py.
"""

import pytest
from model import streaming_query
from model.landing_log import LATE_CLEAN, MUTATIONS, explore
from tests.marks import but

QUICK = {
    "remove old open entries": "I4",
    "retry with other content": "I1",
    "move before prepare is settled": "I3",
    "clean the unclosed batch": "I5",
}
SLOW = {
    "skip the look": "I5",
    "one snapshot name": "I5",
    "read at or below the snapshot": "I6",
    "look only at the end": "I6",
    "look only at the end, keep the snapshot's entry": "I6",
}
SHORTCUTS = but(pytest.mark.slow, {**QUICK, **SLOW}.items(), lambda name, _: name in QUICK)
QUICK_OF_A_QUERY = {"tell Spark first", "one root for all"}


@pytest.mark.slow
def test_the_protocol_holds_with_two_writers_a_janitor_and_an_unanswered_call():
    states, wrong, trace = explore(LATE_CLEAN)
    assert wrong is None, trace
    assert states == 63_937  # fewer: something is no longer explored


@pytest.mark.parametrize(("mutation", "invariant"), SHORTCUTS)
def test_a_shortcut_breaks_an_invariant(mutation: str, invariant: str):
    _, wrong, trace = explore(dict(MUTATIONS)[mutation], mutation)
    assert wrong is not None
    assert wrong.startswith(f"{invariant}: ")
    assert trace


@pytest.mark.parametrize(
    "mutation", but(pytest.mark.slow, streaming_query.MUTATIONS, QUICK_OF_A_QUERY.__contains__)
)
def test_a_shortcut_doubles_or_loses_rows_of_a_query(mutation: str):
    _, wrong, trace = streaming_query.explore(mutation)
    assert wrong is not None
    assert trace
