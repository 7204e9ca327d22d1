"""All slices of a job, side by side: rhythm, patience, stops, housekeeping.

What it is: `JobLoop`: opens every slice, then runs each in a thread of its own.
What it promises: slices fail alone: what stops one does not stop the others. A stop is orderly:
the batch under way is finished, or cancelled at half of the grace, and the last entry closed.
What it must not know: Spark.
"""

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import AshoreError, InvariantBroken, SyncFailed
from ashore.landing.archive import archive_log
from ashore.landing.batch import BatchRunner
from ashore.landing.committer import Progress
from ashore.landing.janitor import apply_cleaning, plan_cleaning
from ashore.landing.probe import probe_lake
from ashore.landing.slice_loop import SliceLoop, Tick, stops_slice
from ashore.protocol.names import ARCHIVE_ENTRIES, SliceName
from ashore.storage.base import Storage
from ashore.storage.retry import Backoff

ARCHIVE_EVERY_S = 30.0
CANCEL_AGAIN_S = 1.0
TRIES_UNTIL_DRAINED = 10  # of `--available-now`: a job that is to end cannot wait for ever


@dataclass(frozen=True, slots=True)
class Rhythm:
    """When a job does what."""

    interval_s: float
    clean_every_s: float
    clean_ttl_ms: int
    grace_s: float
    until_drained: bool  # end when everything that was there has landed


@dataclass(frozen=True, slots=True)
class JobParts:
    """What the slices of a job share."""

    storage: Storage
    clock: Clock
    progress: Progress
    tables: Callable[[], Sequence[str]]


class JobLoop:
    """Runs slices until they are drained, stopped or broken."""

    def __init__(self, slices: Sequence[SliceLoop], rhythm: Rhythm, parts: JobParts) -> None:
        self._slices = slices
        self._rhythm = rhythm
        self._parts = parts
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._failures: list[BaseException] = []
        self._archived: dict[SliceName, int] = {}  # whole archives of each slice's log

    def run(self, probe: BatchRunner | None = None) -> None:
        """Run to the end. Raises what stopped the first slice that broke, after all have ended.

        With `probe` the lake is tried out by an executor before the first batch.
        """
        try:
            self._begin(probe)
            self._run_all()
        finally:
            self._stop.set()
            self._ended.set()
        if self._failures:
            raise self._failures[0]

    def stop(self) -> None:
        """Ask for an orderly stop. May be called from a signal handler, once or often."""
        self._stop.set()
        threading.Thread(target=self._cancel_late, name="grace", daemon=True).start()

    def _cancel_late(self) -> None:
        """Cancel what is unfinished at half of the grace, unless all has ended by then."""
        delay_s = self._rhythm.grace_s / 2
        while not self._ended.wait(delay_s):
            for each in self._slices:
                each.parts.runner.cancel()
            delay_s = CANCEL_AGAIN_S  # a batch may just have been on its way to its executors

    def _begin(self, probe: BatchRunner | None) -> None:
        for each in self._slices:
            each.plan.streams()  # claims the tables before anything is written
            each.open()
        if probe is not None:
            for each in self._slices:
                probe_lake(self._parts.storage, probe, each.plan.name, self._parts.tables())

    def _run_all(self) -> None:
        threads = [
            threading.Thread(target=self._guard, args=(each,), name=f"slice-{each.plan.name.slice}")
            for each in self._slices
        ]
        keeper = threading.Thread(target=self._guard_house, name="housekeeping", daemon=True)
        for thread in (*threads, keeper):
            thread.start()
        for thread in threads:
            thread.join()
        self._stop.set()
        keeper.join(timeout=1.0)

    # ---- one slice

    def _guard(self, each: SliceLoop) -> None:
        """Run a slice and keep what it raises: it must not take the others along."""
        try:
            self._run(each)
        except AshoreError as error:
            self._failures.append(error)
            self._parts.progress.trouble(each.plan.name.slice, f"stopped: {error.message}")
        except Exception as error:  # noqa: BLE001 - a thread's last line: it is raised by `run`
            self._failures.append(error)
            self._parts.progress.trouble(each.plan.name.slice, f"broke: {error!r}")

    def _run(self, each: SliceLoop) -> None:
        clock, delays, tries = self._parts.clock, Backoff(0.5, 30.0).delays_s(), 0
        while not self._stop.is_set():
            began_s = clock.monotonic_s()
            try:
                tick = each.tick()
            except AshoreError as error:
                tries += 1
                drained_in_vain = self._rhythm.until_drained and tries >= TRIES_UNTIL_DRAINED
                if stops_slice(error) or drained_in_vain:
                    raise
                if self._stop.is_set():
                    break
                self._parts.progress.trouble(each.plan.name.slice, error.message)
                self._stop.wait(next(delays))
                continue
            delays, tries = Backoff(0.5, 30.0).delays_s(), 0
            if tick is not Tick.BEHIND:
                if self._rhythm.until_drained:
                    break
                spent_s = clock.monotonic_s() - began_s
                self._stop.wait(max(0.0, self._rhythm.interval_s - spent_s))
        each.close("drained" if self._rhythm.until_drained else "stop")

    # ---- off the commit path

    def _guard_house(self) -> None:
        """Keep house. What is no trouble but a bug stops the job: it must not go unseen."""
        try:
            self._keep_house()
        except Exception as error:  # noqa: BLE001 - a thread's last line: it is raised by `run`
            self._failures.append(error)
            self._parts.progress.trouble("", f"housekeeping broke: {error!r}")
            self._stop.set()

    def _keep_house(self) -> None:
        next_clean_s = self._parts.clock.monotonic_s() + self._rhythm.clean_every_s
        while not self._stop.wait(min(ARCHIVE_EVERY_S, self._rhythm.clean_every_s)):
            is_clean_due = self._parts.clock.monotonic_s() >= next_clean_s
            if is_clean_due:
                next_clean_s += self._rhythm.clean_every_s
            for each in self._slices:
                try:
                    self._keep(each, is_clean_due)
                except (InvariantBroken, SyncFailed):
                    raise
                except AshoreError as error:
                    slice_name = each.plan.name.slice
                    self._parts.progress.trouble(slice_name, f"housekeeping: {error.message}")

    def _keep(self, each: SliceLoop, is_clean_due: bool) -> None:
        name, fold = each.plan.name, each.parts.log.fold
        whole = fold.base // ARCHIVE_ENTRIES
        if whole > self._archived.get(name, 0):
            archive_log(self._parts.storage, name)
            self._archived[name] = whole
        if is_clean_due:
            now_and_ttl = (self._parts.clock.now_ms(), self._rhythm.clean_ttl_ms)
            steps = plan_cleaning(
                self._parts.storage, name, fold, self._parts.tables(), now_and_ttl
            )
            apply_cleaning(self._parts.storage, steps)
