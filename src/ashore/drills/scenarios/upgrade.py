"""A release was rolled out over jobs that had died under the old one, in the midst of their work.

The release before was killed in the midst of its moves; from an earlier death in-progress files lie
about. This release finishes what was prepared. Then it is killed itself, wherever it is, and what
it had not prepared is rolled back: by nobody, for nobody sees it, until the janitor comes.

While there is no release before this one, a lake that was written down plays its part.
"""

import random

from ashore.control.jobs import plan_recover
from ashore.drills.drill import Drill, Length, Planned, Schedule
from ashore.drills.faults import BATCH_STEPS, Kill, Moment
from ashore.drills.old_lake import OPTIONS, OldLake, load_old_lake
from ashore.drills.sites.memory import MemorySite
from ashore.drills.sites.site import NAME, TABLE
from ashore.drills.stage import Stage
from ashore.protocol import names
from ashore.protocol.plan_commit import MoveFile

FORMATS = (1,)  # of releases before this one, and of this one


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill this release at another step in each round, in its first or second batch."""
    return tuple(
        Planned(index, "kill", BATCH_STEPS[index % len(BATCH_STEPS)], dice.randint(1, 2))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Take an old lake over in each round, die there, go on."""
    for planned in stage.schedule:
        lake = load_old_lake(FORMATS[planned.round % len(FORMATS)])
        site = stage.memory_site(OPTIONS)
        lake.put(site)
        stage.recorder.fault("kill", "the release before, in the midst of its moves")
        half_moved, dirty = _count_left(site)
        stage.require_proof(half_moved > 0, "the release before had moved everything, or nothing")
        stage.require_proof(dirty > 0, "the release before has left no dirty file")
        site.produce(stage.length.records)
        site.live(Kill(Moment(planned.place, planned.number)))
        stage.drain(site)
        site.keep_house()
        site.produce(stage.length.records)
        stage.drain(site)
        _require_tidy(stage, site, lake)
        stage.settle(site, f"killed at {planned.place} {planned.number}")


def _count_left(site: MemorySite) -> tuple[int, int]:
    """Return how many prepared files of a half-moved batch wait, and how many are of no batch."""
    with site.opened() as opened:
        moves = [step.place for step in plan_recover(opened) if isinstance(step, MoveFile)]
    waiting = {place.pending for place in moves if site.machine.stat(place.pending) is not None}
    is_half = 0 < len(waiting) < len(moves)
    return len(waiting) if is_half else 0, len(set(_staged(site)) - waiting)


def _require_tidy(stage: Stage, site: MemorySite, lake: OldLake) -> None:
    """Nothing that the release before had staged is left, and what was final is as it was."""
    left = sorted(set(_staged(site)) & lake.files.keys())
    stage.require(not left, f"dirty files of the release before were not cleaned up: {left}")
    for path, content in lake.files.items():
        if names.is_visible(path):
            is_same = site.machine.read(path) == content.encode()
            stage.require(is_same, f"{path} was changed")


def _staged(site: MemorySite) -> list[str]:
    root = names.staging_root(TABLE, NAME)
    epochs = [found.path for found in site.machine.list(root)]
    return [found.path for epoch in epochs for found in site.machine.list(epoch)]


DRILL = Drill(
    name="upgrade",
    title="A release takes over what the one before has left half done",
    shows="what an older release has prepared is finished, and what it has not is never seen",
    short=Length(
        rounds=10,
        records=36,
        text="10 lakes of the first format, this release killed at every step, in memory",
    ),
    long=Length(
        rounds=50,
        records=900,
        text="50 lakes of the first format, this release killed at every step, in memory",
        rounds_per_minute=60,
    ),
    plan=plan,
    play=play,
)
