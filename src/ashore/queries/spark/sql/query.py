"""One INSERT as a query of Structured Streaming, from its start to its end.

What it is: `SqlQuery`. A turn opens the sink, compares the checkpoint with the log, starts the
query and waits for it; for each batch Spark calls back, and the sink says what becomes of the rows.
What it promises: nothing is started where checkpoint and log do not belong together. An error of a
batch is raised as it was, not as Spark tells it.
"""

import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ashore.errors import AshoreError, BatchFailed, Fenced, StreamReplaced
from ashore.jobs.file.source_text import Place
from ashore.log.names import query_source
from ashore.log.plan_query import NO_BATCH, QueryBatch
from ashore.log.positions import ShardRange, StreamShard
from ashore.log.query import Letter, choose_letters, merge_letters
from ashore.log.query_history import LandedBatch
from ashore.log.store.log import LandingLog
from ashore.plans.operators import keeps_state
from ashore.plans.version import digest_version, write_version
from ashore.queries.spark.internals import count_observed, move_marks, read_marks, read_time_inputs
from ashore.queries.spark.sql.bad_rows import (
    AsideBatch,
    AsideParts,
    AsideWriter,
    Computed,
    LeftOutError,
)
from ashore.queries.spark.sql.catch_up import write_offsets
from ashore.queries.spark.sql.frames import PlannedFrame, QueryPlan, open_frame
from ashore.queries.spark.sql.idleness import IdleInputs
from ashore.queries.spark.sql.limits import measure_records, plan_limits, read_sizes
from ashore.queries.spark.sql.memory import no_answer, out_of_memory
from ashore.queries.spark.sql.progress import Inputs, Reported, report
from ashore.queries.spark.sql.ranges import plan_ranges
from ashore.queries.spark.sql.refresher import Refresher
from ashore.queries.spark.sql.refusals import explain_failure, explain_plan, refuse
from ashore.queries.spark.sql.row_errors import RowError
from ashore.queries.spark.sql.row_writer import land_frame, run_tasks
from ashore.queries.spark.sql.sources import check_sources
from ashore.queries.spark.sql.start_checks import hold_checkpoint, hold_plan
from ashore.queries.spark.sql.topics import send_rows
from ashore.queries.spark.sql.versions import describe_version, name_releases, state_form
from ashore.queries.spark.sql.views import sum_counts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.cleaner import CheckpointCleaner
from ashore.queries.state.source_changes import read_begun
from ashore.queries.state.versions import copy_version
from ashore.topics.loop.housekeeping import CleanRule, House, Housekeeping
from ashore.topics.loop.joins import (
    EARLIEST,
    begin_at,
    check_streams,
    find_replaced,
    look_again,
    plan_join,
    require_streams,
)
from ashore.topics.loop.query_sink import BegunBatch, QuerySink
from ashore.topics.loop.worker import Tick
from ashore.topics.read.base import FirstOffset, Source, StreamInfo
from ashore.topics.read.columns import KafkaAddress
from ashore.topics.run.spark.task import RESULT_DDL, drop_rows

POLL_S = 1.0
LOOK_S = 0.05  # whether Spark has committed a batch that is over
COMMITTED_WITHIN_S = 10.0
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class QueryParts:
    """What a query works with."""

    spark: SparkSession
    kafka: KafkaAddress
    source: Source
    sink: QuerySink
    clean: CleanRule


class _RunAgain(Exception):
    """A batch is run again, without records that the log has named since it was begun."""


