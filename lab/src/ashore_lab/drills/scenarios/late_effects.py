"""A call was given up, and it arrived all the same: later, once or twice.

A job lands a few batches and is killed in the midst of its moves; a second process finishes. In
each round another storage call of one of the two fails, and takes effect at an unexpected time:
a few calls later, or when the process that made it has long gone.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults.calls import CALLS_MAX, LATE, LIVES, deal_turns
from ashore_lab.drills.plan import Length, Schedule
from ashore_lab.drills.scenarios.turns import play_turns


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let another call of another life come late in each round."""
    return deal_turns(dice, list(LATE), length.rounds)


DRILL = Drill(
    name="late-effects",
    title="Every storage call takes effect late in turn",
    shows="a call may arrive at any time, once or twice, and changes nothing",
    short=Length(
        rounds=CALLS_MAX * LIVES,
        records=24,
        text="every call of two lives, each late in one of five ways, in memory",
    ),
    long=Length(
        rounds=CALLS_MAX * LIVES * len(LATE),
        records=900,
        text="every call of two lives, late in every way, in memory",
        rounds_per_minute=60,
    ),
    plan=plan,
    play=play_turns,
)
