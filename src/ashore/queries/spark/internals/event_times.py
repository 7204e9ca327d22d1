"""The event times that a running query meets, and its watermarks.

What it is: `TimeMark`, a time that the plan of a streaming query holds as a constant and that moves
between batches; `count_observed`, what a batch has observed while it runs; `read_time_inputs`, the
watermarks of a plan; `read_marks`, what a batch has moved them to; `move_marks`, which lets an
input that brought nothing have seen a time; `IdleInputs`, which takes each batch in, and says up to
where the watermarks of idle inputs are to go.
What it promises: what Spark makes of that is what it makes of a record with this event time: the
watermark after the batch stands in the checkpoint, with the batch that is done. Spark plans each
batch anew, and folds the mark into it as it is then: at no cost for a record.
The rule of idle inputs is that of sealing: an input that has had no records for `idle_after`, and
has none waiting, holds the others up no longer. It is never moved above the slowest input that is
not idle, which is where the query's watermark is then: so when it brings records again, it is
waited for again.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.queries.spark.internals.reading import directory_of
from ashore.topics.run.spark.internals import jvm

LOGICAL, PHYSICAL = "EventTimeWatermark", "EventTimeWatermarkExec"
NO_FILES: Mapping[str, Collection[str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TimeInput:
    """A watermark of a plan, by Spark's id, and the topics that are below it."""

    node: str
    topics: frozenset[str]


def read_time_inputs(
    frame: DataFrame, files: Mapping[str, Collection[str]] = NO_FILES
) -> tuple[TimeInput, ...]:
    """Return the watermarks of a frame that is not started yet.

    `files`: directories that the frame reads as streams, with the topics that they stand for.
    """
    nodes = _nodes(jvm.analyzed_plan(frame), LOGICAL)
    return tuple(
        TimeInput(str(jvm.TEXT(jvm.TIME_NODE_ID(node))), frozenset(_topics(node, files)))
        for node in nodes
    )


def read_marks(frame: DataFrame, query_id: str) -> dict[str, int | None]:
    """Return the watermark of each input, by its records of the batch that runs; None: none came.

    Requires: the rows of the batch have been computed.
    """
    found: dict[str, int | None] = {}
    for name, node in _running(frame, query_id):
        times = jvm.TIMES_VALUE(jvm.TIMES(node))
        is_there = int(jvm.TIMES_COUNT(times)) > 0
        mark = int(jvm.TIMES_MAX(times)) - int(jvm.TIME_DELAY(node)) if is_there else None
        before = found.get(name)
        found[name] = mark if before is None else max(before, mark or before)
    return found


def move_marks(frame: DataFrame, query_id: str, marks: Mapping[str, int]) -> None:
    """Let inputs have seen the event time that gives them a watermark of `marks`.

    Requires: the rows of the batch have been computed, and it is not done yet.
    """
    for name, node in _running(frame, query_id):
        if name in marks:
            jvm.TIMES_ADD(jvm.TIMES(node), marks[name] + int(jvm.TIME_DELAY(node)))


def _running(frame: DataFrame, query_id: str) -> Iterator[tuple[str, JavaObject]]:
    execution = _find_execution(frame, query_id)
    if execution is not None:
        for node in _nodes(jvm.EXECUTED_PLAN(execution), PHYSICAL):
            yield str(jvm.TEXT(jvm.TIME_EXEC_ID(node))), node


def _nodes(plan: JavaObject, kind: str) -> Iterator[JavaObject]:
    if jvm.class_name(plan) == kind:
        yield plan
    for child in jvm.items(jvm.CHILDREN(plan)):
        yield from _nodes(child, kind)


def _topics(node: JavaObject, files: Mapping[str, Collection[str]]) -> Iterator[str]:
    for leaf in jvm.items(jvm.LEAVES(node)):
        match jvm.class_name(leaf):
            case "StreamingRelationV2":
                written = jvm.OPTION_VALUE(jvm.V2_OPTIONS(leaf), "subscribe")
                yield from (written or "").split(",")
            case "StreamingRelation":
                yield from files.get(directory_of(leaf), ())
            case _:
                pass


# ---- records behind the watermark


