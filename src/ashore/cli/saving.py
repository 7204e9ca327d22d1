"""Savepoints that a command takes of a job once it has stopped.

What it is: `saving`, for `ashore run` and `ashore stop`.
What it promises: whether there can be savepoints is known before the job is touched.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.markup import escape

from ashore.base.clock import SystemClock
from ashore.cli.output import say, shown_progress
from ashore.jobs.events import SavepointTaken


@dataclass(frozen=True, slots=True)
class TakenSavepoint:
    """A savepoint of a query: what is printed of it, and its event."""

    lines: list[str]
    document: dict[str, object]
    event: SavepointTaken


def saving(job_file: Path, to: str, *, quiet: bool) -> Callable[[], list[TakenSavepoint]]:
    """Return what takes a savepoint of each query of a job that has stopped.

    Raises JobFileInvalid where the job has no query, or `to` can be no directory of savepoints.
    """
    from ashore.cli.savepoint_view import describe_saved  # noqa: PLC0415 - 0.5 s, where needed
    from ashore.queries.tools import savepoint_request  # noqa: PLC0415

    clock = SystemClock()
    savepoint_request.require_queries(str(job_file), to, clock)

    def describe(each: savepoint_request.SavedQuery) -> TakenSavepoint:
        (first, *others), document = describe_saved(each.saved)
        manifest = each.saved.manifest
        event = SavepointTaken(
            each.query,
            each.saved.savepoint.place,
            manifest.batch,
            len(manifest.files),
            manifest.size_bytes,
            round(1000 * each.saved.seconds),
        )
        lines = [f"{each.query}: {first}", *others]
        return TakenSavepoint(lines, {"query": each.query, **document}, event)

    def save() -> list[TakenSavepoint]:
        with shown_progress(quiet=quiet) as progress:
            saved = savepoint_request.save_each_query(
                str(job_file),
                to,
                clock,
                partial(progress, "copying"),
                lambda line: say(escape(line)),
            )
        return [describe(each) for each in saved]

    return save
