"""The NameNode did what it was asked, and its answer was lost on the way.

A job lands a few batches and is killed in the midst of its moves; a second process finishes. In
each round another storage call of one of the two is applied, and its answer never comes.
"""

import random

from ashore.drills.drill import Drill, Length, Schedule
from ashore.drills.faults.calls import LOST_ANSWER
from ashore.drills.scenarios.turns import LIVES, plan_turns, play_turns


def plan(dice: random.Random, length: Length) -> Schedule:
    """Lose the answer to another call of another life in each round."""
    return plan_turns(dice, (LOST_ANSWER,), length)


DRILL = Drill(
    name="lost-answers",
    title="The answer to every storage call is lost in turn",
    shows="A call that was applied is never taken for one that was not, whichever it is.",
    short=Length(rounds=64 * LIVES, records=24, text="each call of two short lives, in memory"),
    long=Length(rounds=120 * LIVES, records=900, text="each call of two longer lives, in memory"),
    plan=plan,
    play=play_turns,
)
