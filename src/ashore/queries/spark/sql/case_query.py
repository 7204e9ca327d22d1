"""One INSERT over the records of a test case, until it has read all of them.

What it is: `CaseQuery`, a streaming query from an empty checkpoint, and `Ran`, what it did.
What it promises: batches, watermarks and state are those of a run. A record that SQL cannot compute
becomes a dead letter where the job says so: it is found as in a run, and the query starts again
without it. Topics are idle by the times at which the case has its batches read, not by the clock.
"""

import functools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from ashore.errors import JobFileInvalid, RowNotComputed
from ashore.jobs.file.cases import Case, GivenView
from ashore.jobs.file.source_text import Place
from ashore.log.positions import ShardRange
from ashore.log.query import Letter, choose_letters, merge_letters
from ashore.plans.operators import keeps_state
from ashore.plans.text import name_made
from ashore.queries.spark.internals.event_times import (
    IdleInputs,
    move_marks,
    read_marks,
    read_time_inputs,
)
from ashore.queries.spark.internals.reading import read_sources
from ashore.queries.spark.internals.row_parts import read_row_parts
from ashore.queries.spark.sql.case_comparison import (
    CaseLetter,
    RowsUnfit,
    read_case_rows,
    rows_as_text,
)
from ashore.queries.spark.sql.case_source import (
    list_ranges,
    open_ranges,
    open_records,
    write_batches,
)
from ashore.queries.spark.sql.frames import (
    PlannedFrame,
    QueryPlan,
    make_frame,
    make_part,
    require_leaving_aside,
)
from ashore.queries.spark.sql.refusals import explain_failure
from ashore.queries.spark.sql.row_errors import RowError
from ashore.queries.spark.sql.row_writer import explain_row, find_letters, reason_of
from ashore.queries.spark.sql.views import View, choose_far_future, leave_out, make_view

_FAILURES = (PySparkException, Py4JError)


@dataclass(frozen=True, slots=True)
class Ran:
    """What a query did."""

    # that it has written, as text; of an upsert topic the newest of each key
    rows: Sequence[str] = ()
    letters: Sequence[CaseLetter] = ()  # records that became dead letters
    failure: str = ""  # why it stopped; empty where it has read everything


@dataclass(frozen=True, slots=True)
class CaseQuery:
    """One INSERT in one case."""

    spark: SparkSession
    case: Case
    name: str  # of the table or topic that it writes
    slice: str  # of the query: reasons begin with it
    plan: QueryPlan
    directory: Path  # for its records and checkpoints; it does not exist yet
    # of its views: their directories, by name
    inputs: Mapping[str, Path] = field(default_factory=dict)

    def write_records(self) -> "CaseQuery":
        """Write the records of the case; return the query that reads them."""
        inputs = {view.name: self.directory / view.name for view in self.plan.views}
        for view in self.plan.views:
            write_batches(inputs[view.name], view, self.case.batches)
        return replace(self, inputs=inputs)

    def open(self, left_out: tuple[Letter, ...] = ()) -> PlannedFrame:
        """Return what the INSERT selects, as a stream, with its plan. Raises as `make_frame`."""

        def make_views(session: SparkSession) -> None:
            for view in self.plan.views:
                records = leave_out(open_records(session, self.inputs[view.name], view), left_out)
                make_view(view, records, self.plan.mark)
            self._make_case_views(session)

        planned = make_frame(self.spark, self.plan, make_views, self._views)
        if self.plan.leaves_aside:
            files = self.topics_of_directories()
            streams = [
                files.get(each.reads.rstrip("/"), ()) for each in read_sources(planned.frame)
            ]
            require_leaving_aside(self.plan, streams)
        return planned

    def run(self, planned: PlannedFrame, shown: tuple[str, ...]) -> Ran:
        """Run the query to its end. `planned`: as `open` has returned it; `shown`: the columns."""
        left_out: tuple[Letter, ...] = ()
        ranges = list_ranges(self.case.batches)
        number = 0
        while True:
            run = _Run(self, planned.frame, shown, self.directory / f"checkpoint-{number}")
            failure = run.stream()
            if failure is None:
                return Ran(run.rows, self._letters(left_out))
            try:
                more = self._find(planned, run, ranges, left_out) if self.plan.leaves_aside else ()
            except RowNotComputed as too_many:
                return Ran(failure=too_many.message)
            if not more:
                return Ran(failure=failure)
            left_out = merge_letters(left_out, more)
            planned = self.open(left_out)
            number += 1

    def topics_of_directories(self) -> dict[str, tuple[str, ...]]:
        """Return the topics whose records are in each directory."""
        return {str(self.inputs[view.name]): view.topics for view in self.plan.views}

    # ---- dead letters

    def _find(
        self,
        planned: PlannedFrame,
        run: "_Run",
        ranges: Sequence[tuple[ShardRange, ...]],
        left_out: tuple[Letter, ...],
    ) -> tuple[Letter, ...]:
        """Return records that fail alone in the batch that failed. Raises RowNotComputed."""
        error, number = run.failure, run.failed
        if number >= len(ranges) or not isinstance(error, _FAILURES) or explain_row(error) is None:
            return ()
        has_state = keeps_state(planned.graph)

        def compute(part: tuple[ShardRange, ...]) -> None:
            rows = self._open_part(part, left_out)
            for each in read_row_parts(rows) if has_state else [rows]:
                each.write.format("noop").mode("overwrite").save()

        known = len(choose_letters(left_out, ranges[number]))
        return find_letters(self.name, ranges[number], compute, known)

    def _open_part(self, ranges: tuple[ShardRange, ...], left_out: tuple[Letter, ...]) -> DataFrame:
        def make_views(session: SparkSession) -> None:
            for view in self.plan.views:
                records = open_ranges(session, self.inputs[view.name], view, ranges)
                now = F.current_timestamp()
                make_view(view, leave_out(records, left_out), self.plan.mark, now)
            self._make_case_views(session)

        return make_part(self.spark, self.plan, make_views, self._views)

    def _letters(self, left_out: tuple[Letter, ...]) -> list[CaseLetter]:
        """Return all dead letters: what SQL cannot compute, and what is too far ahead."""
        if not self.plan.leaves_aside:
            return []
        found = [
            CaseLetter(
                each.key.stream,
                int(each.key.shard),
                each.offset,
                reason_of(self.slice, each.reason),
            )
            for each in left_out
        ]
        for view in self.plan.read_views:
            if view.has_watermark:
                found += self._far_ahead(view, left_out)
        return sorted(found)

    def _far_ahead(self, view: View, left_out: tuple[Letter, ...]) -> list[CaseLetter]:
        ranges = [each for batch in list_ranges(self.case.batches) for each in batch]
        session = self.plan.open_session(self.spark)
        records = leave_out(open_ranges(session, self.inputs[view.name], view, ranges), left_out)
        far = choose_far_future(records, view, F.current_timestamp())
        rows = far.select("topic", "partition", "offset").collect()
        reason = reason_of(self.slice)
        return [CaseLetter(row[0], row[1], row[2], reason) for row in rows]

    # ---- views that the case gives

    @property
    def _views(self) -> dict[str, GivenView]:
        return {each.view.casefold(): each for each in self.case.views}

    def _make_case_views(self, session: SparkSession) -> None:
        made = {name_made(each.text): each.text for each in self.plan.script.views}
        for each in self.case.views:
            if each.view.casefold() not in made:
                raise JobFileInvalid(
                    f"{self.case.place}: {self.case.name}: the SQL defines no view {each.view}",
                    hint=f"it defines {', '.join(sorted(made))}" if made else "remove `views`",
                )
            _create_view(session, each)


