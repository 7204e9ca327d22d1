"""Giving a log its entries back, stopped before and after each storage call, and begun again.

What it promises: after every stop a start of the job stops with `log-lost`, or goes on without
landing anything twice; after the doctor was run again the table is proven.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
from tests.crash.harness import require, require_none_fails
from tests.crash.storage_calls import Case
from tests.marks import but
from tests.unit.proof.lakes import Lake
from tests.unit.proof.test_doctor_own_files import AT, lose, nexts, plain_lake

from ashore.errors import AshoreError, LogLost
from ashore.proof.doctor.apply import treat
from ashore_lab.testing import FailAfterEffect, FailBefore, Fault, FaultyStorage, ProcessStopped
from ashore_lab.testing import StopProcess as Stop


def lost_lake(keep: int, *, has_aside: bool) -> Lake:
    lake = plain_lake()
    if has_aside:  # a file is gone: what comes after it goes aside, and is landed again
        lake.storage.delete(lake.final(lake.entries[3]))
    lose(lake, keep)
    return lake


def adopt(lake: Lake, faults: tuple[Fault, ...] = ()) -> FaultyStorage:
    """Run the doctor once, on a storage with faults."""
    storage = FaultyStorage(lake.storage, faults)
    opened = replace(lake.opened(), storage=storage)
    try:
        treat(opened, AT, lambda _: None, takes_over=True)
    except (AshoreError, ProcessStopped):
        require(bool(faults), "it failed without a fault")
    return storage


def check_start(lake: Lake) -> None:
    """A start goes on only where the log has every file that readers see."""
    try:
        fold = lake.opened().log(lake.name).open()
    except LogLost:
        return
    result = lake.verify()
    unlisted = {kind.value for kind in result.problem_counts} & {"file_unlisted", "duplicated"}
    require(not unlisted, f"a start goes on in epoch {fold.epoch} beside {unlisted}")


STRIKES: dict[str, Callable[[int], Fault]] = {
    "stops before": lambda number: Stop(number, when="before"),
    "stops after": lambda number: Stop(number, when="after"),
    "fails before": FailBefore,
    "fails after": FailAfterEffect,
}


def stops(keep: int, what: str, *, has_aside: bool) -> Iterator[Case]:
    whole = lost_lake(keep, has_aside=has_aside)
    calls = adopt(whole).calls
    expected = nexts(whole)
    for call in calls:

        def run(number: int = call.number) -> None:
            lake = lost_lake(keep, has_aside=has_aside)
            adopt(lake, (STRIKES[what](number),))
            check_start(lake)
            adopt(lake)
            require(nexts(lake) == expected, f"landing would go on at {nexts(lake)}")
            result = lake.verify()
            require(result.exit_code == 0, f"{result.summary} {result.problems}")
            lake.opened().log(lake.name).open()

        yield f"{what} call {call.number}: {call.kind} {call.path}", run


# A stop before each call leaves what a stop after the one before leaves: that is for the long run.
EVERYDAY = ("stops before",)
# How many entries are left, and whether files lie aside: one of a lost end, one of a lost log.
LOSSES = [(0, False), (3, False), (5, False), (0, True)]
EVERYDAY_LOSSES = {(5, False), (0, True)}


@pytest.mark.parametrize("what", but(pytest.mark.long, STRIKES, EVERYDAY.__contains__))
@pytest.mark.parametrize(
    ("keep", "has_aside"),
    but(pytest.mark.long, LOSSES, lambda *loss: loss in EVERYDAY_LOSSES),
)
def test_every_storage_call(keep: int, has_aside: bool, what: str) -> None:
    require_none_fails(stops(keep, what, has_aside=has_aside))
