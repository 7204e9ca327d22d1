"""Faults of single storage calls: an answer is lost, or an effect comes late.

What it is: how a planned strike becomes a fault of `FaultyStorage`.
What it promises: the call that is struck is the n-th of a process, whatever it is; numbers are
dealt so that every call has its turn.
What it must not know: the job.
"""

import random

from ashore.drills.drill import Planned, Schedule
from ashore.testing import FailAfterEffect, Fault, LateEffect

LOST_ANSWER = "lost answer"
# A call fails now and is applied later: so many calls later, and once or twice.
LATE = {
    "late by a call": (1, 1),
    "late by two calls, twice": (2, 2),
    "late by nine calls": (9, 1),
    "late until the process is gone": (None, 1),
    "late until the process is gone, twice": (None, 2),
}


def deal_turns(dice: random.Random, kinds: tuple[str, ...], turns: tuple[int, int]) -> Schedule:
    """Strike at call 1 to n of each of so many lives, in any order. `turns`: rounds, lives."""
    rounds, lives = turns
    places = [(number // lives + 1, number % lives) for number in range(rounds)]
    dice.shuffle(places)
    # Kinds go by turns, so that none is left out by chance.
    return tuple(
        Planned(index, kinds[index % len(kinds)], f"life {life}", call)
        for index, (call, life) in enumerate(places)
    )


def to_fault(planned: Planned) -> Fault:
    """Return what `FaultyStorage` obeys."""
    if planned.kind == LOST_ANSWER:
        return FailAfterEffect(planned.number)
    after, times = LATE[planned.kind]
    return LateEffect(planned.number, after=after, times=times)
