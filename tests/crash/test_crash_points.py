"""Recovery after any fault at any storage call gives the table and the ledger of no fault (I5)."""

import pytest
from tests.crash import storage_calls, system_calls
from tests.crash.harness import find_failures, report
from tests.crash.storage_calls import Strike

from ashore.testing import FailAfterEffect, FailBefore, PowerCutPolicy


def test_the_job_makes_every_kind_of_call_in_both_lives() -> None:
    for calls in storage_calls.number_calls():
        kinds = {call.kind for call in calls}
        assert kinds >= {"create", "list", "move", "open_write", "read", "sync", "write", "close"}
    assert len(storage_calls.number_calls()[1]) > 30


@pytest.mark.parametrize("strike", list(storage_calls.strikes()), ids=lambda strike: strike.name)
def test_every_storage_call(strike: Strike) -> None:
    report(find_failures(storage_calls.cases(strike)))


RENAMES = pytest.mark.parametrize("can_rename", [True, False], ids=["renames", "links"])


@RENAMES
@pytest.mark.parametrize(
    "policy", [None, *PowerCutPolicy], ids=lambda policy: policy.name if policy else "stop"
)
def test_a_stop_or_a_power_cut_at_every_system_call(
    policy: PowerCutPolicy | None, can_rename: bool
) -> None:
    report(find_failures(system_calls.stops(policy, can_rename=can_rename)))


@RENAMES
@pytest.mark.parametrize("fault", [FailBefore, FailAfterEffect])
def test_an_error_at_every_system_call(
    fault: type[FailBefore | FailAfterEffect], can_rename: bool
) -> None:
    report(find_failures(system_calls.errors(fault, can_rename=can_rename)))


@RENAMES
def test_every_system_call_may_hang_before_a_power_cut(can_rename: bool) -> None:
    report(find_failures(system_calls.hangs(can_rename=can_rename)))
