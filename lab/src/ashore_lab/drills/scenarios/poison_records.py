"""A tenth of a topic is no JSON, or not of the schema, in all the forms that topics really hold.

A producer sends what it should not, while the driver is killed as usual. Each bad record must stand
in the dead-letter table as it came, once, and each good one in its table, once.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight

POISON_EVERY = 10
BATCHES = 3
STEPS = ("prepare", "move", "write", "landed", "plan")  # first those where a batch is half done


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill the process once in each round."""
    steps = [STEPS[index % len(STEPS)] for index in range(length.rounds)]
    dice.shuffle(steps)
    return tuple(
        PlannedFault(index, "kill", step, dice.randint(1, BATCHES - 1))
        for index, step in enumerate(steps)
    )


def play(stage: Stage) -> None:
    """Produce with poison, kill, continue."""
    records = stage.length.records
    options = SiteOptions(batch_records=max(1, records // BATCHES), poison_every=POISON_EVERY)
    site = stage.site(options)
    for planned in stage.schedule:
        site.produce(records)
        poison = f"{records // POISON_EVERY:,} of {records:,} are no rows"
        stage.recorder.fault("poison", poison, Flight(f"{records:,} records to read", True))
        site.live(Kill(Moment(planned.place, planned.number)))
    stage.drain(site)


DRILL = Drill(
    name="poison-records",
    title="A tenth of the records are no rows of the table",
    shows="a bad record is kept as it came, once, and holds up no other",
    short=Length(
        rounds=4, records=900, text="4 rounds of 900 records, in memory; at length real processes"
    ),
    long=Length(
        rounds=6,
        records=60_000,
        text="6 kills, 60,000 records each",
        is_real=True,
        rounds_per_minute=3,
    ),
    plan=plan,
    play=play,
)
