"""The nodes that keep the files stopped while files were written: one of them, then all.

With one gone a write goes on with the others. With all gone nothing can be written, what was half
written is left behind, and the job waits, gives up, is started again, until the nodes are back.
"""

import random

from ashore.drills.drill import Drill, Length, Planned, Schedule
from ashore.drills.faults import Moment, Out, Outage
from ashore.drills.sites.site import SiteOptions
from ashore.drills.stage import Stage

BATCHES = 3
STEPS = ("plan", "write", "prepare", "move")
DOWN_S = {Out.STORAGE_NODE: 3.0, Out.STORAGE_NODES: 3.0}


def plan(dice: random.Random, length: Length) -> Schedule:
    """Stop one node, then all, then one ... at a step of the second batch or the third."""
    which = tuple(DOWN_S)
    return tuple(
        Planned(index, which[index % len(which)], dice.choice(STEPS), dice.randint(2, BATCHES))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Produce; let nodes stop and come back while the job lands it."""
    records = max(1, stage.length.records // BATCHES)
    site = stage.site(SiteOptions(batch_records=records, lake="hdfs", sections={"deadline": "10s"}))
    for planned in stage.schedule:
        site.produce(stage.length.records)
        out = Out(planned.kind)
        stage.ride_out(site, Outage(Moment(planned.place, planned.number), out, DOWN_S[out]))
        if stage.problems:
            break  # what goes on would only take long
    stage.drain(site)
    struck, rounds = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck == rounds, f"{struck} of {rounds} outages came in time")


DRILL = Drill(
    name="storage-nodes-down",
    title="DataNodes stop while files are written, one and then all",
    shows="what is half written is seen by nobody, and landing goes on once there is a node",
    short=Length(
        rounds=2,
        records=3_000,
        text="one DataNode away for 3 s, then both; at length twenty times",
        is_real=True,
    ),
    long=Length(
        rounds=20,
        records=30_000,
        text="20 outages of one DataNode or both, 30,000 records each",
        is_real=True,
        rounds_per_minute=2,
    ),
    plan=plan,
    play=play,
)
