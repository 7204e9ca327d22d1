"""The rows of a batch of a query into files, with the records left aside that have no row.

What it is: `run_tasks`, one Spark action whose tasks each report once what they did, and
`AsideWriter`. Where SQL cannot compute a batch, parts of it are computed beside the
stream until each record to blame is alone; the rest is written in one run. These records, and those
that are too far ahead to be believed, become dead letters. Of a query that keeps state only what
stands below the state is computed in parts, and the rest of the batch is the stream's own to
compute, once the log says what is left out.
What it promises: a record is left aside only where it fails alone, and the rows of all others come
from one run that succeeded. What is no error of a row is raised as it was. Nothing counts before
the batch is prepared, so that a crash leaves only staged files.
"""

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.errors import BadRecord, BatchFailed, RowNotComputed
from ashore.log.names import SliceName
from ashore.log.plan_query import QueryBatch
from ashore.log.positions import ShardRange
from ashore.log.query import Letter
from ashore.queries.spark.internals.event_times import count_observed_once
from ashore.queries.spark.internals.row_parts import read_row_parts
from ashore.queries.spark.sql.frames import QueryPlan, open_part
from ashore.queries.spark.sql.row_errors import find_row_error
from ashore.queries.spark.sql.views import (
    BAD_RECORD,
    PartReading,
    View,
    open_raw_ranges,
    read_far_future,
    sum_counts,
)
from ashore.topics.decode.reasons import NOT_COMPUTED, TOO_FAR
from ashore.topics.loop.bisection import halve
from ashore.topics.loop.sinks import FAR_FUTURE
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.causes import text_of
from ashore.topics.run.spark.internals.jvm import count_partitions
from ashore.topics.run.spark.reader import RECORD
from ashore.topics.run.spark.source.record_schema import HEADERS
from ashore.topics.run.spark.task import RESULT_DDL, land_letters, land_rows, read_row, try_rows
from ashore.topics.write.batch import LettersOrder, RowsOrder, TaskResult, check_tasks

LETTERS_MAX = 100  # of one batch: each takes some twenty runs to find
TRIES = 3  # of what is left, for SQL that is not the same each time (`rand()`)
_FAILURES = (PySparkException, Py4JError, BadRecord)


def land_frame(frame: DataFrame, order: RowsOrder) -> DataFrame:
    """Return a lazy frame whose tasks write the rows of a batch."""
    return frame.mapInArrow(functools.partial(land_rows, order), RESULT_DDL)


def run_tasks(frame: DataFrame) -> list[TaskResult]:
    """Run the tasks of such a frame and return what each did. Raises BatchFailed, BadRecord."""
    results = [read_row(row.is_error, bytes(row.content)) for row in frame.collect()]
    check_tasks(results, count_partitions(frame))
    return results


@dataclass(frozen=True, slots=True)
class AsideBatch:
    """One batch."""

    frame: DataFrame  # its rows, by the stream
    read: QueryBatch  # what the stream reads of it, and when
    rows: RowsOrder
    letters: LettersOrder
    count: Callable[[], dict[str, int]]  # what its views have counted, once `frame` is computed


@dataclass(frozen=True, slots=True)
class Computed:
    """What tasks did for a batch, and what its views have counted."""

    results: list[TaskResult]
    counted: dict[str, int]


class LeftOutError(Exception):
    """A batch cannot be computed with these records, and was not written."""

    def __init__(self, letters: tuple[Letter, ...]) -> None:
        super().__init__(f"{len(letters):,} records become dead letters: {letters[0].reason}")
        self.letters = letters


