"""All jobs on one page: what each row shows.

What it is: `view_fleet`, from jobs as they were last seen.
What it promises: pure; those that need somebody come first unless another order is asked for.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ashore.base.labels import label_texts
from ashore.base.units import format_duration, format_lag
from ashore.fleet.server.condition import judge_condition
from ashore.fleet.server.needs import Need
from ashore.fleet.server.observation import SeenJob
from ashore.fleet.server.pages.drawing import sparkline


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
        landed=found.landed,
        needs=found.needs,
        level=found.level,
        picture=sparkline(rates, f"records per second of {seen.name}, lately"),
        labels=label_texts(seen.labels),
    )
