"""Faults of single storage calls: an answer is lost, or an effect comes late.

What it is: how a planned strike becomes a fault of `FaultyStorage`.
What it promises: the call that is struck is the n-th of a process, whatever it is. In each pass
over the calls each has its turn once, and in the next pass with another kind of fault.
"""

import random
from collections.abc import Sequence

from ashore_lab.drills.plan import PlannedFault, Schedule
from ashore_lab.testing import (
    FailAfterEffect,
    FailBefore,
    Fault,
    Hang,
    LateEffect,
    PowerCut,
    StopProcess,
)

LIVES = 2  # of the job in one round
CALLS_MAX = 120  # that a life makes, at most, if its batches are three
LOST_ANSWER = "lost answer"
# A call fails now and is applied later: after a number of calls, and once or twice.
LATE = {
    "late by a call": (1, 1),
    "late by two calls, twice": (2, 2),
    "late by nine calls": (9, 1),
    "late until the process is gone": (None, 1),
    "late until the process is gone, twice": (None, 2),
}


def deal_turns(dice: random.Random, kinds: Sequence[str], rounds: int) -> Schedule:
    """Plan a strike for each round: the calls of both lives, in any order."""
    turns = []
    for number in range(rounds):
        turn, rest = divmod(number, CALLS_MAX * LIVES)
        call, life = divmod(rest, LIVES)
        turns.append((kinds[(call + life + turn) % len(kinds)], f"life {life}", call + 1))
    dice.shuffle(turns)
    return tuple(PlannedFault(index, *turn) for index, turn in enumerate(turns))


def to_fault(planned: PlannedFault) -> Fault:
    """Return what `FaultyStorage` obeys."""
    if planned.kind == LOST_ANSWER:
        return FailAfterEffect(planned.number)
    after, times = LATE[planned.kind]
    return LateEffect(planned.number, after=after, times=times)


def describe_fault(fault: Fault) -> tuple[str, str]:
    """Return kind and text of a fault of a storage call, for the timeline."""
    kinds = {
        FailAfterEffect: LOST_ANSWER,
        FailBefore: "failed call",
        LateEffect: "late effect",
        Hang: "call that hangs",
        StopProcess: "kill",
        PowerCut: "power cut",
    }
    which = f"{fault.kind} {fault.number}" if fault.kind else f"call {fault.number}"
    text = f"at {which}"
    if isinstance(fault, LateEffect):
        when = "when released" if fault.after is None else f"{fault.after} calls later"
        text += f", applied {when}" + (", twice" if fault.times == 2 else "")
    return kinds[type(fault)], text
