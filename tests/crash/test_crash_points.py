"""Recovery after any fault at any storage call gives the table and the ledger of no fault (I5)."""

import itertools
from collections.abc import Sequence

import pytest
from tests.crash import storage_calls, system_calls
from tests.crash.harness import require_none_fails
from tests.crash.storage_calls import Strike
from tests.marks import but

from ashore.log import names
from ashore.log.store import log
from ashore_lab.testing import FailAfterEffect, FailBefore, PowerCutPolicy
from ashore_lab.testing.faults import STORAGE_CALLS


def test_the_job_makes_every_kind_of_call_in_both_lives() -> None:
    for calls in storage_calls.number_calls():
        kinds = {call.kind for call in calls}
        assert kinds >= {
            "create",
            "list",
            "publish",
            "open_write",
            "read",
            "sync",
            "write",
            "close",
        }
    assert len(storage_calls.number_calls()[1]) > 30


@storage_calls.every_strike
def test_every_storage_call(strike: Strike) -> None:
    require_none_fails(storage_calls.cases(strike))


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let few entries be enough for an archive."""
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 4)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 2)


@pytest.mark.usefixtures("short_log")
def test_a_job_that_keeps_house_makes_every_kind_of_call() -> None:
    made = [call for calls in storage_calls.KEEPER.number_calls() for call in calls]
    assert {call.kind for call in made} == STORAGE_CALLS
    assert storage_calls.deleted_by(made) == {"json", "in-progress", "epoch"}


@pytest.mark.usefixtures("short_log")
@storage_calls.every_strike
def test_every_storage_call_of_housekeeping(strike: Strike) -> None:
    require_none_fails(storage_calls.keeper_cases(strike))


def by_turns(cases: Sequence[object]) -> list:
    """Return cases for a file system that renames, and for one that only links.

    Every day each is played on one of the two, by turns.
    """
    return [
        pytest.param(case, can_rename, marks=[pytest.mark.long] * (number % 2 != can_rename))
        for number, case in enumerate(cases)
        for can_rename in (True, False)
    ]


def name_of(value: object) -> str:
    match value:
        case bool():
            return "renames" if value else "links"
        case PowerCutPolicy():
            return value.name
        case None:
            return "stop"
        case _:
            return str(getattr(value, "__name__", value))


@pytest.mark.parametrize(
    ("policy", "can_rename"),
    [
        *by_turns([*PowerCutPolicy]),
        # A stop loses nothing that is written, and is struck above, call by call.
        *(pytest.param(None, each, marks=pytest.mark.long) for each in (True, False)),
    ],
    ids=name_of,
)
def test_a_stop_or_a_power_cut_at_every_system_call(
    policy: PowerCutPolicy | None, can_rename: bool
) -> None:
    require_none_fails(system_calls.stops(policy, can_rename=can_rename))


# Every day those that took effect all the same. Those that did not are struck above, call by call.
@pytest.mark.parametrize(
    ("fault", "can_rename"),
    but(
        pytest.mark.long,
        itertools.product([FailBefore, FailAfterEffect], [True, False]),
        lambda fault, can_rename: fault is FailAfterEffect and can_rename,
    ),
    ids=name_of,
)
def test_an_error_at_every_system_call(
    fault: type[FailBefore | FailAfterEffect], can_rename: bool
) -> None:
    require_none_fails(system_calls.errors(fault, can_rename=can_rename))


@pytest.mark.parametrize(
    "can_rename", [True, pytest.param(False, marks=pytest.mark.long)], ids=name_of
)
def test_every_system_call_may_hang_before_a_power_cut(can_rename: bool) -> None:
    require_none_fails(system_calls.hangs(can_rename=can_rename))
