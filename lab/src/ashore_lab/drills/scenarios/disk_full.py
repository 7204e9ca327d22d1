"""The disk was full, or the quota used up, in the midst of a batch; an hour later there was room.

What had been half written lies about, unseen. The job waits for a while, gives up, is started
again, and continues once there is room.
"""

import random

from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults.full import DiskFull, FullStorage
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight

BATCHES = 4
# In a short one the job retries; in the longer ones the process gives up and is started again.
TIMES_S = (3, 40, 600)
LIFE_S = 20  # that a process tries for, at least, and its supervisor waits


def plan(dice: random.Random, length: Length) -> Schedule:
    """Fill the disk once in each round: `number` percent of what a round needs fits."""
    return tuple(
        PlannedFault(
            index, "disk full", f"for {TIMES_S[index % len(TIMES_S)]} s", dice.randint(1, 95)
        )
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Learn how much a round writes; then let each round run out of room.

    Every other round in a data file: entries are most of what small batches write.
    """
    site = stage.memory_site(SiteOptions(batch_records=max(1, stage.length.records // BATCHES)))
    learned = _land(stage, site, DiskFull(1 << 60, 0))
    for planned in stage.schedule:
        seconds = float(planned.place.split()[1])
        is_for_files = planned.round % 2 == 0
        round_bytes = learned.file_bytes if is_for_files else learned.taken_bytes
        full = DiskFull(round_bytes * planned.number // 100, seconds, is_for_files)
        disk = _land(stage, site, full)
        if disk.was_full:
            refused = Flight(f"{disk.refused} that found no room", is_proof=bool(disk.refused))
            stage.recorder.fault(planned.kind, str(full), refused)
        if stage.problems:
            break  # further rounds would only take long
    stage.drain(site)


def _land(stage: Stage, site: MemorySite, full: DiskFull) -> FullStorage:
    """Land what a round produces; a supervisor starts the process again when it gives up."""
    site.produce(stage.length.records)
    disk = FullStorage(site.machine, full, site.clock)
    for _ in range(3 + int(full.seconds / LIFE_S)):
        end = site.live(wrap=lambda _storage: disk)
        if end.code == 0:
            break
        site.clock.sleep(10.0)
    stage.require(end.code == 0, f"{full}: the job did not continue: {end.code}: {end.message}")
    return disk


DRILL = Drill(
    name="disk-full",
    title="The disk is full during a batch",
    shows="what was half written is never visible, and landing continues once there is space",
    short=Length(rounds=6, records=400, text="full six times, for 3 s to 10 min, in memory"),
    long=Length(
        rounds=60,
        records=4_000,
        text="full 60 times, for 3 s to 10 min, in memory",
        rounds_per_minute=60,
    ),
    plan=plan,
    play=play,
)
