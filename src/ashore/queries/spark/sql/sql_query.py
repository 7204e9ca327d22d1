"""One INSERT as a query of Structured Streaming: its turns.

What it is: `SqlQuery`. A turn opens the sink, compares the checkpoint with the log, starts the
query and waits for its end (`StreamWatch`); for each batch Spark calls back (`QueryBatches`).
What it promises: nothing is started where checkpoint and log do not belong together.
"""

import functools
import os
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

from ashore import __version__
from ashore.errors import BatchFailed
from ashore.log.names import SliceName, query_source
from ashore.log.positions import StreamShard
from ashore.log.query import merge_letters
from ashore.log.query_history import LandedBatch
from ashore.log.store.log import LandingLog
from ashore.plans.operator_graph import describe_graph
from ashore.plans.operators import keeps_state
from ashore.plans.version import (
    JobVersion,
    NamedOperator,
    Releases,
    StateForm,
    digest_version,
    write_version,
)
from ashore.queries.spark.sql.batch_limits import plan_limits
from ashore.queries.spark.sql.batches import QueryBatches, QueryParts, RunAgain, write_offsets
from ashore.queries.spark.sql.frames import PlannedFrame, QueryPlan, name_planner, open_frame
from ashore.queries.spark.sql.refusals import explain_plan, refuse
from ashore.queries.spark.sql.settings import FORMAT, JOIN_FORMAT
from ashore.queries.spark.sql.start_checks import check_checkpoint, check_plan, check_sources
from ashore.queries.spark.sql.watch import StreamWatch
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import PARTITIONS, Settings
from ashore.queries.state.source_changes import read_begun
from ashore.topics.loop.joins import (
    EARLIEST,
    begin_at,
    check_streams,
    look_again,
    plan_join,
    require_streams,
)
from ashore.topics.loop.worker import Tick
from ashore.topics.read.record_samples import measure_records, read_sizes
from ashore.topics.read.source import FirstOffset, StreamInfo

R = TypeVar("R")

# Each topic of a query has a planning process, which takes a second of CPU time to start. Spark
# gives it ten seconds: where a job's queries all started at once, some would fail.
_INITIALIZING = threading.BoundedSemaphore(os.cpu_count() or 1)
_LOOK_S = 0.02


