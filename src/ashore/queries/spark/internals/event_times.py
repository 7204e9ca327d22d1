"""The event times that inputs of a running query bring, and watermarks that advance without one.

What it is: `read_time_inputs`, the watermarks of a plan; `read_marks`, what a batch has moved them
to; `move_marks`, which lets an input that brought nothing have seen a time.
What it promises: what Spark makes of that is what it makes of a record with this event time: the
watermark after the batch stands in the checkpoint, with the batch that is done.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from ashore.queries.spark.internals.lateness import find_execution
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
    execution = find_execution(frame, query_id)
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
