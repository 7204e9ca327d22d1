"""A release was rolled out over jobs that had died under the old one, in the midst of their work.

The release before was killed in the midst of its moves; from an earlier death in-progress files lie
about. This release finishes what was prepared. Then it is killed itself, wherever it is, and is
rolled back: what it had not prepared lies about as well, unseen until the janitor comes,
and what it has written into the log the release before can read.

While there is no release before this one, a lake that was written down plays its part, and who
reads it after the rollback is this release.
"""

import json
import random
from dataclasses import asdict, dataclass
from importlib.resources import files

from ashore.errors import check
from ashore.log import names
from ashore.log.plan_commit import find_moves
from ashore.topics.use.recover import plan_recover
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import BATCH_STEPS, Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import NAME, TABLE, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.workloads.numbers import Numbered, Produced

# JSON lines, so that the whole lake can be read by people.
OPTIONS = SiteOptions(batch_records=12, table={"format": "jsonl", "partition_by": ["country"]})


@dataclass(frozen=True, slots=True)
class OldLake:
    """What an earlier release has left: path and content of each file, and what was produced."""

    format_version: int
    seed: int
    records: int
    files: dict[str, str]

    def dump(self) -> str:
        """Return the text that `load_old_lake` reads."""
        return json.dumps(asdict(self), indent=1) + "\n"

    def put(self, site: MemorySite) -> None:
        """Put the lake, and the topic that it was landed from, on a new site of OPTIONS."""
        check(site.produced.total == 0, "a lake is put where nothing is yet")
        workload = site.produced.workload
        site.produced = Produced(Numbered(workload.topic, self.seed, workload.partitions))
        site.produce(self.records)
        for path, content in self.files.items():
            site.machine.create(path, content.encode())
        site.sample()


def load_old_lake(format_version: int) -> OldLake:
    """Return the lake that the first release of a format has left."""
    path = files("ashore_lab.drills").joinpath("lakes", f"format-{format_version}.json")
    return OldLake(**json.loads(path.read_text("utf-8")))


FORMATS = (1,)  # of releases before this one, and of this one


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill this release at another step in each round, in its first or second batch."""
    return tuple(
        PlannedFault(index, "kill", BATCH_STEPS[index % len(BATCH_STEPS)], dice.randint(1, 2))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Take an old lake over in each round, die there, continue."""
    dirty_files = 0
    for planned in stage.schedule:
        lake = load_old_lake(FORMATS[planned.round % len(FORMATS)])
        site = stage.memory_site(OPTIONS)
        lake.put(site)
        is_half_moved, dirty = _find_left(site)
        before = "the release before, during its moves"
        stage.recorder.fault("kill", before, site.flight(must_be_half_done=True))
        stage.require_proof(is_half_moved, "the release before had moved everything, or nothing")
        stage.require_proof(len(dirty) > 0, "the release before has left no dirty file")
        site.produce(stage.length.records)
        site.live(Kill(Moment(planned.place, planned.number)))
        dirty_files += len(_find_left(site)[1] - dirty)
        _require_readable(stage, site, lake)
        stage.drain(site)
        site.keep_house()
        site.produce(stage.length.records)
        stage.drain(site)
        _require_tidy(stage, site, lake)
        stage.settle(site, f"killed at {planned.place} {planned.number}")
    stage.require_proof(dirty_files > 0, "this release has left no dirty file")
    stage.notes.append(
        f"{dirty_files} dirty files of this release lay about when it was rolled back"
    )


def _require_readable(stage: Stage, site: MemorySite, lake: OldLake) -> None:
    """A release that may be rolled back writes what the one before can read."""
    paths = [found.path for found in site.machine.list(names.log_directory(NAME))]
    found = sorted({json.loads(site.machine.read(path))["format_version"] for path in paths})
    is_known = found[-1] <= lake.format_version
    stage.require(is_known, f"the release before cannot read formats {found}")


def _find_left(site: MemorySite) -> tuple[bool, set[str]]:
    """Return whether a batch is half moved, and the staged files that are of no batch."""
    with site.opened() as opened:
        moves = find_moves(plan_recover(opened))
    waiting = {place.pending for place in moves if site.machine.stat(place.pending) is not None}
    return 0 < len(waiting) < len(moves), set(_staged(site)) - waiting


def _require_tidy(stage: Stage, site: MemorySite, lake: OldLake) -> None:
    """Nothing that was staged is left, by neither release, and what was final is as it was."""
    left = sorted(_staged(site))
    stage.require(not left, f"dirty files were not cleaned up: {left}")
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
