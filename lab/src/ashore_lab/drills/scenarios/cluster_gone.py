"""A rack burned: master, workers, and the machine of the driver with all that it had on its disk.

A batch had been prepared, and not all of its files moved. There is no checkpoint to look for. The
same job file, copied to another directory of another cluster, continues from the log on the lake.
"""

import random
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack

from ashore.log.entries import Prepare
from ashore.log.plan_commit import find_moves
from ashore.log.store.reader import read_log
from ashore.topics.use.recover import plan_recover
from ashore_lab.drills.drill import Drill
from ashore_lab.drills.faults import Happens, Kill, Moment
from ashore_lab.drills.plan import Length, PlannedFault, Schedule, Server
from ashore_lab.drills.sites.machines import Machines
from ashore_lab.drills.sites.real import RealSite
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.drills.stage import Stage

BATCHES = 3
WORKERS = 1
KIND = "cluster gone"


def plan(_dice: random.Random, length: Length) -> Schedule:
    """Lose everything once in each round, when one of its batches is prepared and not closed."""
    return tuple(
        PlannedFault(index, KIND, "move", 1 + index % (BATCHES - 1))
        for index in range(length.rounds)
    )


def play(stage: Stage) -> None:
    """Land on one cluster after another; only the lake and the broker stay."""
    options = SiteOptions(
        batch_records=max(1, stage.length.records // BATCHES),
        table={"partition_by": ["text"]},  # a file a record: moving takes its time
    )
    site = stage.site(options)
    with ExitStack() as stack:
        clusters = (
            _Clusters(site, stack, stage.length.rounds) if isinstance(site, RealSite) else None
        )
        for planned in stage.schedule:
            site.produce(stage.length.records)
            at = Moment(planned.place, planned.number)
            if clusters is None or not isinstance(site, RealSite):
                site.live(Kill(at))
            else:
                machines = clusters.take()
                with machines.used_by(site):
                    site.live(Kill(at), Happens(at, KIND, machines.destroy))
            _look(stage, site)
        if clusters is not None and isinstance(site, RealSite):
            stack.enter_context(clusters.take().used_by(site))
        stage.drain(site)


class _Clusters:
    """One cluster after another: while one is at work, the next is started elsewhere.

    A process of the job waits there, and has not looked at the lake.
    """

    def __init__(self, site: RealSite, stack: ExitStack, losses: int) -> None:
        self._site = site
        self._losses_left = losses
        self._pool = stack.enter_context(ThreadPoolExecutor(1))
        self._next = self._start()

    def take(self) -> Machines:
        """Return a cluster that is up."""
        machines = self._next.result()
        if self._losses_left:
            self._losses_left -= 1
            self._next = self._start()
        return machines

    def _start(self) -> Future[Machines]:
        def start() -> Machines:
            machines = self._site.machines(WORKERS)
            machines.start_ahead(self._site)
            return machines

        return self._pool.submit(start)


def _look(stage: Stage, site: Site) -> None:
    """Note how far the moves were when everything was lost."""
    with site.opened() as opened:
        unclosed = read_log(opened.storage, NAME).unclosed
        is_prepared = unclosed is not None and isinstance(unclosed.body, Prepare)
        moves = find_moves(plan_recover(opened))
        left = sum(opened.storage.stat(place.pending) is not None for place in moves)
        stage.require_proof(is_prepared and left > 0, "nothing was left to move")
        stage.notes.append(f"{left} of {len(moves)} prepared files were not yet moved")


DRILL = Drill(
    name="cluster-gone",
    title="Cluster and driver are destroyed between prepare and move",
    shows="any machine that sees the lake can continue, from another directory of another cluster",
    short=Length(
        rounds=1,
        records=750,
        text="one cluster after another, 750 records; at length four are lost",
        is_real=True,
    ),
    long=Length(
        rounds=4,
        records=3_000,
        text="4 clusters are lost, 3,000 records each",
        is_real=True,
        rounds_per_minute=1,
    ),
    plan=plan,
    play=play,
    needs=frozenset({Server.SMALL_CLUSTERS}),
)
