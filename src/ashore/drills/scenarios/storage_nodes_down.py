"""The nodes that keep the files stopped while files were written: one of them, then all.

With one gone a write goes on with the others. With all gone nothing can be written, what was half
written is left behind, and the job waits, gives up, is started again, until the nodes are back.
"""

import random

from ashore.drills.drill import Drill, Length, Planned, Schedule
from ashore.drills.faults import Moment, Out, Outage
from ashore.drills.sites.site import SiteOptions
from ashore.drills.stage import Stage

BATCHES = 5
STEPS = ("plan", "write", "prepare", "move")
DOWN_S = {Out.STORAGE_NODE: 3.0, Out.STORAGE_NODES: 3.0}


def plan(dice: random.Random, length: Length) -> Schedule:
    """Stop one node, and two batches later all."""
    return tuple(
        Planned(index, out, dice.choice(STEPS), number)
        for index in range(length.rounds)
        for number, out in zip((2, 4), DOWN_S, strict=True)
    )


def play(stage: Stage) -> None:
    """Produce; let nodes stop and come back while the job lands it."""
    records = max(1, stage.length.records // BATCHES)
    site = stage.site(SiteOptions(batch_records=records, lake="hdfs", sections={"deadline": "10s"}))
    for number in range(stage.length.rounds):
        planned = [each for each in stage.schedule if each.round == number]
        site.produce(stage.length.records)
        stage.ride_out(
            site,
            *(Outage(Moment(p.place, p.number), Out(p.kind), DOWN_S[Out(p.kind)]) for p in planned),
        )
        if stage.problems:
            break  # what goes on would only take long
    struck, wanted = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck == wanted, f"{struck} of {wanted} outages came in time")


DRILL = Drill(
    name="storage-nodes-down",
    title="DataNodes stop while files are written, one and then all",
    shows="what is half written is seen by nobody, and landing goes on once there is a node",
    short=Length(
        rounds=1,
        records=3_000,
        text="one DataNode away for 3 s, then both; at length ten times",
        is_real=True,
    ),
    long=Length(
        rounds=10,
        records=30_000,
        text="one DataNode away, then both, 10 times, 30,000 records each",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
)
