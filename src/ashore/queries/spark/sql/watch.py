"""A streaming query from its start to its end, in the thread of its turn.

What it is: `StreamWatch`, which waits for the end of a query. Meanwhile it reports progress and
records that were left out, runs deferred actions, cleans older files, and lists the files again
that SQL reads as a table (`Refresher`).
What it promises: an error of a batch is raised as it was, not as Spark reports it. Nothing waits
for a listing, however long a NameNode takes.
"""

import threading
from collections.abc import Callable
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import StreamingQuery

from ashore.base.clock import Clock
from ashore.errors import AshoreError, Fenced
from ashore.jobs.file.source_text import Place
from ashore.queries.spark.internals.reading import reads_files, refresh_files
from ashore.queries.spark.sql.batches import POLL_S, QueryBatches, RunAgain
from ashore.queries.spark.sql.memory import no_answer
from ashore.queries.spark.sql.progress import Inputs, Reported, report
from ashore.queries.spark.sql.refusals import explain_failure
from ashore.queries.spark.sql.row_errors import RowError
from ashore.queries.state.cleaner import CheckpointCleaner
from ashore.topics.loop.housekeeping import Housekeeping
from ashore.topics.run.spark.causes import outermost_cause


class StreamWatch:
    """What is done beside the batches of a query while it runs."""

    def __init__(self, batches: QueryBatches) -> None:
        self.batches = batches
        self.plan, self.parts, self.name = batches.plan, batches.parts, batches.name
        self.left: int | None = None  # the last epoch of this process, once nothing of it runs
        self._next_idle_s = 0.0
        around = self.parts.environment
        self._cleaner = CheckpointCleaner(self.name.slice, around.clock, around.progress)
        self._housekeeping = self._open_house()

    def wait(self, query: StreamingQuery, frame: DataFrame) -> None:
        """Wait for the end of the query. Raises as `SqlQuery.tick`."""
        views = (view for view in self.plan.read_views if view.has_watermark)
        delays_ms = {view.name: view.spec.late.after_ms for view in views}
        reported = Reported(Inputs(delays_ms, self.batches.passed_ms))
        clock, refresh_s = self.parts.environment.clock, self.plan.refresh_ms / 1000
        refresher = Refresher(frame, refresh_s, clock, self.parts.say)
        try:
            while not query.awaitTermination(POLL_S):
                self._report(query, reported)
                self._housekeeping.tick()
                self._cleaner.step()
                refresher.tick()
                self._idle()
                if self.batches.is_stopping:
                    self.batches.let_batch_end()
                    query.stop()
            self._report(query, reported)
        except PySparkException as error:
            if self.batches.is_stopping and not isinstance(self.batches.failure, Fenced):
                return
            if isinstance(self.batches.failure, AshoreError | RunAgain):
                raise self.batches.failure from error
            raise explain_failure(
                str(self.name), error, self.batches.failure, self._locate
            ) from error
        except (Py4JError, ConnectionError) as error:
            with self.batches.under_way:  # which may be finding out why
                raise no_answer(self.name, error, self.batches.failure) from error
        finally:
            with suppress(Py4JError, ConnectionError):  # of a JVM that has ended
                query.stop()
            self._cleaner.end()
            self.left = self.parts.sink.fold.epoch

    def _locate(self, found: RowError) -> Place:
        return self.plan.script.locate(found.view, found.line, found.column, self.plan.insert)

    def _open_house(self) -> Housekeeping:
        """Return what packs and cleans, while a run of the query has its attempt.

        At once, at first: a batch that was killed may have left files.
        """
        sink, around = self.parts.sink, self.parts.environment
        tables = sink.plan.output.tables if sink.plan.output else ()
        return Housekeeping(
            sink.log,
            self.parts.clean,
            storage=around.storage,
            clock=around.clock,
            progress=around.progress,
            tables=lambda: tables,
            cleans_first=True,
            clean_more=self._clean,
        )

    def _clean(self, now_ms: int, ttl_ms: int) -> None:
        self.plan.attempts.clean(self.parts.sink.fold.epoch, now_ms, ttl_ms)
        self._cleaner.begin(self.batches.checkpoint, now_ms, ttl_ms)

    def _idle(self) -> None:
        """Between batches, once an interval: run deferred actions, look whether the log is ours."""
        clock = self.parts.environment.clock
        if clock.monotonic_s() < self._next_idle_s:
            return
        self._next_idle_s = clock.monotonic_s() + self.plan.interval_ms / 1000
        if self.batches.under_way.acquire(blocking=False):
            try:
                self.parts.sink.idle()
            finally:
                self.batches.under_way.release()

    def _report(self, query: StreamingQuery, reported: Reported) -> None:
        before = reported.last
        for message in report(query, reported):
            self.parts.say(message)
        if reported.last is not None and reported.last is not before:
            self.parts.environment.progress.query(self.name.slice, reported.last)


class Refresher:
    """Lists the files of a frame again, once an interval. `tick` is called by one thread.

    `say`: takes a sentence, from another thread.
    """

    def __init__(
        self, frame: DataFrame, interval_s: float, clock: Clock, say: Callable[[str], None]
    ) -> None:
        self._frame = frame
        self._interval_s = interval_s
        self._clock = clock
        self._say = say
        self._is_needed = reads_files(frame)
        self._next_s = clock.monotonic_s() + interval_s
        self._listing = threading.Thread()

    def tick(self) -> None:
        """Begin a listing where it is time, unless the one before is still under way."""
        is_time = self._clock.monotonic_s() >= self._next_s
        if not self._is_needed or not is_time or self._listing.is_alive():
            return
        self._next_s = self._clock.monotonic_s() + self._interval_s
        self._listing = threading.Thread(target=self._list, name="ashore-refresh", daemon=True)
        self._listing.start()

    def _list(self) -> None:
        try:
            refresh_files(self._frame)
        except (PySparkException, Py4JError) as error:
            why = outermost_cause(error)
            self._say(f"files that SQL reads cannot be listed, so the previous list is used: {why}")
