"""The clock of the driver was wrong, and was set right in the midst of the work.

It jumps by hours, days and a year, forwards and back. Lateness, partitions and names come from
times that the log keeps, which never go back; no record may fall between two of them.
"""

import random

from ashore.drills.drill import Drill, Length, Planned, Schedule
from ashore.drills.faults import BATCH_STEPS, ClockJump, Moment
from ashore.drills.sites.site import SiteOptions
from ashore.drills.stage import Stage

BATCHES = 3
HOUR_S = 3_600
JUMPS_H = (1, -2, 30, -24, 24 * 366, -24 * 400)
TABLE = {
    "event_time": {"column": "ts", "unit": "ms"},
    "partition_by": ["date", "hour"],
}


def plan(dice: random.Random, length: Length) -> Schedule:
    """Let the clock jump once in each round, by another time."""
    return tuple(
        Planned(
            index,
            f"clock {JUMPS_H[index % len(JUMPS_H)]:+d} h",
            dice.choice(BATCH_STEPS),
            dice.randint(1, BATCHES - 1),
        )
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land while the clock jumps."""
    records = stage.length.records
    site = stage.site(SiteOptions(batch_records=max(1, records // BATCHES), table=TABLE))
    for planned in stage.schedule:
        site.produce(records)
        hours = int(planned.kind.split()[1])
        jump = ClockJump(Moment(planned.place, planned.number), hours * HOUR_S)
        end = site.live(jump)
        stage.require(end.code == 0, f"{jump}: the job ended with {end.code}: {end.message}")
    stage.drain(site)


DRILL = Drill(
    name="clock-jump",
    title="The driver's clock jumps by hours and by years",
    shows="no record depends on a clock that goes forwards",
    short=Length(rounds=6, records=600, text="six jumps, up to a year, in memory"),
    long=Length(
        rounds=6,
        records=30_000,
        text="six jumps, up to a year, of real processes",
        is_real=True,
        rounds_per_minute=3,
    ),
    plan=plan,
    play=play,
)
