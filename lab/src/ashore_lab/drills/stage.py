"""What a scenario has in its hands.

What it is: `Stage`: the length and the schedule, sites to play on, and a way to say what was
expected and did not happen.
What it promises: every site that was asked for is checked, by itself, once. A scenario cannot turn
a drill green: it can only add problems and doubts.
"""

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace

from ashore.base.clock import Clock
from ashore.errors import AshoreError, fail
from ashore.log import names
from ashore.log.entries import Entry, Prepare
from ashore.log.store.reader import read_history
from ashore.storage.base import Storage
from ashore_lab.drills.checkers.exactly_once import Account, check_exactly_once, find_visible
from ashore_lab.drills.checkers.sealed import check_sealed
from ashore_lab.drills.faults import JobFault
from ashore_lab.drills.plan import Length, Schedule
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.memory import MemorySite
from ashore_lab.drills.sites.site import NAME, Site, SiteOptions
from ashore_lab.testing import FakeClock

NAMED_MAX = 5
PROBLEMS_MAX = 50
DAY_MS = 86_400_000
LIVES_MIN = 3  # of a job that is started again
LIFE_S = 5.0  # that a process tries for, at least, before it gives up
PAUSE_S_MAX = 20.0  # of a supervisor, before it starts a process again
PAUSES = 30  # in an outage, if each process gave up at once

RealSites = Callable[[int, SiteOptions, Recorder], Site]


