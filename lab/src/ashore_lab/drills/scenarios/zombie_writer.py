"""A driver stood still for a day; another took over; then the first woke up.

The frozen process knows nothing of the time that has passed. While it stands still another process
lands everything, the log is packed, and what it had staged is deleted as stale. Then it does what
it was about to do.
"""

import random

from ashore.errors import Fenced
from ashore.log.store.reader import list_log
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BATCH_STEPS, Freeze, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage

STEPS = ("open", *BATCH_STEPS)
ARCHIVES_MIN = 1  # that are packed while a process stands still
OPTIONS = SiteOptions(
    partitions=1,
    batch_records=4,  # many batches: the log grows beyond what is packed
    table={"partition_by": []},
    sections={"clean": {"ttl": "1s"}},  # of a real one; in memory a day passes
)


def plan(dice: random.Random, length: Length) -> Schedule:
    """Freeze a process at another step in each round."""
    first = dice.randrange(len(STEPS))
    return tuple(
        PlannedFault(index, "freeze", STEPS[(first + index) % len(STEPS)])
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Freeze, let another process land everything and keep house, wake."""
    site, fenced = stage.site(OPTIONS), 0
    for planned in stage.schedule:
        site.produce(stage.length.records)
        end = site.live(Freeze(Moment(planned.place), lambda: take_over(stage, site)))
        # One that was frozen before it had opened the log takes it over, and finds all landed.
        is_well = end.code in (0, Fenced.exit_code)
        fenced += int(end.code == Fenced.exit_code)
        stage.require(is_well, f"the woken process ended with {end.code}: {end.message}")
    stage.drain(site)
    with site.opened() as opened:
        packed = len(list_log(opened.storage, NAME).archives)
    is_packed = packed >= ARCHIVES_MIN  # only by those who take over
    stage.require_proof(is_packed, "no process stood still while the log was packed")
    stage.notes.append(f"{fenced} woken processes were fenced; {packed} archives of the log")


def take_over(stage: Stage, site: Site) -> None:
    """Land what the frozen process was about to land, and more; then keep house."""
    stage.drain(site)
    site.produce(stage.length.records)
    stage.drain(site)
    site.keep_house()


DRILL = Drill(
    name="zombie-writer",
    title="A frozen driver wakes up after it was replaced",
    shows="of two writers one appends; the other is fenced, whenever it wakes",
    short=Length(
        rounds=len(STEPS),
        records=360,
        text="frozen at each step, in memory; a day of standing still takes no time",
    ),
    long=Length(
        rounds=len(STEPS), records=600, text="frozen at each step, real processes", is_real=True
    ),
    plan=plan,
    play=play,
)
