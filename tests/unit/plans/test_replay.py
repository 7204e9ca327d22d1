"""What a query would miss that began anew."""

import pytest

from ashore.log.fold import ShardState
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.plans.change.replay import (
    TimeRange,
    WrongWindows,
    find_missing_records,
    find_wrong_windows,
)
from ashore.plans.graph import (
    KEYS,
    OperatorState,
    PlanGraph,
    PlanNode,
    Term,
    TermKind,
    Window,
    WindowKind,
)

KEY = ShardKey("kafka", "clicks", 1, "0")
MINUTE_MS = 60_000
MINUTE_US = 1000 * MINUTE_MS


def shard(first: int, following: int, key: ShardKey = KEY) -> ShardState:
    return ShardState(key, "id", first, following, *[0] * 8, None, 0)


@pytest.mark.parametrize(
    ("first", "following", "earliest", "gone"),
    [
        (0, 10, 0, None),
        (5, 10, 3, None),  # deleted before the log began
        (5, 10, 5, None),
        (5, 10, 6, (5, 6)),
        (5, 10, 10, (5, 10)),
        (5, 10, 99, (5, 10)),  # what was not read yet is lost in any case
        (5, 5, 99, None),
        (5, 10, None, (5, 10)),  # the topic is gone, or another one
    ],
)
def test_what_is_gone_lies_between_the_logs_first_and_kafkas_earliest(
    first: int, following: int, earliest: int | None, gone: tuple[int, int] | None
) -> None:
    there = {} if earliest is None else {KEY: earliest}
    found = find_missing_records([shard(first, following)], there)
    assert found == (() if gone is None else (ShardRange(KEY, OffsetRange(*gone)),))


def graph_of(window: Window, *, has_event_time: bool = True) -> PlanGraph:
    term = Term(TermKind.WINDOW, window=window)
    state = OperatorState(0, 2, has_event_time=has_event_time)
    node = PlanNode("StateStoreSaveExec", (), ((KEYS[0], (0,)),), state=state)
    return PlanGraph((), (term,), (node,), ())


@pytest.mark.parametrize(
    ("length", "slide", "offset", "first", "last", "wrong"),
    [
        (5, 5, 0, 7, 7, (5, 10)),
        (5, 5, 0, 5, 12, (5, 15)),
        (5, 5, 1, 5, 5, (1, 6)),
        (10, 5, 0, 7, 7, (0, 15)),
        (10, 5, 0, 10, 10, (5, 20)),
    ],
)
def test_windows_are_those_that_hold_one_of_the_records(
    length: int, slide: int, offset: int, first: int, last: int, wrong: tuple[int, int]
) -> None:
    units = (each * MINUTE_US for each in (length, slide, offset))
    window = Window(WindowKind.REGULAR, *units)
    times = TimeRange(first * MINUTE_MS, last * MINUTE_MS)
    (found,) = find_wrong_windows(graph_of(window), times)
    assert found == WrongWindows(window.text, *(each * MINUTE_MS for each in wrong))


def test_of_windows_without_a_watermark_and_of_sessions_nothing_is_said() -> None:
    times = TimeRange(0, 1)
    minute = Window(WindowKind.REGULAR, MINUTE_US, MINUTE_US)
    assert find_wrong_windows(graph_of(minute, has_event_time=False), times) == ()
    session = Window(WindowKind.SESSION, gap="5 minutes")
    assert find_wrong_windows(graph_of(session), times) == ()