class _Run:
    """One run of the query, from an empty checkpoint."""

    def __init__(
        self, query: CaseQuery, frame: DataFrame, shown: tuple[str, ...], checkpoint: Path
    ) -> None:
        plan = query.plan
        self.failure: BaseException | None = None
        self.failed = -1  # the batch that has failed
        self._query = query
        self._frame = frame
        self._checkpoint = checkpoint
        key = plan.topic.key if plan.topic and plan.topic.is_upsert else ()
        self._columns = [rows_as_text(shown), rows_as_text(key)]
        self._has_key = bool(key)
        self._kept: list[str] = []
        self._newest: dict[str, str] = {}
        inputs = read_time_inputs(frame, query.topics_of_directories())
        self._idle = IdleInputs(inputs, plan.idle_after_s, 0.0)

    @property
    def rows(self) -> list[str]:
        """The rows as text."""
        return [*self._kept, *self._newest.values()]

    def stream(self) -> str | None:
        """Run until all batches are read. Returns why it failed; None: it did not."""
        plan = self._query.plan

        def locate(found: RowError) -> Place:
            return plan.script.locate(found.view, found.line, found.column, plan.insert)

        writer = self._frame.writeStream.option("checkpointLocation", str(self._checkpoint))
        writer = writer.outputMode(plan.mode).trigger(availableNow=True)
        try:
            running = writer.foreachBatch(self._take).start()
            running.awaitTermination()
        except PySparkException as error:
            return explain_failure(self._query.name, error, self.failure, locate).message
        return None

    def _take(self, batch: DataFrame, number: int) -> None:
        """Take the rows of a batch. Called by Spark, in a thread of its own."""
        try:
            for text, key in batch.select(*self._columns).collect():
                if self._has_key:
                    self._newest[key] = text
                else:
                    self._kept.append(text)
            self._pass_idle_inputs(number)
        except BaseException as error:
            self.failure, self.failed = error, number
            raise

    def _pass_idle_inputs(self, number: int) -> None:
        """Let the watermark advance without topics that are idle when a batch is read."""
        batches = self._query.case.batches
        topics = {each.topic for each in batches[number : number + 1] if each.records}
        now_s = sum(each.after_ms for each in batches[: number + 1]) / 1000
        if not self._idle.brought(topics, now_s):
            return
        moved = self._idle.take(read_marks(self._frame, self._query_id), now_s)
        if moved:
            move_marks(self._frame, self._query_id, moved)

    @functools.cached_property
    def _query_id(self) -> str:
        return str(json.loads((self._checkpoint / "metadata").read_text("utf-8"))["id"])


def _create_view(session: SparkSession, view: GivenView) -> None:
    """Make a view of the rows that a case gives. Raises JobFileInvalid."""
    try:
        schema = StructType.fromDDL(view.schema_ddl)
        rows = session.createDataFrame(read_case_rows(session, schema, view.rows), schema)
    except (RowsUnfit, PySparkException) as error:
        first = str(error).strip().partition("\n")[0]
        raise JobFileInvalid(
            f"view {view.view}: its rows do not match its schema: {first}",
            hint="correct `schema` or `rows`",
        ) from error
    rows.createOrReplaceTempView(view.view)
