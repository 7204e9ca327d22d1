"""The crash points of the landing loop again, on a real HDFS: a subset, no kind of call left out.

The exhaustive suite is `tests/crash`. Here each fault strikes the first call of a kind, one in the
middle and the last, of three processes: one is killed before it prepares, one in its moves, and one
finishes, archives and cleans. Every day each fault strikes one of the three, by turns, and a share
of the kinds (tests/shares.py).
"""

import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.crash import storage_calls
from tests.crash.harness import Reference, World, explain, reference, report
from tests.crash.storage_calls import KEEPER_LIVES, Scenario, Strike, small_world
from tests.shares import share_of

from ashore.base.clock import SystemClock
from ashore.log import names
from ashore.log.store import committer, log
from ashore.storage import open_storage
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.testing import (
    Call,
    FailAfterEffect,
    FailBefore,
    FakeClock,
    Hang,
    LateEffect,
    StopProcess,
)
from ashore_lab.testing.faults import STORAGE_CALLS

STRIKES = (
    "fails before",
    "fails after",
    "stops before",
    "stops after",
    "late at the next call, 1 times",
    "late at the next call, and stops, 2 times",
    "late at the next open, 2 times",
    "late at the end, and stops, 1 times",
    "hangs, at open",
    "hangs, when the process has ended",
)
# Each leaves what another of its kind leaves.
LONG = {
    "fails before",
    "stops after",
    "late at the next call, 1 times",
    "late at the next call, and stops, 2 times",
    "late at the end, and stops, 1 times",
    "hangs, at open",
}
PLACES = ("first", "middle", "last")
HALF_HOUR_MS = 1_800_000
CASES_AT_ONCE = 24  # they wait most of the time


@pytest.fixture(autouse=True, scope="module")
def short_log() -> Iterator[None]:
    """Let the calls be the same in every run, and few entries be enough for an archive."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "PARALLEL_MOVES", 1)
        patch.setattr(log, "SNAPSHOT_EVERY", 4)
        patch.setattr(names, "ARCHIVE_ENTRIES", 2)
        yield


@pytest.fixture(scope="module")
def scenario(steady_hdfs: Hdfs) -> Scenario:
    def new_world() -> World:
        uri = f"{steady_hdfs.uri}/crash/{uuid.uuid4().hex}"
        storage = open_storage(uri, options=steady_hdfs.client_options())
        # Ahead of the cluster's clock, so that what lies there is old enough to be cleaned, and
        # not so far ahead that it is refused.
        return small_world(storage, FakeClock(SystemClock().now_ms() + HALF_HOUR_MS, 0.0))

    return Scenario(new_world, KEEPER_LIVES)


@pytest.fixture(scope="module")
def expected(scenario: Scenario) -> Reference:
    return reference(scenario.new_world())


@pytest.fixture(scope="module")
def places(scenario: Scenario) -> dict[str, list[tuple[int, Call]]]:
    """Return the calls that are struck: of each kind the first, one in the middle and the last."""
    of_kind: dict[tuple[str, bool], list[tuple[int, Call]]] = {}
    for life, calls in enumerate(scenario.number_calls()):
        for call in calls:  # a directory is deleted by other code than a file
            is_directory = storage_calls.deleted_by([call]) == {"epoch"}
            of_kind.setdefault((call.kind, is_directory), []).append((life, call))
    kinds = {kind for kind, _ in of_kind}
    assert kinds == STORAGE_CALLS, "the job does not make every kind of call"
    found = [calls for _kind, calls in sorted(of_kind.items())]
    return {
        "first": [calls[0] for calls in found],
        "middle": [calls[len(calls) // 2] for calls in found],
        "last": [calls[-1] for calls in found],
    }


def find_strike(name: str) -> Strike:
    return {each.name: each for each in storage_calls.strikes()}[name]


def test_every_kind_of_fault_strikes_every_kind_of_call(
    places: dict[str, list[tuple[int, Call]]],
) -> None:
    faults = [find_strike(name).faults(1)[0] for name in STRIKES]
    assert {type(fault) for fault in faults} == {
        FailBefore, FailAfterEffect, LateEffect, Hang, StopProcess,
    }  # fmt: skip
    assert {fault.times for fault in faults if isinstance(fault, LateEffect)} == {1, 2}
    assert {fault.when for fault in faults if isinstance(fault, StopProcess)} == {"before", "after"}
    assert all({call.kind for _, call in places[place]} == STORAGE_CALLS for place in PLACES)
    struck = [each for place in PLACES for each in places[place]]
    assert storage_calls.deleted_by([call for _, call in struck]) == {
        "json",
        "in-progress",
        "epoch",
    }
    assert {life for life, _ in struck} == set(range(len(KEEPER_LIVES)))


def by_turns() -> list[object]:
    """Return each strike at each of the places of a kind; every day some strikes at one of them."""
    return [
        pytest.param(
            name, place, marks=[pytest.mark.long] * (name in LONG or number % len(PLACES) != turn)
        )
        for number, name in enumerate(STRIKES)
        for turn, place in enumerate(PLACES)
    ]


@pytest.mark.parametrize(("name", "place"), by_turns())
def test_calls_of_every_kind(
    scenario: Scenario,
    expected: Reference,
    places: dict[str, list[tuple[int, Call]]],
    name: str,
    place: str,
) -> None:
    strike = find_strike(name)

    def run(place: tuple[int, Call]) -> str | None:
        life, call = place
        what = storage_calls.describe(strike, life, call)
        return explain(what, lambda: scenario.run_case(strike, life, call, expected))

    with ThreadPoolExecutor(CASES_AT_ONCE) as pool:
        report(filter(None, pool.map(run, share_of(places[place]))))
