"""What do kills cost? A job with short batches is killed now and then, and reads little twice.

Records come all the time, and each second a batch is made of them. With a kill every five minutes
at most the batch under way is read again.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import KILLED, SiteOptions
from ashore_lab.drills.stage import Stage

BATCHES = 300  # between two kills
BUDGET = 0.005  # of the records


def plan(_dice: random.Random, length: Length) -> Schedule:
    """Kill each process in the midst of its 300th batch: the dearest moment."""
    return tuple(PlannedFault(index, "kill", "prepare", BATCHES) for index in range(length.rounds))


def play(stage: Stage) -> None:
    """Land 300 batches while records come, die, and continue; then count what was read twice."""
    per_batch = max(1, stage.length.records // BATCHES)
    options = SiteOptions(
        partitions=1, batch_records=per_batch, table={"partition_by": []}, interval="1s"
    )
    site = stage.site(options)
    for planned in stage.schedule:
        end = site.live_while(per_batch, Kill(Moment(planned.place, planned.number)))
        stage.require(end.code == KILLED, f"a process ended with {end.code}: {end.message}")
    stage.drain(site)
    stage.count_read_twice(site, BUDGET)


DRILL = Drill(
    name="replay-budget",
    title="A kill every 300 batches costs little",
    shows="at most 0.5 % of the data is read twice",
    short=Length(
        rounds=3,
        records=BATCHES * 2,
        text="three kills, 300 batches apart, in memory; at length in seconds of a real clock",
    ),
    long=Length(
        rounds=3,
        records=BATCHES * 1_000,
        text="three kills, 300 batches apart, one a second",
        is_real=True,
        rounds_per_minute=0.2,
    ),
    plan=plan,
    play=play,
)
