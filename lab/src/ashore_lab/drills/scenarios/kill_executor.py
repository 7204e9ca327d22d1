"""Executors die while they write, first one, then two at once.

What they had half written lies about. Spark runs their tasks again on others; only files that a
task has reported are prepared, each once.
"""

import random
from collections.abc import Callable
from contextlib import ExitStack

from ashore.base.clock import SystemClock
from ashore.errors import fail
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Happens, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.sites.machines import Machines
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.real import RealSite
from ashore_lab.drills.sites.site import End, Site, SiteOptions
from ashore_lab.drills.stage import Stage
from ashore_lab.drills.verdict import Flight
from ashore_lab.testing import FailBefore

CLOCK = SystemClock()
BATCHES = 4  # of each round, which is one process
WORKERS = 2
STRIKES = {"an executor is killed": 1, "two executors are killed": 2}
AT_WORK_S_MAX = 5.0  # until tasks of a batch have begun their files
POLL_S = 0.01


def plan(dice: random.Random, length: Length) -> Schedule:
    """Kill one executor in one batch of each round, and two in a later one."""
    planned = []
    for index in range(length.rounds):
        batches = sorted(dice.sample(range(1, BATCHES), len(STRIKES)))
        planned += [
            PlannedFault(index, kind, "write", batch)
            for kind, batch in zip(STRIKES, batches, strict=True)
        ]
    return tuple(planned)


def play(stage: Stage) -> None:
    """Land round after round, each with one process that loses executors."""
    options = SiteOptions(partitions=4, batch_records=max(1, stage.length.records // BATCHES))
    site = stage.site(options)
    with ExitStack() as stack:
        live = _lives(site, stack)
        for index in range(stage.length.rounds):
            site.produce(stage.length.records)
            end = live([planned for planned in stage.schedule if planned.round == index])
            stage.require(end.code == 0, f"the job did not continue: {end.code}: {end.message}")
    struck, planned_count = stage.recorder.faults, len(stage.schedule)
    stage.require_proof(struck >= planned_count, f"{struck} of {planned_count} strikes came")


def _lives(site: Site, stack: ExitStack) -> Callable[[list[PlannedFault]], End]:
    """Return how a process of the job is run, with what is to strike it."""
    match site:
        case MemorySite():
            return lambda mine: site.live(*(each for one in mine for each in _in_memory(one)))
        case RealSite():
            machines = site.machines(WORKERS)
            machines.start_ahead(site)
            stack.enter_context(machines.used_by(site))
            return lambda mine: site.live(*(_on_machines(site, machines, one) for one in mine))
        case _:
            return fail("executors are killed in memory or for real")


def _on_machines(site: Site, machines: Machines, planned: PlannedFault) -> Happens:
    def strike() -> Flight:
        until_s = CLOCK.monotonic_s() + AT_WORK_S_MAX
        while not (flight := site.flight(must_be_half_done=True)).is_proof:
            if CLOCK.monotonic_s() > until_s:
                break
            CLOCK.sleep(POLL_S)
        machines.kill_executors(STRIKES[planned.kind])
        return flight

    return Happens(Moment(planned.place, planned.number), planned.kind, strike)


def _in_memory(planned: PlannedFault) -> list[FailBefore]:
    """Let tasks fail in the midst of a file, one after another."""
    first = 2 * planned.number
    return [FailBefore(first + each, "close") for each in range(STRIKES[planned.kind])]


DRILL = Drill(
    name="kill-executor",
    title="Executors are killed while they write: one, then two",
    shows="what an executor had half written is never visible; its tasks run again, once",
    short=Length(
        rounds=1,
        records=20_000,
        text="one, then two, 20,000 records, on a cluster; at length five times",
        is_real=True,
    ),
    long=Length(
        rounds=5,
        records=400_000,
        text="one, then two, five times, 400,000 records each, on a cluster",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.CLUSTER}),
)
