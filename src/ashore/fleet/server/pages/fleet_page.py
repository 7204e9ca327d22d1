"""The list of all jobs as HTML, kept for as long as it is what jobs are at.

What it is: `FleetPage`, and `list_jobs`, which makes it of what is to be shown.
What it promises: however many look, a list is made once for what it shows and at most a second old;
of jobs that are as they were, no row is made again.
What it must not know: who looks, but for what they may read.
"""

import threading
import time
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from ashore.base.recent import Recent
from ashore.fleet.access.tokens import Grant, is_in_scope
from ashore.fleet.server.pages.control_plane import ControlPlane
from ashore.fleet.server.pages.fleet_view import FleetView, JobRow, view_fleet
from ashore.fleet.server.pages.render import render

AGE_S_MAX = 1.0
KEPT_MAX = 64  # orders and filters
ROWS_MAX = 4_096


class ListedRows(NamedTuple):
    """Which list: its order, the words of its rows, what its reader may read (see `scope`)."""

    sort: str
    words: str
    scope: tuple[Grant, ...]


class MadeList(NamedTuple):
    """The list of jobs, and the stamp of what it shows."""

    stamp: str
    made_s: float
    html: Markup


def list_jobs(
    view: FleetView, directory: str, problem: str = "", *, is_part: bool = False
) -> Markup:
    """Return the part of the page below its head.

    Arguments:
        view: the jobs.
        directory: where job files are looked for.
        problem: of the server itself.
        is_part: whether its reader may not read every job.

    """
    shown = {"view": view, "rows": [_row(each) for each in view.rows], "directory": directory}
    return Markup(render("jobs_main.html", **shown, problem=problem, is_part=is_part))  # noqa: S704


@lru_cache(ROWS_MAX)
def _row(row: JobRow) -> Markup:
    return Markup(render("jobs_row.html", row=row))  # noqa: S704 - a template escapes what it shows


class FleetPage:
    """Lists of jobs in any order. May be used by many threads."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._lock = threading.Lock()
        self._made = Recent[ListedRows, MadeList](KEPT_MAX)

    def known(self, which: ListedRows) -> MadeList | None:
        """Return a list that may still be shown. Never waits."""
        made = self._made.get(which)
        is_fresh = made is not None and time.monotonic() - made.made_s < AGE_S_MAX
        return made if is_fresh and made and made.stamp == self._plane.stamp(None) else None

    def make(self, which: ListedRows) -> MadeList:
        """Return a list, made by one thread where several ask at once."""
        with self._lock:
            made = self.known(which)
            if made is None:
                stamp = self._plane.stamp(None)
                jobs = [each for each in self._plane.jobs() if self._is_shown(each.name, which)]
                view = view_fleet(jobs, which.sort, which.words)
                told = (self._plane.directory, self._plane.problem)
                html = list_jobs(view, *told, is_part=bool(which.scope))
                made = self._made.put(which, MadeList(stamp, time.monotonic(), html))
            return made

    def _is_shown(self, job: str, which: ListedRows) -> bool:
        return is_in_scope(which.scope, self._plane.labels(job))