@dataclass(frozen=True, slots=True, kw_only=True)
class AsideWriter:
    """Writes the batches of one query."""

    spark: SparkSession
    kafka: KafkaAddress
    plan: QueryPlan
    name: SliceName  # of its slice
    keeps_state: bool  # so that no part of a batch can be computed beside the stream
    require_running: Callable[[], None]  # raises where the query is to stop
    say: Callable[[str], None]  # takes a warning

    def write(self, batch: AsideBatch) -> Computed:
        """Write the rows and the dead letters of a batch.

        Raises RowNotComputed where more than LETTERS_MAX records fail, or none alone; what Spark
        raises that is no error of a row; BatchFailed; LeftOutError where the query keeps state: the
        log is to say first what the batch is run again without.
        If interrupted: staged files remain; no entry names them.
        """
        if self.keeps_state:
            return self._write_stateful(batch)
        left_out: tuple[Letter, ...] = ()
        run = functools.partial(self._write_all, batch)
        for _ in range(TRIES):
            try:
                computed = run()
                break
            except _FAILURES as error:
                if explain_row(error) is None:
                    raise
                found = self._find(batch, left_out)
                if not found:
                    raise
                left_out += found
            run = functools.partial(self._write_rest, batch, left_out)
        else:
            computed = run()
        return self._with_letters(batch, computed, left_out)

    def _write_stateful(self, batch: AsideBatch) -> Computed:
        try:
            computed = self._write_all(batch)
        except _FAILURES as error:
            found = () if explain_row(error) is None else self._find(batch, batch.read.left_out)
            if not found:
                raise
            raise LeftOutError(found) from error
        return self._with_letters(batch, computed, batch.read.left_out)

    # ---- rows

    def _write_all(self, batch: AsideBatch) -> Computed:
        return Computed(run_tasks(land_frame(batch.frame, batch.rows)), batch.count())

    def _write_rest(self, batch: AsideBatch, left_out: tuple[Letter, ...]) -> Computed:
        self.say(f"{len(left_out):,} records become dead letters: {left_out[0].reason}")
        written = land_frame(self._open(batch, batch.read.ranges, left_out), batch.rows)
        results = run_tasks(written)
        count = functools.partial(count_observed_once, written)
        return Computed(results, sum_counts(self.plan.read_views, count))

    def _find(self, batch: AsideBatch, known: tuple[Letter, ...]) -> tuple[Letter, ...]:
        """Return more records that fail alone. Raises RowNotComputed where there are too many."""

        def compute(ranges: tuple[ShardRange, ...]) -> None:
            self.require_running()
            self._compute(self._open(batch, ranges, known), batch)

        return find_letters(str(self.name), batch.read.ranges, compute, len(known))

    def _compute(self, rows: DataFrame, batch: AsideBatch) -> None:
        """Compute rows of a part, or what is below its state, and discard them."""
        if not self.keeps_state:
            run_tasks(rows.mapInArrow(functools.partial(try_rows, batch.rows), RESULT_DDL))
            return
        for part in read_row_parts(rows):
            part.write.format("noop").mode("overwrite").save()

    def _open(
        self, batch: AsideBatch, ranges: tuple[ShardRange, ...], left_out: tuple[Letter, ...]
    ) -> DataFrame:
        reading = self._reading(batch, ranges, left_out)
        return open_part(self.spark, self.kafka, self.plan, reading)

    def _reading(
        self, batch: AsideBatch, ranges: tuple[ShardRange, ...], left_out: tuple[Letter, ...]
    ) -> PartReading:
        return PartReading(ranges, left_out, batch.read.planned_ms, self.plan.mark)

    # ---- dead letters

    def _with_letters(
        self, batch: AsideBatch, computed: Computed, left_out: tuple[Letter, ...]
    ) -> Computed:
        letters = self._write_letters(batch, left_out, computed.counted.get(FAR_FUTURE, 0))
        return Computed([*computed.results, *letters], computed.counted)

    def _write_letters(
        self, batch: AsideBatch, left_out: tuple[Letter, ...], far: int
    ) -> list[TaskResult]:
        session = self.plan.open_session(self.spark)
        frames = [self._read_left_out(session, batch, left_out)] if left_out else []
        if far:
            reading = self._reading(batch, batch.read.ranges, left_out)
            headers = batch.letters.output.headers_aside
            frames += [
                self._read_far(session, view, reading, headers=headers)
                for view in self.plan.read_views
                if view.has_watermark
            ]
        if not frames:
            return []
        records = functools.reduce(DataFrame.union, frames)
        write = functools.partial(land_letters, batch.letters)
        results = run_tasks(records.mapInArrow(write, RESULT_DDL))
        count = sum(read.dead for result in results for read in result.reads)
        if count != len(left_out) + far:
            raise BatchFailed(
                f"{self.name}: {len(left_out) + far} records should become dead letters, "
                f"but {count} were found when they were read again",
                hint="nothing was prepared; the batch is retried",
            )
        return results

    def _read_left_out(
        self, session: SparkSession, batch: AsideBatch, letters: tuple[Letter, ...]
    ) -> DataFrame:
        keys = {each.key for each in letters}
        hulls = [each for each in batch.read.ranges if each.key in keys]
        reasons = [
            (
                each.key.stream,
                int(each.key.shard),
                each.offset,
                reason_of(self.name.slice, each.reason),
            )
            for each in letters
        ]
        ddl = "topic STRING, partition INT, offset BIGINT, reason STRING"
        known = F.broadcast(session.createDataFrame(reasons, ddl))
        headers = batch.letters.output.headers_aside
        records = open_raw_ranges(session, self.kafka, hulls, headers=headers)
        shown = (*RECORD, *[HEADERS] * headers, "reason")
        return records.join(known, ["topic", "partition", "offset"]).select(*shown)

    def _read_far(
        self, session: SparkSession, view: View, reading: PartReading, *, headers: bool
    ) -> DataFrame:
        reason = F.lit(reason_of(self.name.slice)).alias("reason")
        if headers:  # also of a topic whose rows do not have them
            view = replace(view, spec=replace(view.spec, headers=True))
        records = read_far_future(session, self.kafka, view, reading)
        return records.select(*RECORD, *[HEADERS] * headers, reason)


