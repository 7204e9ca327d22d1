"""The broker was killed and came back, while a job was reading.

The job is not restarted. It retries until the broker is back, and continues where its log says.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BrokerAway, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage

STEPS = ("plan", "write", "prepare")
BATCHES = 3
AWAY_S = 2.0


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill the broker once in each round."""
    return tuple(
        PlannedFault(index, "broker away", dice.choice(STEPS), dice.randint(1, BATCHES - 1))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Produce; let the job land while the broker goes and comes."""
    site = stage.site(SiteOptions(batch_records=max(1, stage.length.records // BATCHES)))
    site.expect(len(stage.schedule))
    for planned in stage.schedule:
        site.produce(stage.length.records)
        end = site.live(BrokerAway(Moment(planned.place, planned.number), AWAY_S))
        stage.require(end.code == 0, f"the job did not survive it: {end.code}: {end.message}")
    struck, rounds = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck == rounds, f"{struck} of {rounds} restarts came in time")


DRILL = Drill(
    name="broker-restart",
    title="The broker is killed while the job reads, and comes back",
    shows="a job retries while a broker is away, and reads on where it was",
    short=Length(
        rounds=1,
        records=3_000,
        text="one restart, 3,000 records, without Spark; at length ten",
        is_real=True,
        has_spark=False,
    ),
    long=Length(
        rounds=10,
        records=30_000,
        text="10 restarts, 30,000 records each",
        is_real=True,
        rounds_per_minute=3,
    ),
    plan=plan,
    play=play,
)