class Stage:
    """One drill being played. Used by the thread that plays it."""

    def __init__(
        self,
        plan: tuple[int, Length, Schedule],
        clock: Clock,
        recorder: Recorder,
        real_sites: RealSites | None,
    ) -> None:
        self.seed, self.length, self.schedule = plan
        self.recorder = recorder
        self.problems: list[str] = []
        self.doubts: list[str] = []
        self.notes: list[str] = []
        self.accounts: list[Account] = []
        self.read_twice: int | None = None
        self._clock = clock
        self._real_sites = real_sites
        self._open: list[Site] = []
        self._made = 0

    # ---- for scenarios

    def site(self, options: SiteOptions | None = None) -> Site:
        """Return a new site, real or in memory as the length says."""
        options = self._sealing(options or SiteOptions())
        if not self.length.is_real:
            return self.memory_site(options)
        if self._real_sites is None:
            fail("a real drill needs real servers")
        options = replace(options, has_spark=self.length.has_spark)
        return self._take(self._real_sites(self._next_seed(), options, self.recorder))

    def memory_site(self, options: SiteOptions | None = None) -> MemorySite:
        """Return a new site in memory, whatever the length says."""
        options = self._sealing(options or SiteOptions())
        clock = self._clock
        if not isinstance(clock, FakeClock):
            clock = FakeClock(monotonic_start_s=0.0)
        site = MemorySite(self._next_seed(), options, clock, self.recorder)
        self._take(site)
        return site

    def _sealing(self, options: SiteOptions) -> SiteOptions:
        """Let the records of a round be of two days, unless the drill has partitions of its own."""
        if options.twin_of is not None:
            return replace(options, spacing_ms=options.twin_of.produced.workload.spacing_ms)
        if "partition_by" in options.table:
            return options
        return replace(options, spacing_ms=2 * DAY_MS // max(self.length.records, 1))

    def drain(self, site: Site) -> None:
        """Run one process of the job without a fault: it must land what is left, and end well."""
        end = site.live()
        self.require(end.code == 0, f"the last process ended with {end.code}: {end.message}")

    def ride_out(self, site: Site, *faults: JobFault, within_s: float) -> None:
        """Run the job; a supervisor starts it again when it dies or gives up.

        Until all has landed: red where it has not when the outages should be over.
        """
        end = site.live(*faults)
        for _ in range(LIVES_MIN + int(within_s / LIFE_S)):
            if end.code == 0:
                break
            self._clock.sleep(min(within_s / PAUSES, PAUSE_S_MAX))
            end = site.live()
        self.require(end.code == 0, f"the job did not continue: {end.code}: {end.message}")

    def together(self, *actions: Callable[[], None]) -> None:
        """Do things at the same time; in memory, where there is one clock, one after the other."""
        with ThreadPoolExecutor(len(actions) if self.length.is_real else 1) as pool:
            for done in [pool.submit(each) for each in actions]:
                done.result()

    def require(self, condition: bool, problem: str) -> None:
        """Turn the drill red unless `condition` holds."""
        if not condition and len(self.problems) < PROBLEMS_MAX:
            self.problems.append(problem)

    def require_proof(self, condition: bool, doubt: str) -> None:
        """Keep the drill from being green unless `condition` holds."""
        if not condition and len(self.doubts) < PROBLEMS_MAX:
            self.doubts.append(doubt)

    def count_read_twice(self, site: Site, budget: float) -> None:
        """Enter what was read twice on a site; more than this share of all is a problem."""
        with site.opened() as opened:
            self.read_twice = count_read_twice(read_history(opened.storage, NAME))
        share = self.read_twice / max(site.produced.total, 1)
        self.notes.append(f"read twice: {share:.2%} at most, of a budget of {budget:.2%}")
        self.require(share <= budget, f"{share:.2%} were read twice; the budget is {budget:.2%}")

    def settle(self, site: Site, what: str = "") -> Account:
        """Check a site and close it: nothing happens there afterwards."""
        self._open.remove(site)
        with ExitStack() as stack:
            stack.callback(site.close)
            site.mend()
            opened = stack.enter_context(site.opened())
            self.recorder.sample(site.produced.total, site.landed())
            account = check_exactly_once(opened, site.produced, site.table)
            registered = site.registered()
            if registered is not None:
                for problem in check_registered(opened.storage, site.table, registered):
                    self.require(False, problem)
            self._check_sealed(opened.storage, site)
        self.recorder.settled()
        self.accounts.append(account)
        where = f"{what}: " if what else ""
        for problem in account.problems:
            self.require(False, f"{where}{problem}")
        for doubt in account.doubts:
            self.require_proof(False, f"{where}{doubt}")
        return account

    def _check_sealed(self, storage: Storage, site: Site) -> None:
        if not site.produced.workload.spacing_ms:
            return
        found = check_sealed(storage, NAME, site.produced, site.table)
        for problem in found.problems:
            self.require(False, problem)
        self.require_proof(found.partitions > 0, "no partition was complete and sealed")

    # ---- for the engine

    def settle_all(self) -> None:
        """Check every site that the scenario has left."""
        for site in self._left():
            self.settle(site)

    def abandon(self) -> None:
        """Close every site, after a failure."""
        for site in self._left():
            self._open.remove(site)
            site.close()

    def _left(self) -> Sequence[Site]:
        return list(self._open)

    def _take(self, site: Site) -> Site:
        self._open.append(site)
        return site

    def _next_seed(self) -> int:
        self._made += 1
        return self.seed * 1_000 + self._made


def count_read_twice(entries: Iterable[Entry]) -> int:
    """Return how many records may have been fetched twice: an upper bound, from the log alone.

    Of a process that was killed at most the batch under way is read again, and that is the first
    one that its successor prepares.
    """
    twice, known = 0, None
    for entry in entries:
        if isinstance(entry.body, Prepare) and entry.epoch != known:
            if known is not None:
                twice += sum(read.fetched for read in entry.body.shards)
            known = entry.epoch
    return twice


def check_registered(storage: Storage, table: str, registered: Mapping[str, str]) -> list[str]:
    """Return partitions with files that readers of the metastore do not find, and the reverse.

    Compares directories with visible files, by listing alone. Never raises for what it finds.

    Arguments:
        storage: the lake.
        table: `database.name`.
        registered: where the metastore says that each partition is, below the lake.

    """
    try:
        files = list(find_visible(storage, names.table_path(table)))
    except AshoreError as error:
        return [f"{table} cannot be listed: {error.message}"]
    there = {posixpath.dirname(path) for path in files}
    known = set(registered.values())
    kinds = (("not registered", there - known), ("registered without files", known - there))
    return [
        f"{kind}: {len(found)} partitions of {table} ({', '.join(sorted(found)[:NAMED_MAX])})"
        for kind, found in kinds
        if found
    ]
