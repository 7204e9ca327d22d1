"""The space quota of the lake's directory was used up; later an operator raised it.

Nothing can be written then: no file of a batch, and no entry of the log. Moves need no room. What
was half written lies about, unseen, and the job waits until there is room.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Out
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.scenarios.outages import BATCHES, play_outages

STEPS = ("write", "prepare", "move")


def plan(dice: random.Random, length: Length) -> Schedule:
    """Use the quota up once in each round, when the lake is there."""
    return tuple(
        PlannedFault(index, Out.QUOTA, STEPS[index % len(STEPS)], dice.randint(2, BATCHES))
        for index in range(length.rounds)
    )


DRILL = Drill(
    name="space-quota",
    title="An HDFS space quota is used up during a batch, and raised later",
    shows="without space nothing half written is visible, and landing continues once there is some",
    short=Length(
        rounds=1,
        records=3_000,
        text="one quota, used up for 3 s, without Spark; at length twelve, for two minutes",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=12,
        records=30_000,
        text="12 quotas, each used up for two minutes, 30,000 records each",
        is_real=True,
        rounds_per_minute=0.3,
        outage_s=120.0,
    ),
    plan=plan,
    play=play_outages,
    needs=frozenset({Server.HDFS}),
)
