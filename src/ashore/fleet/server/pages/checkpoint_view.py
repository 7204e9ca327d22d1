"""The checkpoints of a job on a page: partitions with their skew, chains, savepoints.

What it promises: reads only; a query whose checkpoint cannot be read is a section that says why.
"""

from statistics import median

from ashore.errors import AshoreError, CheckpointUnfit, RequestInvalid
from ashore.fleet.server.pages.drawing import named
from ashore.log import names
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.inspection import InspectedOperator, StorePart
from ashore.queries.state.savepoints.store import list_savepoints
from ashore.queries.tools.inspect import inspect
from ashore.topics.loop.job import lake_of
from ashore.topics.loop.sinks import sink_slice, sinks_of
from ashore.topics.open_job import OpenJob

SHOWN = 40  # partitions of an operator, the largest
BAR_WIDTH, BAR_HEIGHT = 160, 12
SKEWED = 2.0  # times the median: worth a word


def look_at_checkpoints(opened: OpenJob) -> list[dict[str, object]]:
    """Return what a page shows of the checkpoint of each query of a job. Raises StorageError."""
    job = opened.job
    shown = []
    for query, sink in sinks_of(job).items():
        savepoints = list_savepoints(_savepoints_of(opened, query))
        found, operators = None, list[dict[str, object]]()
        error: AshoreError | None = None
        is_new = False
        try:
            found = inspect(str(job.path), query, None, opened.clock)
            operators = [view_operator(each) for each in found.operators]
        except CheckpointUnfit as failed:
            # What a query that has just started lacks is no damage.
            is_new = opened.fold(sink_slice(job.job, sink)).query is None
            error = None if is_new else failed
        except AshoreError as failed:
            error = failed
        view: dict[str, object] = {"query": query, "found": found, "error": error}
        view["is_new"] = is_new
        shown.append(view | {"operators": operators, "savepoints": savepoints})
    return shown


def find_directory(query: str, opened: OpenJob) -> str:
    """Return where savepoints of a query are kept beside the job's log. Raises RequestInvalid."""
    if query not in sinks_of(opened.job):
        raise RequestInvalid(
            f"{opened.job.job} has no query {query[:100]}",
            hint=f"there is {', '.join(sinks_of(opened.job)) or 'none'}",
        )
    return _savepoints_of(opened, query).place


def _savepoints_of(opened: OpenJob, query: str) -> CheckpointStore:
    name = sink_slice(opened.job.job, sinks_of(opened.job)[query])
    path = names.savepoint_directory(name)
    return CheckpointStore(opened.storage, path, f"{lake_of(opened.job).uri}/{path}")


def view_operator(operator: InspectedOperator) -> dict[str, object]:
    """Return what a page shows of an operator: its largest partitions, with bars."""
    largest = sorted(operator.parts, key=lambda each: -each.size_bytes)[:SHOWN]
    shown = sorted(largest, key=lambda each: (each.partition, each.store))
    top = max((each.size_bytes for each in shown), default=0) or 1
    return {
        "operator": operator,
        "parts": [(each, _bar(each.size_bytes / top)) for each in shown],
        "hidden": len(operator.parts) - len(shown),
        "skew": describe_skew(operator.parts),
    }


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
