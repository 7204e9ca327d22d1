"""What a query would miss that began anew, and read its topics from where its log begins.

What it is: `ReplayLook`, and `find_missing_records`, from the log's first offsets and the earliest
that the source still has.
What it promises: pure. Nothing is complete that was not looked at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ashore.log.fold import ShardState
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.plans.graph import KEYS, PlanGraph, Window, WindowKind

_US = 1000  # in a millisecond


@dataclass(frozen=True, slots=True)
class TimeRange:
    """The event times of some records, in milliseconds: of the first and of the last."""

    first_ms: int
    last_ms: int


@dataclass(frozen=True, slots=True)
class WrongWindows:
    """Windows that a replay would compute without some of their records. Times are in ms."""

    text: str  # which windows: `window 1 hour`
    first_ms: int  # where the first of them begins
    end_ms: int  # where the last of them ends


@dataclass(frozen=True, slots=True)
class ReplayLook:
    """What was found."""

    # offsets that the query has read and the source has no more, sorted
    missing: tuple[ShardRange, ...] = ()
    unknown: str = ""  # why the source could not be looked at; empty: it was
    # that hold records of those offsets, whose files say their event times
    tables: tuple[str, ...] = ()
    times: TimeRange | None = None  # of these records; None: only offsets are known
    windows: tuple[WrongWindows, ...] = ()  # that hold any of them

    @property
    def is_complete(self) -> bool:
        """Whether a replay reads all that the query has read."""
        return not self.unknown and not self.missing


def find_missing_records(
    known: Iterable[ShardState], earliest: Mapping[ShardKey, int]
) -> tuple[ShardRange, ...]:
    """Return the offsets that a query has read and a replay would not; not each holds a record.

    `known`: the shards of its log. `earliest`: the first offset that the source has of each now;
    none of one whose topic is gone, or is another of the same name.
    """
    found = []
    for state in known:
        end = min(max(state.first, earliest.get(state.key, state.next)), state.next)
        if end > state.first:
            found.append(ShardRange(state.key, OffsetRange(state.first, end)))
    return tuple(sorted(found))


def find_wrong_windows(graph: PlanGraph, times: TimeRange) -> tuple[WrongWindows, ...]:
    """Return the windows of a query that event times are in; of sessions nothing is known.

    Of windows without a watermark neither: they may be of another time than that of the topic.
    """
    windows = {
        graph.terms[term].window
        for node in graph.nodes
        if node.state and node.state.has_event_time
        for name in KEYS
        for term in node.terms(name)
    }
    found = [_find(window, times) for window in windows if window is not None]
    return tuple(sorted((each for each in found if each), key=lambda each: each.text))


def _find(window: Window, times: TimeRange) -> WrongWindows | None:
    length, slide = window.length_us, window.slide_us
    if window.kind is not WindowKind.REGULAR or not length or not slide:
        return None
    last = _floor(times.last_ms * _US, slide, window.offset_us)
    first = _floor(times.first_ms * _US - length, slide, window.offset_us) + slide
    return WrongWindows(window.text, first // _US, (last + length) // _US)


def _floor(time_us: int, slide_us: int, offset_us: int) -> int:
    """Return where the last window begins that does not begin after a time."""
    return (time_us - offset_us) // slide_us * slide_us + offset_us
