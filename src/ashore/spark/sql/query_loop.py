"""A query that is kept running: patience, stops, housekeeping.

What it is: `QueryLoop`, what `JobLoop` is for the slices of landed topics.
What it promises: an error that may pass is ridden out by a new start of the query, from its
checkpoint and its log; what stops it is raised at the end of `run`.
What it must not know: what the query computes.
"""

import threading

from ashore.errors import AshoreError, InvariantBroken, SyncFailed
from ashore.landing.archive import archive_log
from ashore.landing.janitor import apply_cleaning, plan_cleaning
from ashore.landing.job_loop import ARCHIVE_EVERY_S, TRIES_UNTIL_DRAINED, Rhythm
from ashore.landing.slice_loop import stops_slice
from ashore.protocol.names import ARCHIVE_ENTRIES
from ashore.spark.sql.query import SqlQuery
from ashore.storage.retry import Backoff


class QueryLoop:
    """One INSERT of a job, until it is drained, stopped or broken."""

    def __init__(self, query: SqlQuery, rhythm: Rhythm) -> None:
        self.query = query
        self._rhythm = rhythm
        self._sink = query.parts.sink
        self._stop = threading.Event()
        self._archived = 0  # whole archives of the log
        self._next_look_s = 0.0
        self._next_clean_s = 0.0  # at once: a batch that was killed may have left files

    def run(self) -> None:
        """Run to the end. Raises what the query cannot get over."""
        delays, tries, landed = Backoff(0.5, 30.0).delays_s(), 0, 0
        while not self._stop.is_set():
            try:
                self.query.run(self._keep_house, until_drained=self._rhythm.until_drained)
            except AshoreError as error:
                if self.query.batches_landed > landed:
                    delays, tries = Backoff(0.5, 30.0).delays_s(), 0
                    landed = self.query.batches_landed
                tries += 1
                in_vain = self._rhythm.until_drained and tries >= TRIES_UNTIL_DRAINED
                if stops_slice(error) or in_vain:
                    raise
                self._tell(error.message)
                self._stop.wait(next(delays))
                continue
            if self._rhythm.until_drained:
                break

    def stop(self) -> None:
        """Ask for an orderly stop. May be called from a signal handler, once or often."""
        self._stop.set()
        self.query.stop()

    # ---- off the commit path, while batches run

    def _keep_house(self) -> None:
        """Archive and clean, where it is time. Called often, by the thread that waits."""
        clock = self._sink.parts.clock
        if clock.monotonic_s() < self._next_look_s:
            return
        self._next_look_s = clock.monotonic_s() + ARCHIVE_EVERY_S
        try:
            whole = self._sink.fold.base // ARCHIVE_ENTRIES
            if whole > self._archived:
                archive_log(self._sink.parts.storage, self.query.name)
                self._archived = whole
            if clock.monotonic_s() >= self._next_clean_s:
                self._next_clean_s = clock.monotonic_s() + self._rhythm.clean_every_s
                self._clean()
        except (InvariantBroken, SyncFailed):
            raise
        except AshoreError as error:
            self._tell(f"housekeeping: {error.message}")

    def _clean(self) -> None:
        storage, table = self._sink.parts.storage, self._sink.plan.table
        tables = [table] if table else []
        now_and_ttl = (self._sink.parts.clock.now_ms(), self._rhythm.clean_ttl_ms)
        steps = plan_cleaning(storage, self.query.name, self._sink.fold, tables, now_and_ttl)
        apply_cleaning(storage, steps)
        self.query.plan.roots.clean(self._sink.fold.epoch, *now_and_ttl)

    def _tell(self, message: str) -> None:
        self._sink.parts.progress.trouble(self.query.name.slice, message)
