"""All jobs on one page: what each row shows.

What it is: `view_fleet`, from jobs as they were last seen.
What it promises: pure; those that need somebody come first unless another order is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ashore.base.units import format_duration
from ashore.control.state import JobState
from ashore.control.status import JobStatus
from ashore.server.pages.control_plane import SeenJob
from ashore.server.pages.drawing import sparkline
from ashore.server.pages.needs import Need, find_needs

UNREADABLE = "not readable"


@dataclass(frozen=True, slots=True)
class JobRow:
    """A job in the list of all."""

    name: str
    state: str
    since: str
    lag: int | None
    records_per_s: float | None
    last_age_ms: int | None  # of the newest entry
    landed: int
    needs: tuple[Need, ...]
    picture: str  # SVG of the rate

    @property
    def level(self) -> int:
        """How much it needs somebody; 0: it does not."""
        return max((each.level for each in self.needs), default=0)


@dataclass(frozen=True, slots=True)
class FleetView:
    """All jobs, and how many are at what."""

    rows: tuple[JobRow, ...]
    states: tuple[tuple[str, int], ...]
    needing: int
    hidden: int  # rows that the filter leaves out
    sort: str
    words: str  # that rows are filtered by


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
    states: dict[str, int] = {}
    for each in rows:
        states[each.state] = states.get(each.state, 0) + 1
    needing = sum(1 for each in rows if each.level)
    hidden = len(rows) - len(shown)
    return FleetView(shown, tuple(sorted(states.items())), needing, hidden, order, words)


def _has(row: JobRow, words: str) -> bool:
    texts = (row.name, row.state, *(each.text for each in row.needs))
    text = " ".join(texts).casefold()
    return all(word in text for word in words.casefold().split())


def view_row(seen: SeenJob) -> JobRow:
    """Return the row of a job."""
    status, fresh = seen.row.status, seen.fresh
    rates = tuple(each.records_per_s for each in seen.samples)
    commit_ms = fresh.last_commit_ms if fresh else None
    told_ms = None if commit_ms is None else max(0, seen.seen_ms - commit_ms)
    lag, rate = (fresh.lag, fresh.records_per_s) if fresh else (None, None)
    state, since = state_of(seen)
    return JobRow(
        name=seen.name,
        state=state,
        since=since,
        lag=lag if lag is not None or status is None else status.lag,
        records_per_s=rate if rate is not None or status is None else rate_of_job(status),
        last_age_ms=told_ms if told_ms is not None or status is None else age_of(status),
        landed=0 if status is None else sum(each.landed for each in status.slices),
        needs=find_needs(seen),
        picture=sparkline(rates, f"records per second of {seen.name}, lately"),
    )


def state_of(seen: SeenJob) -> tuple[str, str]:
    """Return what a job is at, and for how long; empty: nobody knows."""
    status, supervised = seen.row.status, seen.supervised
    if supervised is None:
        return (UNREADABLE, "") if status is None else (str(status.state), since_of(status))
    runs = supervised.phase == "running"
    if runs and status is not None and status.state in {JobState.STUCK, JobState.IDLE}:
        return str(status.state), since_of(status)
    since = format_duration(max(0, seen.seen_ms - supervised.since_ms))
    return supervised.phase.replace("-", " "), since


def since_of(status: JobStatus) -> str:
    """Return for how long a job is at what it is at; empty: nobody knows."""
    if status.since_ms is None:
        return ""
    return format_duration(max(0, status.now_ms - status.since_ms))


def rate_of_job(status: JobStatus) -> float | None:
    """Return records per second over all slices; None: there are too few batches."""
    known = [each.records_per_s for each in status.slices if each.records_per_s is not None]
    return sum(known) if known else None


def age_of(status: JobStatus) -> int | None:
    """Return how old the newest entry of a job is."""
    return min((each.last.age_ms for each in status.slices if each.last), default=None)