class SqlQuery:
    """One INSERT: a Worker, whose turns are runs of a streaming query.

    Arguments:
        plan: what the query is.
        parts: what it works with.
        sources: the topics of each stream that it reads, in the order of Spark's plan.

    """

    def __init__(
        self, plan: QueryPlan, parts: QueryParts, sources: Sequence[Sequence[str]]
    ) -> None:
        self.plan = plan
        self.parts = parts
        self.name = parts.sink.plan.name
        self._sources = sources
        self._topics = sorted({topic for topics in sources for topic in topics})
        self._checkpoint = plan.attempts.attempt(1)  # until a turn has taken one
        self._left: int | None = None  # the last epoch of this process, once nothing of it runs
        self._in_batch = threading.Lock()
        self._is_stopping = threading.Event()
        self._finishes = False  # a stop waits for the batch under way as long as it takes
        self._failure: BaseException | None = None
        self._reading: Sequence[ShardRange] = ()  # of the batch under way
        self._past: dict[int, str] = {}  # lineages of batches that run again
        self._landed = 0
        self._ran = NO_BATCH  # the last batch of this checkpoint that came to its end
        self._copied: tuple[int, str] | None = None  # the version that this attempt has a copy of
        self._frame: DataFrame | None = None  # that the query runs
        self._keeps_state = True  # so that a batch runs again for it
        self._left_out: tuple[Letter, ...] = ()  # of batches that run again, and of those to come
        self._idle_inputs: IdleInputs | None = None
        self._passed_ms: dict[str, int] = {}  # watermarks of views that were idle
        self._next_idle_s = 0.0
        sink = parts.sink.parts
        self._cleaner = CheckpointCleaner(self.name.slice, sink.clock, sink.progress)
        self._housekeeping = self._open_house()

    @property
    def log(self) -> LandingLog:
        """See Worker."""
        return self.parts.sink.parts.log

    @property
    def batches_landed(self) -> int:
        """See Worker."""
        return self._landed

    def open(self) -> None:
        """See Worker. Each turn begins with it."""

    def close(self, reason: str) -> None:
        """See Worker. Each batch is closed before Spark hears of its end."""

    def tick(self) -> Tick:
        """Run until stopped; or until what was there has been read, where the plan says so.

        Raises CheckpointUnfit, QueryRefused, HistoryTruncated, OffsetsWentBack, Fenced, LogError,
        StorageError, SourceError, BatchFailed.
        """
        while True:
            try:
                self._run_once()
            except _RunAgain as found:
                self._say(str(found))
                # In a copy of the checkpoint: nothing that the batch has left in this one counts.
                self._left = None
            else:
                return Tick.IDLE

    def _run_once(self) -> None:
        sink = self.parts.sink
        sink.open()
        behind = self._take_checkpoint()
        position = self._checkpoint.read_position()
        check_sources(self.name, self._sources, self._checkpoint.read_ends(position.planned))
        self._join()
        sink.check_histories()
        frame = self._open_frame(behind)
        self._past = {number: each.query.lineage for number, each in behind.items()}
        if behind:
            self._catch_up(frame, behind)
        interval = f"{self.plan.interval_ms} milliseconds"
        writer = self._writer(frame)
        self._start(
            frame,
            writer.trigger(availableNow=True)
            if self.plan.until_drained
            else writer.trigger(processingTime=interval),
        )
        self.plan.attempts.release(sink.fold.epoch)

    def _writer(self, frame: DataFrame) -> DataStreamWriter:
        return (
            frame.writeStream.queryName(str(self.name))
            .option("checkpointLocation", self._checkpoint.uri)
            .outputMode(self.plan.mode)
            .foreachBatch(self._run_batch)
        )

    def _start(self, frame: DataFrame, writer: DataStreamWriter) -> None:
        """Start the query and wait for its end."""
        self._failure = None
        if self._is_stopping.is_set():
            return
        self._move_mark(self._checkpoint.read_position().committed)
        self._frame = frame
        self._passed_ms = {}
        self._idle_inputs = IdleInputs(
            read_time_inputs(frame), self._patience_s(), self._monotonic_s()
        )
        self._left = None
        try:
            query = writer.start()
        except (PySparkException, Py4JError) as error:
            place = self.plan.script.find(error, self.plan.insert)
            why = refuse if isinstance(error, PySparkException) else explain_plan
            raise why(error, self.plan.insert.table, place) from error
        self._wait(query, frame)

    def stop(self, *, finishes: bool = False) -> None:
        """See Worker. The batch under way is waited for, as long as the plan says."""
        self._finishes = finishes
        self._is_stopping.set()

    def cancel(self) -> None:
        """See Worker. `stop` waits no longer than it may."""

    def between_batches(self, act: Callable[[Checkpoint], R]) -> R:
        """Wait for the batch under way, and call `act` with the checkpoint before the next one.

        By any thread. The next batch waits until `act` has returned. Spark has committed the one
        before, unless that took it longer than COMMITTED_WITHIN_S, or its query has failed.
        Raises StorageError, CheckpointUnfit, and what `act` raises.
        """
        with self._in_batch:
            self._wait_for_commit()
            return act(self._checkpoint)

    def _wait_for_commit(self) -> None:
        """Wait until the checkpoint calls the last batch done: Spark says so after the batch."""
        until_s = self._monotonic_s() + COMMITTED_WITHIN_S
        while self._checkpoint.read_position().committed < self._ran:
            if self._monotonic_s() > until_s:
                return
            self.parts.sink.parts.clock.sleep(LOOK_S)

    # ---- before the start

    def _take_checkpoint(self) -> dict[int, LandedBatch]:
        """Take the newest checkpoint, or a copy of it, and compare it with the log.

        Returns the batches that it is behind its table, with the one before; none where it is not.
        Raises CheckpointUnfit: nothing is copied.
        """
        attempts, epoch = self.plan.attempts, self.parts.sink.fold.epoch
        self._hold_against_log(attempts.newest() or attempts.attempt(epoch))
        self._checkpoint = attempts.take(epoch, is_mine=self._left == epoch - 1)
        self._left, self._ran = epoch, NO_BATCH
        return self._hold_against_log(self._checkpoint)

    def _hold_against_log(self, checkpoint: Checkpoint) -> dict[int, LandedBatch]:
        sink = self.parts.sink
        return hold_checkpoint(self.plan, self.name, sink.fold, checkpoint, sink.parts.storage)

    def _open_frame(self, behind: Mapping[int, LandedBatch]) -> DataFrame:
        """Return what the query runs, without what its log leaves out. Raises QueryRefused.

        `behind`: batches that run again first.
        """
        parts, sink = self.parts, self.parts.sink
        bounded = replace(self.plan, offsets_max=self._plan_limits())
        planned = open_frame(parts.spark, parts.kafka, bounded, self.name, sink.fold)
        self._take_plan(planned)
        if self.plan.leaves_aside:  # of others nothing depends on it
            self._keeps_state = keeps_state(planned.graph)
        self._take_version(planned)
        past = [each for batch in behind.values() for each in batch.left_out]
        self._left_out = merge_letters(past, sink.fold.left_out)
        if not self._left_out:
            return planned.frame
        # No part of the plan: it is compared, and written down, without.
        leaving = replace(bounded, left_out=self._left_out)
        return open_frame(parts.spark, parts.kafka, leaving, self.name, sink.fold).frame

    def _take_plan(self, planned: PlannedFrame) -> None:
        """Hold the SQL against that of the state, and write it down. Raises QueryRefused."""
        sink = self.parts.sink
        new = hold_plan(self.plan, self.name, sink.fold, planned, self._say)
        if new is None:
            return
        if sink.fold.plan is None and sink.fold.query is not None:
            self._say(
                "the log has batches but no plan: whether this SQL made them is unknown; later "
                "changes are compared with this SQL"
            )
        sink.take_plan(new)

    def _take_version(self, planned: PlannedFrame) -> None:
        """Write down what the job is from here on, where it is another version of it."""
        releases = name_releases(planned.frame.sparkSession.version)
        sql, form = (self.plan.digest, *self.plan.ids), state_form(self.plan.settings)
        digest = digest_version(sql, releases, self.plan.job_settings, form)
        self.parts.sink.take_version(
            digest, lambda: write_version(describe_version(self.plan, self.name, planned))
        )

    def _copy_version(self) -> None:
        """Copy the version beside the state: with the first batch of a start, as Spark began it."""
        sink = self.parts.sink
        known = sink.fold.version
        if known is not None and self._copied != (known.version, self._checkpoint.path):
            copy_version(sink.parts.storage, self.name, sink.fold, self._checkpoint)
            self._copied = (known.version, self._checkpoint.path)

    def _catch_up(self, frame: DataFrame, behind: Mapping[int, LandedBatch]) -> None:
        """Run batches again that the table holds, one by one, each cut as it was.

        `behind`: those batches, with the one before.
        """
        checkpoint = self._checkpoint
        first, last = checkpoint.read_position().committed + 1, max(behind)
        self._say(f"batches {first} to {last} run again, only to rebuild the state")
        for number in range(first, last + 1):
            if checkpoint.read_position().planned < number:
                write_offsets(checkpoint, self.name, behind[number])
            self._start(frame, self._writer(frame).trigger(once=True))
            if checkpoint.read_position().committed < number and not self._is_stopping.is_set():
                raise BatchFailed(f"{self.name}: batch {number} did not run again")

    def _join(self) -> None:
        """Take topic partitions up, before Spark looks at them."""
        sink, source = self.parts.sink, self.parts.source
        streams = look_again(sink.parts.clock, self._describe, self._say)
        join = plan_join(source, sink.fold, streams, self._first_of, query_source(self.name))
        if join is not None:
            sink.join(begin_at(join, read_begun(self._checkpoint)).shards)

    def _describe(self) -> dict[str, StreamInfo]:
        sink, source = self.parts.sink, self.parts.source
        streams = source.describe_streams(self._topics)
        require_streams(self._topics, streams)
        if self.plan.topic is not None:
            written = [self.plan.topic.topic]
            require_streams(written, source.describe_streams(written))
        check_streams(query_source(self.name), sink.fold, streams)
        return streams

    def _first_of(self, topic: str, is_first_start: bool) -> FirstOffset:
        """A topic that a checkpoint does not know yet is read by Spark from its beginning."""
        return self.plan.first_of(topic, True) if is_first_start else EARLIEST

    def _plan_limits(self) -> dict[str, int]:
        """Return how many offsets of each view a batch reads, by what comes next there."""
        nexts = {
            StreamShard(key.stream, key.shard): state.next
            for key, state in self.parts.sink.fold.current().items()
            if key.source == query_source(self.name)
        }
        record_bytes = {
            view.name: measure_records(
                self.parts.source,
                {shard: start for shard, start in nexts.items() if shard.stream in view.topics},
                functools.partial(read_sizes, self.parts.kafka),
            )
            for view in self.plan.read_views
            if set(view.topics) & set(self._topics)
        }
        return plan_limits(self.plan.limits, len(self._sources), record_bytes)

    # ---- batches

    def _run_batch(self, frame: DataFrame, batch_id: int) -> None:
        """Run one batch. Called by Spark, in a thread of its own."""
        with self._in_batch:
            if self._is_stopping.is_set():
                raise BatchFailed("the query is being stopped")
            try:
                self._copy_version()
                self._land(frame, batch_id)
                self._ran = batch_id
            except BaseException as error:
                why = out_of_memory(error, self.name, self.parts.kafka, self._reading)
                self._failure = why or error
                raise

    def _land(self, frame: DataFrame, batch_id: int) -> None:
        sink, checkpoint = self.parts.sink, self._checkpoint
        before, after = checkpoint.read_ends(batch_id - 1), checkpoint.read_ends(batch_id)
        settings = checkpoint.read_offsets(batch_id).settings
        batch = QueryBatch(
            query_id=checkpoint.read_query_id() or "",
            batch_id=batch_id,
            plan=self.plan.digest,
            ranges=plan_ranges(self.name, sink.fold, before, after),
            watermark_ms=settings.watermark_ms if settings else 0,
            planned_ms=settings.timestamp_ms if settings else 0,
        )
        self._reading = batch.ranges
        batch = replace(batch, left_out=choose_letters(self._left_out, batch.ranges))
        streams = self.parts.source.describe_streams(self._topics)
        require_streams(self._topics, streams)
        begun = sink.begin(batch, lambda key: streams[key.stream].stream_id, self._past)
        # Step 2. Write; or compute, for the state alone.
        if begun is None:
            if self._keeps_state:
                frame.mapInArrow(drop_rows, RESULT_DDL).collect()
        elif self.plan.topic is not None:
            sent = send_rows(frame, self.parts.kafka, self.plan.topic)
            counted = replace(begun, counted=self._count(batch))
            sink.sent(counted, sent, self._check_identities)
        else:
            try:
                with sink.discarding(begun):
                    computed = self._write(frame, begun)
            except LeftOutError as found:
                sink.leave_out(found.letters)
                raise _RunAgain(str(found)) from found
            counted = replace(begun, counted=computed.counted)
            sink.land(counted, computed.results, self._check_identities)
        self._landed += begun is not None
        self._pass_idle_inputs(batch)
        self._move_mark(batch_id)

    def _write(self, frame: DataFrame, begun: BegunBatch) -> Computed:
        """Write the rows of a batch, and the dead letters where it has such."""
        sink, parts = self.parts.sink, self.parts
        order = sink.rows_order(begun)
        count = functools.partial(self._count, begun.batch)
        if not self.plan.leaves_aside:
            return Computed(run_tasks(land_frame(frame, order)), count())
        aside = AsideParts(
            parts.spark,
            parts.kafka,
            self.plan,
            self.name,
            self._keeps_state,
            self._require_wanted,
            self._say,
        )
        letters = sink.letters_order(begun)
        batch = AsideBatch(frame, begun.batch, order, letters, count)
        return AsideWriter(aside).write(batch)

    def _require_wanted(self) -> None:
        if self._is_stopping.is_set() and not self._finishes:
            raise BatchFailed("the query is being stopped")

    def _count(self, batch: QueryBatch) -> dict[str, int]:
        """Return what is wrong with records of all views that the query reads."""
        frame, views = self._frame, self.plan.read_views
        if frame is None:
            return {}

        def count(names: list[str], numbers: int) -> list[tuple[int, ...]]:
            return count_observed(frame, batch.query_id, names, numbers)

        return sum_counts(views, count)

    def _pass_idle_inputs(self, batch: QueryBatch) -> None:
        """Let time go on without inputs that are idle. The checkpoint keeps how far it went.

        If interrupted: the batch is run again by its own watermark, which the checkpoint has.
        """
        idle, frame = self._idle_inputs, self._frame
        topics = {each.key.stream for each in batch.ranges if each.offsets.size}
        now_s = self._monotonic_s()
        if idle is None or frame is None or not idle.brought(topics, now_s):
            return  # the plan is not looked at: that takes many calls
        moved = idle.take(read_marks(frame, batch.query_id), now_s)
        if not moved:
            return
        move_marks(frame, batch.query_id, moved)
        for view in self.plan.read_views:
            for node, mark_ms in moved.items():
                if not idle.topics_of(node).isdisjoint(view.topics):
                    self._passed_ms[view.name] = mark_ms

    def _patience_s(self) -> dict[str, float]:
        """Return how long each topic may be silent before others no longer wait for it."""
        return {
            topic: view.spec.idle_after_ms / 1000
            for view in self.plan.read_views
            for topic in view.topics
        }

    def _monotonic_s(self) -> float:
        return self.parts.sink.parts.clock.monotonic_s()

    def _move_mark(self, batch_id: int) -> None:
        """Let the batch after `batch_id` hold records late by that one's watermark, as Spark does.

        Operators with state forget by a batch's own watermark, and leave out by the one before.
        """
        if batch_id == NO_BATCH:
            return
        settings = self._checkpoint.read_offsets(batch_id).settings
        self.plan.mark.move(settings.watermark_ms if settings else 0)

    def _check_identities(self) -> None:
        """Raise StreamReplaced where a topic was created again while it was read."""
        source, fold = query_source(self.name), self.parts.sink.fold
        found = {topic: each for (of, topic), each in fold.generations().items() if of == source}
        known = {topic: found[topic][1] for topic in self._topics if topic in found}
        now = self.parts.source.describe_streams(self._topics)
        topic = find_replaced(source, fold, known, now)
        if topic is not None:
            raise StreamReplaced(
                f"topic {topic} was replaced while it was read; nothing was prepared",
                hint="the state belongs to the old topic: write to another table or topic",
                stream=topic,
            )

    # ---- until the end

    def _wait(self, query: StreamingQuery, frame: DataFrame) -> None:
        """Wait for the end of the query, and tell of records that it has left out."""
        views = (view for view in self.plan.read_views if view.has_watermark)
        delays_ms = {view.name: view.spec.late.after_ms for view in views}
        reported = Reported(Inputs(delays_ms, self._passed_ms))
        clock, refresh_s = self.parts.sink.parts.clock, self.plan.refresh_ms / 1000
        refresher = Refresher(frame, refresh_s, clock, self._say)
        try:
            while not query.awaitTermination(POLL_S):
                self._report(query, reported)
                self._housekeeping.tick()
                self._cleaner.step()
                refresher.tick()
                self._idle()
                if self._is_stopping.is_set():
                    self._let_batch_end()
                    query.stop()
            self._report(query, reported)
        except PySparkException as error:
            if self._is_stopping.is_set() and not isinstance(self._failure, Fenced):
                return
            if isinstance(self._failure, AshoreError | _RunAgain):
                raise self._failure from error
            raise explain_failure(str(self.name), error, self._failure, self._locate) from error
        except (Py4JError, ConnectionError) as error:
            with self._in_batch:  # which may be finding out why
                raise no_answer(self.name, error, self._failure) from error
        finally:
            with suppress(Py4JError, ConnectionError):  # of a JVM that has ended
                query.stop()
            self._cleaner.end()
            self._left = self.parts.sink.fold.epoch

    def _locate(self, found: RowError) -> Place:
        return self.plan.script.locate(found.view, found.line, found.column, self.plan.insert)

    def _open_house(self) -> Housekeeping:
        """Return what packs and cleans, while a run of the query has its attempt.

        At once, at first: a batch that was killed may have left files.
        """
        sink, parts = self.parts.sink, self.parts.sink.parts
        tables = sink.plan.output.tables if sink.plan.output else ()
        return Housekeeping(
            House(parts.log, parts.storage, parts.clock, parts.progress, lambda: tables),
            self.parts.clean,
            cleans_first=True,
            clean_more=self._clean,
        )

    def _clean(self, now_ms: int, ttl_ms: int) -> None:
        """Delete older attempts, and begin to clean the one of now."""
        self.plan.attempts.clean(self.parts.sink.fold.epoch, now_ms, ttl_ms)
        self._cleaner.begin(self._checkpoint, now_ms, ttl_ms)

    def _let_batch_end(self) -> None:
        """Wait for the batch under way. The next one finds that it is not wanted any more."""
        while self._finishes:
            if self._in_batch.acquire(timeout=POLL_S):
                self._in_batch.release()
                return
        if self._in_batch.acquire(timeout=self.plan.patience_s):
            self._in_batch.release()

    def _idle(self) -> None:
        """Between batches, once an interval: run deferred actions, look whether the log is ours."""
        clock = self.parts.sink.parts.clock
        if clock.monotonic_s() < self._next_idle_s:
            return
        self._next_idle_s = clock.monotonic_s() + self.plan.interval_ms / 1000
        if self._in_batch.acquire(blocking=False):
            try:
                self.parts.sink.idle()
            finally:
                self._in_batch.release()

    def _report(self, query: StreamingQuery, reported: Reported) -> None:
        before = reported.last
        for message in report(query, reported):
            self._say(message)
        if reported.last is not None and reported.last is not before:
            self.parts.sink.parts.progress.query(self.name.slice, reported.last)

    def _say(self, message: str) -> None:
        self.parts.sink.parts.progress.warn(self.name.slice, message)
