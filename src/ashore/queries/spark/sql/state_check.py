"""What Spark alone would say of a query and the state that is there.

What it is: `compare_state`, with a copy of a checkpoint's outline.
What it promises: an answer, or why there is none; never an error. The copy itself stays as it is:
Spark works on copies of it.
"""

import tempfile
from collections.abc import Collection

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError
from ashore.plans.graph import PlanGraph
from ashore.plans.query import RefusedState, StateCheck
from ashore.plans.sources import list_topics
from ashore.queries.spark.internals import check_state
from ashore.queries.spark.sql.frames import PlannedFrame
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.directories import open_directory
from ashore.queries.state.layout import STATE, OffsetsFile, Settings
from ashore.queries.state.outline import copy_outline
from ashore.topics.run.spark.causes import innermost_cause, text_of

# Of these Spark compares all operators at once; any other is of the first one that it meets.
_OF_ALL = "STREAMING_STATEFUL_OPERATOR_"


def compare_state(planned: PlannedFrame, mode: str, outline: Checkpoint) -> StateCheck:
    """Return what Spark says.

    Arguments:
        planned: what the query selects.
        mode: what it hands to its sink; see OutputMode.
        outline: see `copy_outline`; on this machine.

    """
    try:
        offsets = outline.read_offsets(outline.read_position().planned)
        return _compare_sources(planned.graph, offsets) or _compare(planned, mode, outline, offsets)
    except AshoreError as error:
        return StateCheck(unknown=error.message)
    except (PySparkException, Py4JError) as error:
        return StateCheck(unknown=innermost_cause(text_of(error)))


def _compare_sources(graph: PlanGraph, offsets: OffsetsFile) -> StateCheck | None:
    """Return how Spark refuses another number of streams: it knows them by their order."""
    was, now = len(offsets.sources), len(list_topics(graph.sources))
    if was == now:
        return None
    return StateCheck(
        f"There are [{was}] sources in the checkpoint offsets and now there are [{now}]"
    )


def _compare(
    planned: PlannedFrame, mode: str, outline: Checkpoint, offsets: OffsetsFile
) -> StateCheck:
    settings = offsets.settings or Settings()
    error = _ask(planned, mode, outline, settings, None)
    if not error or error.startswith(_OF_ALL):
        return StateCheck(error)
    numbers = [node.state.operator_id for node in planned.graph.nodes if node.state]
    if len(numbers) == 1:
        return StateCheck(error, (RefusedState(numbers[0], error),))
    says = [RefusedState(each, _ask(planned, mode, outline, settings, [each])) for each in numbers]
    return StateCheck(error, tuple(each for each in says if each.error))


def _ask(
    planned: PlannedFrame,
    mode: str,
    outline: Checkpoint,
    settings: Settings,
    operators: Collection[int] | None,
) -> str:
    """Return the error of the first operator that Spark refuses: see `copy_outline`."""
    with tempfile.TemporaryDirectory(prefix="ashore-check-") as directory:
        copy = open_directory(f"{directory}/checkpoint", SystemClock())
        done = copy_outline(outline, copy, operators)
        if copy.read_position().planned == done:
            # As at a start: of a join Spark reads what the operator said before a planned batch.
            copy.plan(done + 1, copy.read_offsets(done))
        return check_state(planned.frame, mode, f"{copy.uri}/{STATE}", done + 1, settings)
