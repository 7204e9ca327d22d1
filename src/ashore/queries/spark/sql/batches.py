"""The batches of one INSERT, as Spark calls back for them.

What it is: `QueryBatches`. For each batch the sink decides what happens to the rows: they are
written and landed, sent to a topic, or computed for the state alone. `plan_ranges`, what a batch
reads as its log knows it; `write_offsets`, the offsets of a batch that the log knows and Spark has
forgotten, written for Spark as it would have written them.
What it promises: one batch at a time, in Spark's thread; another thread that holds `under_way`
stands between two batches. What a batch has raised is kept as it was: `failure`.
A topic that a query reads twice (joined with itself) has a range for each reading: they may end at
different offsets. Keys are the query's own: no other slice has them. A batch that runs again reads
what it read then, at the time that it had, and forgets by the watermark that it had, so that the
state is what it was; its rows are in the table. Nothing in the checkpoint is changed or removed,
only added.
"""

import functools
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from pyspark.sql import DataFrame, SparkSession

from ashore.errors import BatchFailed, CheckpointUnfit, StreamReplaced
from ashore.log.fold import Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import NO_BATCH, QueryBatch
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.log.query import Letter, choose_letters
from ashore.log.query_history import LandedBatch
from ashore.queries.spark.internals.event_times import (
    IdleInputs,
    count_observed,
    move_marks,
    read_marks,
    read_time_inputs,
)
from ashore.queries.spark.sql.frames import QueryPlan
from ashore.queries.spark.sql.memory import out_of_memory
from ashore.queries.spark.sql.row_writer import (
    AsideBatch,
    AsideWriter,
    Computed,
    LeftOutError,
    land_frame,
    run_tasks,
)
from ashore.queries.spark.sql.topics import send_rows
from ashore.queries.spark.sql.views import sum_counts
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import (
    Ends,
    KafkaEnd,
    OffsetsFile,
    Settings,
    SourceEnd,
    write_kafka,
)
from ashore.queries.state.versions import copy_version
from ashore.topics.loop.assembly import Environment
from ashore.topics.loop.housekeeping import CleanRule
from ashore.topics.loop.joins import find_replaced, require_streams
from ashore.topics.loop.query_sink import BegunBatch, QuerySink
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.task import RESULT_DDL, drop_rows

POLL_S = 1.0
LOOK_S = 0.05  # whether Spark has committed a batch that is over
COMMITTED_WITHIN_S = 10.0
_NEWER = "restore a newer checkpoint"
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class QueryParts:
    """What a query works with."""

    spark: SparkSession
    kafka: KafkaAddress
    environment: Environment
    sink: QuerySink
    clean: CleanRule

    def say(self, message: str) -> None:
        """Report a warning of the query."""
        self.environment.progress.warn(self.sink.plan.name.slice, message)


class RunAgain(Exception):
    """A batch is run again, without records that the log has named since it was started."""


