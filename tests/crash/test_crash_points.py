"""Recovery after any fault at any storage call gives the table and the ledger of no fault (I5)."""

import pytest
from tests.crash import storage_calls
from tests.crash.harness import find_failures, report
from tests.crash.storage_calls import Strike


def test_the_job_makes_every_kind_of_call_in_both_lives() -> None:
    for calls in storage_calls.number_calls():
        kinds = {call.kind for call in calls}
        assert kinds >= {"create", "list", "move", "open_write", "read", "sync", "write", "close"}
    assert len(storage_calls.number_calls()[1]) > 30


@pytest.mark.parametrize("strike", list(storage_calls.strikes()), ids=lambda strike: strike.name)
def test_every_storage_call(strike: Strike) -> None:
    report(find_failures(storage_calls.cases(strike)))
