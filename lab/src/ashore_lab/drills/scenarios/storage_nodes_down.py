"""The nodes that keep the files stopped while files were written: one of them, then all.

With one gone a write continues with the others. With all gone nothing can be written, what was half
written is left behind, and the job waits, gives up, is started again, until the nodes are back.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Out
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.scenarios.outages import play_outages

STEPS = ("plan", "write", "prepare", "move")
ORDER = ((2, Out.STORAGE_NODE), (4, Out.STORAGE_NODES))  # at which batch


def plan(dice: random.Random, length: Length) -> Schedule:
    """Stop one node, and two batches later all."""
    return tuple(
        PlannedFault(index, out, dice.choice(STEPS), batch)
        for index in range(length.rounds)
        for batch, out in ORDER
    )


DRILL = Drill(
    name="storage-nodes-down",
    title="DataNodes stop while files are written, one and then all",
    shows="what is half written is never visible, and landing continues once there is a node",
    short=Length(
        rounds=1,
        records=3_000,
        text="one DataNode away for 2 s, then both, without Spark; at length 10 times a minute",
        is_real=True,
        has_spark=False,
        outage_s=2.0,
    ),
    long=Length(
        rounds=10,
        records=30_000,
        text="one DataNode away for a minute, then both, 10 times, 30,000 records each",
        is_real=True,
        rounds_per_minute=0.3,
        outage_s=60.0,
    ),
    plan=plan,
    play=play_outages,
    needs=frozenset({Server.HDFS}),
)