class TimeMark:
    """A time as an expression. It begins where Spark's watermark begins, at the epoch."""

    def __init__(self, spark: SparkSession) -> None:
        # Py4J makes Integers of small numbers. A double is always one, and exact for such times.
        self._holder = jvm.HOLDER(spark, 0.0)
        nothing = jvm.TO_LIST(jvm.NOTHING(spark))
        double = jvm.TYPE_OF_DDL(spark, "double")
        literal = jvm.LITERAL_OF(spark, self._holder)
        call = jvm.INVOKE(spark, literal, "get", double, nothing, nothing, True, False, True)
        millis = Column(jvm.COLUMN_OF(spark, call)).cast("bigint")
        self.column = F.timestamp_millis(millis)

    def move(self, time_ms: int) -> None:
        """Let the batches that are planned from now on have another time."""
        jvm.HOLD(self._holder, float(time_ms))


def _find_execution(frame: DataFrame, query_id: str) -> JavaObject | None:
    """Return how Spark runs the batch of a query that is under way; None: it does not run."""
    streams = jvm.STREAMS(jvm.session_of(frame.sparkSession))
    running = jvm.FIND_STREAM(streams, query_id)
    return None if running is None else jvm.LAST_EXECUTION(jvm.EXECUTION_OF(running))


def count_observed(
    frame: DataFrame, query_id: str, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    """Return the first numbers of each observation of the batch that a query runs.

    Of `names`, those that are not there are left out; of each there are `count` numbers.

    Requires: the rows of the batch have been computed.
    """
    execution = _find_execution(frame, query_id)
    return [] if execution is None else _read_observed(execution, names, count)


def count_observed_once(
    frame: DataFrame, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    """Return what `count_observed` does, of a frame that is no stream.

    Requires: its rows have been collected.
    """
    return _read_observed(jvm.execution_of(frame), names, count)


def _read_observed(
    execution: JavaObject, names: Iterable[str], count: int
) -> list[tuple[int, ...]]:
    observed = jvm.OBSERVED(execution)
    found = [jvm.MAP_GET(observed, name) for name in names]
    rows = [jvm.OPTION_GET(row) for row in found if jvm.IS_DEFINED(row)]
    return [tuple(int(jvm.ROW_LONG(row, place)) for place in range(count)) for row in rows]


# ---- idle inputs


class IdleInputs:
    """The inputs of one run of a query.

    `inputs`: with a watermark each; an input counts as idle by what it does from `now_s` on.
    `idle_after_s`: how long each topic may be silent.
    """

    def __init__(
        self, inputs: Sequence[TimeInput], idle_after_s: Mapping[str, float], now_s: float
    ) -> None:
        self._inputs = inputs
        self._idle_after_s = idle_after_s
        self._brought_s = {topic: now_s for each in inputs for topic in each.topics}
        self._marks: dict[str, int] = {}

    def brought(self, topics: Collection[str], now_s: float) -> bool:
        """Note what topics a batch has read records of; return whether an input is idle then.

        `now_s`: of the clock that `now_s` of the start was read from.
        """
        self._brought_s |= dict.fromkeys(topics, now_s)
        return len(self._inputs) > 1 and any(self._is_idle(each, now_s) for each in self._inputs)

    def topics_of(self, node: str) -> frozenset[str]:
        """Return the topics below a watermark."""
        return frozenset().union(*(each.topics for each in self._inputs if each.node == node))

    def take(self, marks: Mapping[str, int | None], now_s: float) -> dict[str, int]:
        """Take the times of a batch in; return the watermarks that idle inputs get, by their nodes.

        Batches may be left out: then watermarks advance later, and not as far.

        `marks`: what the records of the batch make of each watermark; None: there were none.
        """
        for node, mark_ms in marks.items():
            if mark_ms is not None:
                self._marks[node] = max(mark_ms, self._marks.get(node, mark_ms))
        if marks.keys() != {each.node for each in self._inputs}:
            return {}  # an input that is not known might be the slowest
        idle = [each.node for each in self._inputs if self._is_idle(each, now_s)]
        active = [self._marks.get(node) for node in marks.keys() - set(idle)]
        known = [mark_ms for mark_ms in active if mark_ms is not None]
        if not idle or not known or len(known) < len(active):
            return {}
        target = min(known)
        moved = {node: target for node in idle if self._marks.get(node, 0) < target}
        self._marks |= moved
        return moved

    def _is_idle(self, each: TimeInput, now_s: float) -> bool:
        return bool(each.topics) and all(
            now_s - self._brought_s[topic] >= self._idle_after_s[topic] for topic in each.topics
        )
