"""The NameNode did what it was asked, and its answer was lost on the way.

A job lands a few batches and is killed in the midst of its moves; a second process finishes. In
each round another storage call of one of the two is applied, and its answer never comes.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults.calls import CALLS_MAX, LIVES, LOST_ANSWER, deal_turns
from ashore_lab.drills.plan import Length, Schedule
from ashore_lab.drills.scenarios.turns import play_turns


def plan(dice: random.Random, length: Length) -> Schedule:
    """Lose the answer to another call of another life in each round."""
    return deal_turns(dice, [LOST_ANSWER], length.rounds)


DRILL = Drill(
    name="lost-answers",
    title="The answer to every storage call is lost in turn",
    shows="a call that was applied is never taken for one that was not",
    short=Length(
        rounds=CALLS_MAX * LIVES,
        records=24,
        text="every call of two lives with three small batches, in memory",
    ),
    long=Length(
        rounds=CALLS_MAX * LIVES,
        records=9_000,
        text="every call of two lives with three batches, in memory",
        rounds_per_minute=60,
    ),
    plan=plan,
    play=play_turns,
)
