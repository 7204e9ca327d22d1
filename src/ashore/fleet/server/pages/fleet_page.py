"""The list of all jobs: what each row shows, and its HTML, kept while nothing has changed.

What it is: `view_fleet`, from jobs as they were last seen; `FleetPage`, and `list_jobs`, its HTML.
What it promises: jobs that need a person come first unless another order is asked for. However many
look, a list is made once for what it shows and at most a second old; of jobs that are as they were,
no row is made again.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from ashore.base.labels import label_texts
from ashore.base.recent import Recent
from ashore.base.units import format_duration, format_lag
from ashore.fleet.access.tokens import Grant, is_in_scope
from ashore.fleet.server.condition import Need, SeenJob, judge_condition
from ashore.fleet.server.pages.drawing import sparkline
from ashore.fleet.server.pages.render import render
from ashore.fleet.server.pages.supervision import SupervisedJobs

HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in the list of all."""

    name: str
    state: str
    since: str
    lag: int | None
    lag_text: str
    records_per_s: float | None
    last_age_ms: int | None  # of the newest entry
    is_recent: bool  # it came to its state within the last hour
    landed: int
    needs: tuple[Need, ...]
    level: int  # how much it needs a person; 0: it does not
    picture: str  # SVG of the rate
    labels: tuple[str, ...] = ()  # as `team=payments`


@dataclass(frozen=True, slots=True)
class FleetView:
    """All jobs, and how many are at what."""

    rows: tuple[JobRow, ...]
    states: tuple[tuple[str, int], ...]
    teams: tuple[tuple[str, int, int], ...]  # label, jobs, and those that need a person
    ages: tuple[tuple[str, int], ...]  # of the newest entries
    changed: int  # came to their states within the last hour
    needing: int
    hidden: int  # rows that the filter leaves out
    sort: str
    words: str  # that rows are filtered by


AGES = (("below 1 min", 60_000), ("below 10 min", 600_000), ("below 1 h", HOUR_MS))
TEAM = "team="
_NONE_LAST = float("-inf")
SORTS: dict[str, Callable[[JobRow], tuple[object, ...]]] = {
    "need": lambda row: (-row.level, row.name),
    "name": lambda row: (row.name,),
    "state": lambda row: (row.state, row.name),
    "lag": lambda row: (-(_NONE_LAST if row.lag is None else row.lag), row.name),
    "rate": lambda row: (-(_NONE_LAST if row.records_per_s is None else row.records_per_s),),
    "age": lambda row: (-(_NONE_LAST if row.last_age_ms is None else row.last_age_ms), row.name),
}


def view_fleet(jobs: Sequence[SeenJob], sort: str = "need", words: str = "") -> FleetView:
    """Return the page of all jobs. `words`: all of them have to be in a row."""
    order = sort if sort in SORTS else "need"
    rows = sorted((view_row(each) for each in jobs), key=SORTS[order])
    shown = tuple(each for each in rows if _has(each, words))
    states = Counter(each.state for each in rows)
    ages = Counter(_age_of(each.last_age_ms) for each in rows)
    named = (*(name for name, _ in AGES), "1 h or more", "no entry")
    return FleetView(
        rows=shown,
        states=tuple(sorted(states.items())),
        teams=_teams(rows),
        ages=tuple((name, ages[name]) for name in named if ages[name]),
        changed=sum(each.is_recent for each in rows),
        needing=sum(1 for each in rows if each.level),
        hidden=len(rows) - len(shown),
        sort=order,
        words=words,
    )


def _age_of(age_ms: int | None) -> str:
    if age_ms is None:
        return "no entry"
    return next((name for name, limit_ms in AGES if age_ms < limit_ms), "1 h or more")


def _teams(rows: Sequence[JobRow]) -> tuple[tuple[str, int, int], ...]:
    labels = [(each.level, label) for each in rows for label in each.labels]
    found = [(level, label) for level, label in labels if label.startswith(TEAM)]
    jobs = Counter(label for _, label in found)
    needing = Counter(label for level, label in found if level)
    return tuple((label, count, needing[label]) for label, count in sorted(jobs.items()))


def _has(row: JobRow, words: str) -> bool:
    texts = (row.name, row.state, *row.labels, *(each.text for each in row.needs))
    text = " ".join(texts).casefold()
    return all(word in text for word in words.casefold().split())


def view_row(seen: SeenJob) -> JobRow:
    """Return the row of a job."""
    found, now_ms = judge_condition(seen), seen.seen_ms
    rates = tuple(each.records_per_s for each in seen.samples)
    since_ms, entry_ms, lag_ms = found.since_ms, found.last_entry_ms, found.lag_at_ms
    return JobRow(
        name=found.name,
        state=found.state,
        since="" if since_ms is None else format_duration(max(0, now_ms - since_ms)),
        lag=found.lag,
        lag_text=format_lag(found.lag, None if lag_ms is None else max(0, now_ms - lag_ms)),
        records_per_s=found.records_per_s,
        last_age_ms=None if entry_ms is None else max(0, now_ms - entry_ms),
        is_recent=since_ms is not None and now_ms - since_ms < HOUR_MS,
        landed=found.landed,
        needs=found.needs,
        level=found.level,
        picture=sparkline(rates, f"records per second of {seen.name}, lately"),
        labels=label_texts(seen.labels),
    )


AGE_S_MAX = 1.0
KEPT_MAX = 64  # orders and filters
ROWS_MAX = 4_096


class ListedRows(NamedTuple):
    """Which list: its order, the words of its rows, what its reader may read (see `scope`), and
    whether it is the page for a wall.
    """

    sort: str
    words: str
    scope: tuple[Grant, ...]
    is_wall: bool = False


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
    shown = {"view": view, "rows": [_row_html(each) for each in view.rows], "directory": directory}
    return Markup(render("jobs_main.html", **shown, problem=problem, is_part=is_part))  # noqa: S704


def show_wall(view: FleetView, problem: str = "") -> Markup:
    """Return the page for a wall: each job as a cell, those that need a person in words."""
    return Markup(render("wall_main.html", view=view, problem=problem))  # noqa: S704


@lru_cache(ROWS_MAX)
def _row_html(row: JobRow) -> Markup:
    return Markup(render("jobs_row.html", row=row))  # noqa: S704 - a template escapes what it shows


class FleetPage:
    """Lists of jobs in any order. May be used by many threads."""

    def __init__(self, plane: SupervisedJobs) -> None:
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
                labels, scope = self._plane.labels, which.scope
                jobs = [
                    each for each in self._plane.jobs() if is_in_scope(scope, labels(each.name))
                ]
                view = view_fleet(jobs, which.sort, which.words)
                if which.is_wall:
                    html = show_wall(view, self._plane.problem)
                else:
                    server = (self._plane.directory, self._plane.problem)
                    html = list_jobs(view, *server, is_part=bool(which.scope))
                made = self._made.put(which, MadeList(stamp, time.monotonic(), html))
            return made