class QueryBatches:
    """The batches of a query, in whatever run of it. `topics`: that it reads, sorted."""

    def __init__(self, plan: QueryPlan, parts: QueryParts, topics: Sequence[str]) -> None:
        self.plan, self.parts, self.topics = plan, parts, topics
        self.name = parts.sink.plan.name
        self.under_way = threading.Lock()  # locked while a batch runs
        self.checkpoint = plan.attempts.attempt(1)  # until a turn has taken one
        self.failure: BaseException | None = None
        self.passed_ms: dict[str, int] = {}  # watermarks of views that were idle
        self.past: Mapping[int, str] = {}  # lineages of batches that run again
        self.left_out: tuple[Letter, ...] = ()  # of batches that run again, and of those to come
        self.keeps_state = True  # so that a batch runs again for it
        self.landed = 0
        self._is_stopping = threading.Event()
        self._finishes = False  # a stop waits for the batch under way as long as it takes
        self._reading: Sequence[ShardRange] = ()  # of the batch under way
        self._ran = NO_BATCH  # the last batch of this checkpoint that came to its end
        self._copied: tuple[int, str] | None = None  # the version that this attempt has a copy of
        self._frame: DataFrame | None = None  # that the query runs
        self._idle_inputs: IdleInputs | None = None

    def take(self, checkpoint: Checkpoint) -> None:
        """Use a checkpoint from here on."""
        self.checkpoint, self._ran = checkpoint, NO_BATCH

    def start(self, frame: DataFrame) -> None:
        """Prepare for the batches of a run of the query."""
        self.move_mark(self.checkpoint.read_position().committed)
        self._frame = frame
        self.passed_ms = {}
        self._idle_inputs = IdleInputs(
            read_time_inputs(frame), self.plan.idle_after_s, self._monotonic_s()
        )

    @property
    def is_stopping(self) -> bool:
        """Whether no more batch is wanted."""
        return self._is_stopping.is_set()

    def stop(self, *, finishes: bool) -> None:
        """Let no more batch begin. By any thread."""
        self._finishes = finishes
        self._is_stopping.set()

    def between(self, act: Callable[[Checkpoint], R]) -> R:
        """Wait for the batch under way, and call `act` with the checkpoint before the next one.

        By any thread. The next batch waits until `act` has returned. Spark has committed the one
        before, unless that took it longer than COMMITTED_WITHIN_S, or its query has failed.
        Raises StorageError, CheckpointUnfit, and what `act` raises.
        """
        with self.under_way:
            self._wait_for_commit()
            return act(self.checkpoint)

    def _wait_for_commit(self) -> None:
        """Wait until the checkpoint calls the last batch done: Spark says so after the batch."""
        until_s = self._monotonic_s() + COMMITTED_WITHIN_S
        while self.checkpoint.read_position().committed < self._ran:
            if self._monotonic_s() > until_s:
                return
            self.parts.environment.clock.sleep(LOOK_S)

    def run(self, frame: DataFrame, batch_id: int) -> None:
        """Run one batch. Spark calls it, in a thread of its own."""
        with self.under_way:
            if self.is_stopping:
                raise BatchFailed("the query is being stopped")
            try:
                self._copy_version()
                self._land(frame, batch_id)
                self._ran = batch_id
            except BaseException as error:
                why = out_of_memory(error, self.name, self.parts.kafka, self._reading)
                self.failure = why or error
                raise

    def _copy_version(self) -> None:
        """Copy the version beside the state: with the first batch of a start, as Spark began it."""
        sink = self.parts.sink
        known = sink.fold.version
        if known is not None and self._copied != (known.version, self.checkpoint.path):
            copy_version(self.parts.environment.storage, self.name, sink.fold, self.checkpoint)
            self._copied = (known.version, self.checkpoint.path)

    def _land(self, frame: DataFrame, batch_id: int) -> None:
        sink, checkpoint = self.parts.sink, self.checkpoint
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
        batch = replace(batch, left_out=choose_letters(self.left_out, batch.ranges))
        streams = self.parts.environment.source.describe_streams(self.topics)
        require_streams(self.topics, streams)
        begun = sink.begin(batch, lambda key: streams[key.stream].stream_id, self.past)
        # Step 2. Write; or compute, for the state alone.
        if begun is None:
            if self.keeps_state:
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
                raise RunAgain(str(found)) from found
            counted = replace(begun, counted=computed.counted)
            sink.land(counted, computed.results, self._check_identities)
        self.landed += begun is not None
        self._pass_idle_inputs(batch)
        self.move_mark(batch_id)

    def _write(self, frame: DataFrame, begun: BegunBatch) -> Computed:
        """Write the rows of a batch, and the dead letters where it has such."""
        sink, parts = self.parts.sink, self.parts
        order = sink.rows_order(begun)
        count = functools.partial(self._count, begun.batch)
        if not self.plan.leaves_aside:
            return Computed(run_tasks(land_frame(frame, order)), count())
        writer = AsideWriter(
            spark=parts.spark,
            kafka=parts.kafka,
            plan=self.plan,
            name=self.name,
            keeps_state=self.keeps_state,
            require_running=self._require_wanted,
            say=parts.say,
        )
        letters = sink.letters_order(begun)
        return writer.write(AsideBatch(frame, begun.batch, order, letters, count))

    def _require_wanted(self) -> None:
        if self.is_stopping and not self._finishes:
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
        """Advance time without inputs that are idle. The checkpoint keeps how far it went.

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
                    self.passed_ms[view.name] = mark_ms

    def move_mark(self, batch_id: int) -> None:
        """Let the batch after `batch_id` treat records as late by that one's watermark, like Spark.

        Operators with state forget by a batch's own watermark, and leave out by the one before.
        """
        if batch_id == NO_BATCH:
            return
        settings = self.checkpoint.read_offsets(batch_id).settings
        self.plan.mark.move(settings.watermark_ms if settings else 0)

    def _check_identities(self) -> None:
        """Raise StreamReplaced where a topic was created again while it was read."""
        source, fold = query_source(self.name), self.parts.sink.fold
        found = {topic: each for (of, topic), each in fold.generations().items() if of == source}
        known = {topic: found[topic][1] for topic in self.topics if topic in found}
        now = self.parts.environment.source.describe_streams(self.topics)
        topic = find_replaced(source, fold, known, now)
        if topic is not None:
            raise StreamReplaced(
                f"topic {topic} was replaced while it was read; nothing was prepared",
                hint="the state belongs to the old topic: write to another table or topic",
                stream=topic,
            )

    def let_batch_end(self) -> None:
        """Wait for the batch under way, as long as the stop allows. The next one is refused."""
        while self._finishes:
            if self.under_way.acquire(timeout=POLL_S):
                self.under_way.release()
                return
        if self.under_way.acquire(timeout=self.plan.patience_s):
            self.under_way.release()

    def _monotonic_s(self) -> float:
        return self.parts.environment.clock.monotonic_s()


# ---- offsets of a batch: from a checkpoint to the ranges of a log, and back


def plan_ranges(name: SliceName, fold: Fold, before: Ends, after: Ends) -> tuple[ShardRange, ...]:
    """Return what a batch reads.

    `fold`: of its log, which has where first reads begin. `before`: empty for the first batch.
    Raises CheckpointUnfit where offsets go back.
    """
    return tuple(
        ShardRange(key, _range(key, start, end))
        for key, start, end in _walk(name, fold, before, after)
        if start != end
    )


def _walk(
    name: SliceName, fold: Fold, before: Ends, after: Ends
) -> Iterator[tuple[ShardKey, int, int]]:
    readings, generations = Counter[str](), fold.generations()
    for source, topics in after.items():
        for topic, shards in topics.items():
            readings[topic] += 1
            known = generations.get((query_source(name), topic))
            generation = known[0] if known else 1
            for shard, end in shards.items():
                key = ShardKey(query_source(name, readings[topic]), topic, generation, shard)
                start = before.get(source, {}).get(topic, {}).get(shard)
                if start is None:
                    first = fold.shards.get(ShardKey(query_source(name), topic, generation, shard))
                    start = first.first if first else 0
                yield key, start, end


def _range(key: ShardKey, start: int, end: int) -> OffsetRange:
    if end < start:
        raise CheckpointUnfit(
            f"the range of {key} is negative, from {start} to {end}",
            hint="nothing was read; was the topic created again, or another checkpoint restored?",
        )
    return OffsetRange(start, end)


# ---- a checkpoint that is older than its table


def write_offsets(checkpoint: Checkpoint, name: SliceName, batch: LandedBatch) -> None:
    """Plan a batch in a checkpoint whose last batch is the one before, and done.

    Raises CheckpointUnfit, StorageError. If interrupted: the batch is planned, or it is not.
    """
    number = batch.query.batch_id
    before = number - 1
    try:
        settings, ends = _read(checkpoint, before)
    except CheckpointUnfit as error:
        text = f"batch {number} cannot follow batch {before} of {checkpoint.uri}: {error.message}"
        raise CheckpointUnfit(text, hint=_NEWER) from None
    # Logs of earlier releases do not say by which watermark a batch forgot, nor when Spark planned
    # it: what was too far ahead then may be believed a moment later.
    logged = max((ms for _, ms in batch.body.time.watermarks), default=settings.watermark_ms)
    planned_ms = batch.query.planned_ms or batch.body.time.now_ms
    settings = replace(settings, timestamp_ms=planned_ms, watermark_ms=logged)
    after = [write_kafka(end) for end in _advance(ends, name, batch)]
    sources = tuple(SourceEnd(str(index), end) for index, end in enumerate(after))
    checkpoint.plan(number, OffsetsFile(settings, sources))


def _read(checkpoint: Checkpoint, batch_id: int) -> tuple[Settings, list[KafkaEnd]]:
    """Return what a finished batch leaves to the next one: settings, and where sources end."""
    offsets, commit = checkpoint.read_offsets(batch_id), checkpoint.read_commit(batch_id)
    ends = offsets.kafka_ends(f"offsets of batch {batch_id}")
    if len(ends) < len(offsets.sources):
        raise CheckpointUnfit("a source has no offsets")
    if offsets.settings is None or commit.watermark_ms is None:
        raise CheckpointUnfit("it has no settings or no watermark")
    settings = replace(offsets.settings, watermark_ms=commit.watermark_ms)
    return settings, [ends[index] for index in range(len(ends))]


def _advance(ends: Iterable[KafkaEnd], name: SliceName, batch: LandedBatch) -> list[KafkaEnd]:
    """Return where all sources end after the batch. `ends`: before it."""
    reads = batch.body.shards
    left = {(read.key.source, read.key.stream, read.key.shard): read for read in reads}
    readings: Counter[str] = Counter()
    advanced: list[KafkaEnd] = []
    for end in ends:
        topics: dict[str, dict[str, int]] = {}
        for topic, shards in end.items():
            readings[topic] += 1
            source, after = query_source(name, readings[topic]), dict(shards)
            for place in [each for each in left if each[:2] == (source, topic)]:
                after[place[2]] = left.pop(place).offsets.end
            topics[topic] = after
        advanced.append(topics)
    if left:
        raise CheckpointUnfit(
            f"batch {batch.query.batch_id} read {next(iter(left.values())).key}, a topic that the "
            "batch before did not read",
            hint=_NEWER,
        )
    return advanced
