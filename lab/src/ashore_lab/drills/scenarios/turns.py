"""Every storage call by turns: what `lost-answers` and `late-effects` have in common.

In each round a job has two lives on a lake of its own. The first is killed after one of its moves;
the second takes over, finishes, and lands what is left. One call of one of them is struck.
"""

from ashore_lab.drills.faults.calls import LIVES, to_fault
from ashore_lab.drills.plan import PlannedFault
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import KILLED, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.testing import StopProcess

BATCHES = 3
# In the midst of its moves: a batch has four files here.
FIRST_LIFE_ENDS = StopProcess(2, kind="publish", when="after")


def play_turns(stage: Stage) -> None:
    """Play all rounds, each on a lake of its own."""
    calls, struck = [0] * LIVES, [0] * LIVES
    for planned in stage.schedule:
        options = SiteOptions(batch_records=max(1, stage.length.records // BATCHES))
        site = stage.memory_site(options)
        site.produce(stage.length.records)
        life = int(planned.place.removeprefix("life "))
        _live_twice(stage, site, planned, life)
        for number, count in enumerate(site.calls[:LIVES]):
            calls[number] = max(calls[number], count)
        struck[life] = max(struck[life], planned.number)
        stage.settle(site, f"{planned.kind} at call {planned.number} of {planned.place}")
    for life in range(LIVES):
        reached = min(struck[life], calls[life])
        stage.notes.append(f"life {life}: calls 1 to {reached} of {calls[life]} were struck")


def _live_twice(stage: Stage, site: MemorySite, planned: PlannedFault, struck: int) -> None:
    first = [to_fault(planned)] if struck == 0 else []
    end = site.live(*first, FIRST_LIFE_ENDS)
    stage.require(end.code in (0, KILLED), f"life 0 ended with {end.code}: {end.message}")
    second = [to_fault(planned)] if struck == 1 else []
    end = site.live(*second)
    stage.require(end.code == 0, f"life 1 ended with {end.code}: {end.message}")
    site.pending.release()
    stage.drain(site)
    site.pending.release()  # what comes twice comes again when no writer is left
