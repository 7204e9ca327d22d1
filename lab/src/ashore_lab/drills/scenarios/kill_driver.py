"""The driver is killed again and again, in the midst of whatever it does.

Nothing cleans up after it. The next process starts from the landing log alone.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage

# Where a batch is half done comes first: a short form that kills elsewhere proves nothing.
STEPS = ("prepare", "move", "write", "landed", "plan", "open")
BATCHES = 3  # in each round


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill a process in each round: at any step of its batches, those of STEPS in turn.

    Not in the last batch: on a busy machine a kill comes late, and is to find another one begun.
    """
    steps = [STEPS[index % len(STEPS)] for index in range(length.rounds)]
    dice.shuffle(steps)
    return tuple(
        PlannedFault(index, "kill", step, 1 if step == "open" else dice.randint(1, BATCHES - 1))
        for index, step in enumerate(steps)
    )


def play(stage: Stage) -> None:
    """Produce and kill, round after round; then let one process finish."""
    site = stage.site(SiteOptions(batch_records=max(1, stage.length.records // BATCHES)))
    site.expect(len(stage.schedule) + 1, at_once=2)
    for planned in stage.schedule:
        site.produce(stage.length.records)
        site.live(Kill(Moment(planned.place, planned.number)))
    stage.drain(site)
    struck, rounds = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck == rounds, f"{struck} of {rounds} kills came in time")


DRILL = Drill(
    name="kill-driver",
    title="The driver is killed with SIGKILL, again and again",
    shows="a job resumes from its log, at whatever step it was killed",
    short=Length(
        rounds=2,
        records=3_000,
        text="2 kills, 3,000 records each; at length it is 20 kills",
        is_real=True,
    ),
    long=Length(
        rounds=20,
        records=30_000,
        text="20 kills, 30,000 records each",
        is_real=True,
        rounds_per_minute=4,
    ),
    plan=plan,
    play=play,
)
