"""A query that is kept running: patience, stops, housekeeping.

What it is: `QueryLoop`, what `JobLoop` is for the slices of landed topics.
What it promises: an error that may pass is ridden out by a new start of the query, from its
checkpoint and its log; what stops it is raised at the end of `run`.
What it must not know: what the query computes.
"""

import threading
from collections.abc import Callable

from ashore.errors import AshoreError
from ashore.landing.job_loop import TRIES_UNTIL_DRAINED, Rhythm
from ashore.landing.slice_loop import stops_slice
from ashore.spark.sql.query import SqlQuery
from ashore.storage.retry import Backoff


class QueryLoop:
    """One INSERT of a job, until it is drained, stopped or broken."""

    def __init__(self, query: SqlQuery, rhythm: Rhythm, keep_house: Callable[[], None]) -> None:
        self.query = query
        self._rhythm = rhythm
        self._keep_house = keep_house
        self._stop = threading.Event()

    def run(self) -> None:
        """Run to the end. Raises what the query cannot get over."""
        delays, tries, landed = Backoff(0.5, 30.0).delays_s(), 0, 0
        while not self._stop.is_set():
            try:
                self._keep_house()
                self.query.run(until_drained=self._rhythm.until_drained)
            except AshoreError as error:
                if self.query.batches_landed > landed:
                    delays, tries, landed = (
                        Backoff(0.5, 30.0).delays_s(),
                        0,
                        self.query.batches_landed,
                    )
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

    def _tell(self, message: str) -> None:
        self.query.parts.sink.parts.progress.trouble(self.query.name.slice, message)
