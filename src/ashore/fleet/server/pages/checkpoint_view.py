"""The checkpoints of a job on a page: partitions with their skew, chains, savepoints.

What it is: `look_at_checkpoints`, which asks, and the values that a page shows.
What it promises: reads only; a query whose checkpoint cannot be read is a section that says why.
"""

from dataclasses import dataclass
from statistics import median

from ashore.errors import AshoreError
from ashore.fleet.server.pages.drawing import named
from ashore.log import names
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.inspection import InspectedOperator, Inspection, StorePart
from ashore.queries.state.savepoints.store import FoundSavepoint, list_savepoints
from ashore.queries.tools.inspect import inspect
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import sink_slice, sinks_of
from ashore.topics.open_job import OpenJob

SHOWN = 40  # partitions of an operator, the largest
BAR_WIDTH, BAR_HEIGHT = 160, 12
SKEWED = 2.0  # times the median: worth a word


@dataclass(frozen=True, slots=True)
class PartitionBar:
    """A partition of an operator's state, with its size as a bar."""

    part: StorePart
    bar: str  # SVG


@dataclass(frozen=True, slots=True)
class OperatorView:
    """An operator that keeps state."""

    operator: InspectedOperator
    parts: tuple[PartitionBar, ...]
    hidden: int
    skew: str


@dataclass(frozen=True, slots=True)
class SavepointRow:
    """A savepoint of a query; numbers are None where it is damaged."""

    place: str
    batch: int | None
    size_bytes: int | None
    taken_ms: int | None


@dataclass(frozen=True, slots=True)
class CheckpointView:
    """The checkpoint of a query: what was found, or why nothing was."""

    query: str
    found: Inspection | None
    error: AshoreError | None
    operators: tuple[OperatorView, ...]
    savepoints: tuple[SavepointRow, ...]


def look_at_checkpoints(opened: OpenJob) -> tuple[CheckpointView, ...]:
    """Return the checkpoints of all queries of a job. Raises StorageError."""
    job, lake = opened.job, lake_of(opened.job)
    found = []
    for query, sink in sinks_of(job).items():
        path = names.savepoint_directory(sink_slice(job.job, sink))
        there = list_savepoints(CheckpointStore(opened.storage, path, f"{lake.uri}/{path}"))
        rows = tuple(_row(each) for each in there)
        try:
            inspected = inspect(str(job.path), query, None, opened.clock)
        except AshoreError as error:
            found.append(CheckpointView(query, None, error, (), rows))
            continue
        operators = tuple(view_operator(each) for each in inspected.operators)
        found.append(CheckpointView(query, inspected, None, operators, rows))
    return tuple(found)


def view_operator(operator: InspectedOperator) -> OperatorView:
    """Return an operator with bars: its largest partitions, in their order."""
    largest = sorted(operator.parts, key=lambda each: -each.size_bytes)[:SHOWN]
    shown = sorted(largest, key=lambda each: (each.partition, each.store))
    top = max((each.size_bytes for each in shown), default=0) or 1
    bars = tuple(PartitionBar(each, _bar(each.size_bytes / top)) for each in shown)
    hidden = len(operator.parts) - len(shown)
    return OperatorView(operator, bars, hidden, describe_skew(operator.parts))


def describe_skew(parts: tuple[StorePart, ...]) -> str:
    """Return how even partitions are, in words."""
    sizes: dict[int, int] = {}
    for each in parts:
        sizes[each.partition] = sizes.get(each.partition, 0) + each.size_bytes
    if len(sizes) < 2 or not (middle := median(sizes.values())):
        return "It has one partition, or nothing in most: there is no skew to see."
    largest = max(sizes, key=lambda each: sizes[each])
    times = sizes[largest] / middle
    if times < SKEWED:
        return f"Even: the largest partition has {times:.1f} times the median."
    return f"Skewed: partition {largest} has {times:.1f} times the median. Is one key frequent?"


def _bar(part: float) -> str:
    width = max(1.0, part * BAR_WIDTH)
    return (
        f'<svg class="bar" viewBox="0 0 {BAR_WIDTH} {BAR_HEIGHT}" width="{BAR_WIDTH}" '
        f'height="{BAR_HEIGHT}" {named(f"{part:.0%} of the largest")}>'
        f'<rect width="{width:.1f}" height="{BAR_HEIGHT}"/></svg>'
    )


def _row(found: FoundSavepoint) -> SavepointRow:
    manifest, place = found.manifest, found.savepoint.place
    if manifest is None:
        return SavepointRow(f"{place}: {found.problem}", None, None, None)
    return SavepointRow(place, manifest.batch, manifest.size_bytes, manifest.made_ms)