class SqlQuery:
    """One INSERT: a Worker, whose turns are runs of a streaming query.

    `sources`: the topics of each stream that it reads, in the order of Spark's plan.
    """

    def __init__(
        self, plan: QueryPlan, parts: QueryParts, sources: Sequence[Sequence[str]]
    ) -> None:
        self.plan, self.parts = plan, parts
        self.name = parts.sink.plan.name
        self._sources = sources
        self._topics = sorted({topic for topics in sources for topic in topics})
        self._batches = QueryBatches(plan, parts, self._topics)
        self._watch = StreamWatch(self._batches)

    @property
    def log(self) -> LandingLog:
        """See Worker."""
        return self.parts.sink.log

    @property
    def batches_landed(self) -> int:
        """See Worker."""
        return self._batches.landed

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
            except RunAgain as found:
                self.parts.say(str(found))
                # In a copy of the checkpoint: nothing that the batch has left in this one counts.
                self._watch.left = None
            else:
                return Tick.IDLE

    def _run_once(self) -> None:
        sink = self.parts.sink
        sink.open()
        behind = self._take_checkpoint()
        checkpoint = self._batches.checkpoint
        ends = checkpoint.read_ends(checkpoint.read_position().planned)
        check_sources(self.name, self._sources, ends)
        self._join()
        sink.check_histories()
        frame = self._open_frame(behind)
        self._batches.past = {number: each.query.lineage for number, each in behind.items()}
        if behind:
            self._catch_up(frame, behind)
        interval = f"{self.plan.trigger_ms} milliseconds"
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
            .option("checkpointLocation", self._batches.checkpoint.uri)
            .outputMode(self.plan.mode)
            .foreachBatch(self._batches.run)
        )

    def _start(self, frame: DataFrame, writer: DataStreamWriter) -> None:
        self._batches.failure = None
        if self._batches.is_stopping:
            return
        self._batches.start(frame)
        self._watch.left = None
        try:
            with _INITIALIZING:
                query = writer.start()
                self._await_sources(query)
        except (PySparkException, Py4JError) as error:
            place = self.plan.script.find(error, self.plan.insert)
            why = refuse if isinstance(error, PySparkException) else explain_plan
            raise why(error, self.plan.insert.table, place) from error
        self._watch.wait(query, frame)

    def _await_sources(self, query: StreamingQuery) -> None:
        """Wait until Spark has started the processes that plan the query's topics."""
        while (
            query.isActive
            and query.status["message"].startswith("Initializing")
            and not self._batches.is_stopping
        ):
            self.parts.environment.clock.sleep(_LOOK_S)

    def stop(self, *, finishes: bool = False) -> None:
        """See Worker. The batch under way is waited for, as long as the plan says."""
        self._batches.stop(finishes=finishes)

    def cancel(self) -> None:
        """See Worker. `stop` waits no longer than it may."""

    def between_batches(self, act: Callable[[Checkpoint], R]) -> R:
        """See `QueryBatches`."""
        return self._batches.between(act)

    # ---- before the start

    def _take_checkpoint(self) -> dict[int, LandedBatch]:
        """Take the newest checkpoint, or a copy of it, and compare it with the log.

        Returns the batches that it is behind its table, with the one before; none where it is not.
        Raises CheckpointUnfit: nothing is copied.
        """
        attempts, epoch = self.plan.attempts, self.parts.sink.fold.epoch
        self._check_against_log(attempts.newest() or attempts.attempt(epoch))
        checkpoint = attempts.take(epoch, is_mine=self._watch.left == epoch - 1)
        self._watch.left = epoch
        self._batches.take(checkpoint)
        return self._check_against_log(checkpoint)

    def _check_against_log(self, checkpoint: Checkpoint) -> dict[int, LandedBatch]:
        fold, storage = self.parts.sink.fold, self.parts.environment.storage
        return check_checkpoint(self.plan, self.name, fold, checkpoint, storage)

    def _open_frame(self, behind: Mapping[int, LandedBatch]) -> DataFrame:
        """Return what the query runs, without what its log leaves out. Raises QueryRefused.

        `behind`: batches that run again first.
        """
        parts, sink = self.parts, self.parts.sink
        bounded = replace(self.plan, offsets_max=self._plan_limits())
        planned = open_frame(parts.spark, parts.kafka, bounded, self.name, sink.fold)
        self._take_plan(planned)
        if self.plan.leaves_aside:  # of others nothing depends on it
            self._batches.keeps_state = keeps_state(planned.graph)
        self._take_version(planned)
        past = [each for batch in behind.values() for each in batch.left_out]
        self._batches.left_out = merge_letters(past, sink.fold.left_out)
        if not self._batches.left_out:
            return planned.frame
        # No part of the plan: it is compared, and written down, without.
        leaving = replace(bounded, left_out=self._batches.left_out)
        return open_frame(parts.spark, parts.kafka, leaving, self.name, sink.fold).frame

    def _take_plan(self, planned: PlannedFrame) -> None:
        """Compare the SQL with that of the state, and log it. Raises QueryRefused."""
        sink = self.parts.sink
        new = check_plan(self.plan, self.name, sink.fold, planned, self.parts.say)
        if new is None:
            return
        if sink.fold.plan is None and sink.fold.query is not None:
            self.parts.say(
                "the log has batches but no plan: whether this SQL made them is unknown; later "
                "changes are compared with this SQL"
            )
        sink.take_plan(new)

    def _take_version(self, planned: PlannedFrame) -> None:
        """Log the version of the job, where it differs from the last one."""
        releases = name_releases(planned.frame.sparkSession.version)
        sql, form = (self.plan.digest, *self.plan.ids), state_form(self.plan.settings)
        digest = digest_version(sql, releases, self.plan.job_settings, form)
        self.parts.sink.take_version(
            digest, lambda: write_version(describe_version(self.plan, self.name, planned))
        )

    def _catch_up(self, frame: DataFrame, behind: Mapping[int, LandedBatch]) -> None:
        """Run batches again that the table holds, one by one, each cut as it was.

        `behind`: those batches, with the one before.
        """
        checkpoint = self._batches.checkpoint
        first, last = checkpoint.read_position().committed + 1, max(behind)
        self.parts.say(f"batches {first} to {last} run again, only to rebuild the state")
        for number in range(first, last + 1):
            if checkpoint.read_position().planned < number:
                write_offsets(checkpoint, self.name, behind[number])
            self._start(frame, self._writer(frame).trigger(once=True))
            if checkpoint.read_position().committed < number and not self._batches.is_stopping:
                raise BatchFailed(f"{self.name}: batch {number} did not run again")

    def _join(self) -> None:
        """Take topic partitions up, before Spark looks at them."""
        sink, source = self.parts.sink, self.parts.environment.source
        streams = look_again(self.parts.environment.clock, self._describe, self.parts.say)
        join = plan_join(source, sink.fold, streams, self._first_of, query_source(self.name))
        if join is not None:
            sink.join(begin_at(join, read_begun(self._batches.checkpoint)).shards)

    def _describe(self) -> dict[str, StreamInfo]:
        sink, source = self.parts.sink, self.parts.environment.source
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
                self.parts.environment.source,
                {shard: start for shard, start in nexts.items() if shard.stream in view.topics},
                functools.partial(read_sizes, self.parts.kafka),
            )
            for view in self.plan.read_views
            if set(view.topics) & set(self._topics)
        }
        return plan_limits(self.plan.limits, len(self._sources), record_bytes)


def name_releases(spark_version: str) -> Releases:
    """Return by what a query is run here."""
    return Releases(__version__, spark_version, name_planner(spark_version))


def state_form(settings: Mapping[str, str]) -> StateForm:
    """Return in which form a query with these settings writes its state."""
    return StateForm(
        format=int(settings[FORMAT]),
        provider=Settings(conf=settings).provider,
        partitions=int(settings[PARTITIONS]),
        join_format=settings.get(JOIN_FORMAT, ""),
    )


def describe_version(plan: QueryPlan, name: SliceName, planned: PlannedFrame) -> JobVersion:
    """Return what a query is, as a version of its job. Reads only; no query runs.

    What was measured of a checkpoint plays no part: two starts of the same job are one version.

    Raises SparkUnknown.
    """
    operators = describe_graph(planned.graph).operators
    stateful = [(each.state.operator_id, each) for each in operators if each.state is not None]
    return JobVersion(
        job=name.job,
        slice=name.slice,
        releases=name_releases(planned.frame.sparkSession.version),
        sql=plan.written,
        settings=plan.job_settings,
        state=state_form(plan.settings),
        operators=tuple(
            NamedOperator(number, each.id, each.name)
            for number, each in sorted(stateful, key=lambda pair: pair[0])
        ),
        graph=planned.graph,
    )