def reason_of(query: str, text: str | None = None) -> str:
    """Return the reason of a dead letter of a query.

    `text`: why SQL cannot compute the record (`explain_row`); None: its event time is too far
    ahead.
    """
    return f"{TOO_FAR}: {query}" if text is None else f"{NOT_COMPUTED}: {query}: {text}"


def explain_row(error: Exception) -> str | None:
    """Return why a row cannot be computed; None: no row is to blame, or it is to stop the query."""
    if isinstance(error, BadRecord):
        return error.message
    text = text_of(error)
    found = None if BAD_RECORD in text else find_row_error(text)
    return f"{found.sentence} ({found.condition})" if found else None


def find_letters(
    name: str,
    ranges: Sequence[ShardRange],
    compute: Callable[[tuple[ShardRange, ...]], None],
    known: int,
) -> tuple[Letter, ...]:
    """Return records of a batch that fail alone; none where no record is to blame.

    `compute` computes the rows of some offsets, and discards them; `known` records of the batch are
    left out already.
    Raises RowNotComputed where there are too many; and what `compute` raises, unless a row is to
    blame for it.
    """

    def explain(part: Sequence[ShardRange]) -> str | None:
        try:
            compute(tuple(part))
        except _FAILURES as error:
            reason = explain_row(error)
            if reason is None:
                raise
            return reason
        return None

    if explain(()) is not None:
        return ()  # what is read beside topics is to blame, and no record
    most = LETTERS_MAX - known
    found = find_culprits([each for each in ranges if each.offsets.size], explain, most)
    if len(found) > most:
        raise RowNotComputed(
            f"{name}: SQL cannot compute more than {LETTERS_MAX} records of a batch: "
            f"{found[0].reason}",
            hint="fix the SQL: dead letters are for single records",
        )
    return tuple(found)


Compute = Callable[[Sequence[ShardRange]], str | None]


@dataclass(frozen=True, slots=True)
class _Part:
    """A part of the batch that is left to look at."""

    ranges: tuple[ShardRange, ...]
    is_known_bad: bool  # since the whole of it is, and the rest of that is not

    @property
    def size(self) -> int:
        return sum(each.offsets.size for each in self.ranges)


def find_culprits(ranges: Sequence[ShardRange], compute: Compute, count_max: int) -> list[Letter]:
    """Return records that fail alone, in the order of `ranges`; no more than `count_max`, plus one.

    They are found by halves: one of them costs about as many runs as the batch's size has binary
    digits, half of them again.

    `ranges`: of a batch which cannot be computed as a whole. `compute` computes the rows of some
    offsets and drops them; it returns why that cannot be done, None: it can. Row by row: what it
    says of offsets it says of some record.
    Raises what `compute` raises.
    """
    found: list[Letter] = []
    left = [_Part(tuple(ranges), is_known_bad=True)]  # the next part is the last one
    while left and len(found) <= count_max:
        part = left.pop()
        if part.size == 1:
            reason = compute(part.ranges)
            if reason is not None:
                (alone,) = part.ranges
                found.append(Letter(alone.key, alone.offsets.start, reason))
        elif part.size and (part.is_known_bad or compute(part.ranges) is not None):
            first, second = halve(part.ranges)
            is_first_good = compute(first) is None
            left.append(_Part(second, is_known_bad=is_first_good))
            if not is_first_good:
                left.append(_Part(first, is_known_bad=True))
    return found
