"""When a partition is sealed: `plan_seal` of src/ashore/log/plan_seal.py on a time line.

A test has `plan_seal` decide at each minute of it.
"""

from collections.abc import Iterator
from itertools import pairwise

from ashore.jobs.file.tables import SealSection
from ashore.log.names import success_name

from .shapes import Box, Kind, Line, Picture, Shape, Text

_LEFT, _RIGHT = 68, 788
_TOP, _BOTTOM = 52, 322
FROM, UNTIL = 8 * 60 + 50, 9 * 60 + 50  # minutes of the day
_LOWEST, _HIGHEST = 8 * 60 + 45, 9 * 60 + 50

DELAY = SealSection().delay_ms // 60_000
_END, DUE = 9 * 60, 9 * 60 + DELAY  # of hour=08, and seal.delay later
SEALED, LATE = 9 * 60 + 24, 9 * 60 + 29
AGAIN = SEALED + DELAY

# (clock, highest event time): a quick topic partition, and one that stands still for a while.
_FAST = ((FROM, 8 * 60 + 49), (UNTIL, 9 * 60 + 49))
_SLOW = (
    *((FROM, 8 * 60 + 46), (9 * 60 + 3, 8 * 60 + 58), (9 * 60 + 18, 8 * 60 + 58)),
    *((SEALED, DUE), (9 * 60 + 36, 9 * 60 + 32), (UNTIL, 9 * 60 + 46)),
)
_STATES = (
    (FROM, DUE, ("open", "rows land in it"), Kind.BOX),
    (DUE, SEALED, ("due, not sealed", "status says why"), Kind.STAGED),
    (SEALED, AGAIN, ("version 1", success_name(1)), Kind.TABLE),
    (AGAIN, UNTIL, ("version 2", success_name(2)), Kind.TABLE),
)


def _x(clock: float) -> float:
    return _LEFT + (clock - FROM) * (_RIGHT - _LEFT) / (UNTIL - FROM)


def _y(event_time: float) -> float:
    return _BOTTOM - (event_time - _LOWEST) * (_BOTTOM - _TOP) / (_HIGHEST - _LOWEST)


def _clock(minute: int) -> str:
    return f"{minute // 60:02}:{minute % 60:02}"


def watermark(clock: int) -> float:
    """Return the lowest of the highest event times at a minute of the clock."""
    return min(_at(curve, clock) for curve in (_FAST, _SLOW))


def _at(curve: tuple[tuple[int, int], ...], clock: int) -> float:
    for (start, low), (end, high) in pairwise(curve):
        if start <= clock <= end:
            return low + (high - low) * (clock - start) / (end - start)
    return curve[-1][1]


def _axes() -> Iterator[Shape]:
    yield Line(((_LEFT, _TOP), (_LEFT, _BOTTOM), (_RIGHT, _BOTTOM)), Kind.WAY, has_tip=False)
    yield Text(_LEFT - 58, 30, "event time", Kind.STRONG, "start")
    yield Text(_RIGHT, 30, f"seal.delay is {DELAY} min, its default", Kind.SMALL, "end")
    for minute in (_END, DUE):
        kind = Kind.MARK if minute == DUE else Kind.WEAK
        yield Line(((_LEFT, _y(minute)), (_RIGHT, _y(minute))), kind, has_tip=False)
        yield Text(_LEFT - 8, _y(minute) + 4, _clock(minute), Kind.SMALL, "end")
    yield Text(_RIGHT - 4, _y(_END) - 6, "end of hour=08", Kind.SMALL, "end")
    yield Text(_RIGHT - 4, _y(DUE) - 6, "its end + seal.delay", Kind.SMALL, "end")
    for minute in (_END, DUE, SEALED, AGAIN):
        yield Text(_x(minute), _BOTTOM + 18, _clock(minute))
    yield Text(_LEFT - 8, _BOTTOM + 18, "clock", Kind.STRONG, "end")


def _curves() -> Iterator[Shape]:
    for points, kind in ((_FAST, Kind.CURVE2), (_SLOW, Kind.CURVE)):
        yield Line(tuple((_x(clock), _y(at)) for clock, at in points), kind, has_tip=False)
    yield Text(_x(9 * 60 + 10), 76, "highest event time of topic partition 0")
    yield Line(((_x(9 * 60 + 21), 82), (_x(9 * 60 + 26), _y(9 * 60 + 25) - 3)), Kind.WAY)
    below = _y(9 * 60 + 24)
    yield Text(_RIGHT - 4, below, "of topic partition 1, the lowest:", Kind.SMALL, "end")
    yield Text(_RIGHT - 4, below + 17, "the watermark of the table", Kind.SMALL, "end")
    for minute in (DUE, SEALED):
        x = _x(minute)
        yield Line(((x, _BOTTOM), (x, _y(DUE))), Kind.MARK, has_tip=False)


def _shapes() -> Iterator[Shape]:
    yield from _axes()
    yield from _curves()
    late = (_x(LATE), _y(8 * 60 + 55))
    yield Box(late[0] - 4, late[1] - 4, 8, 8, (), Kind.FAULT)
    yield Text(late[0] + 10, late[1] + 4, "a row of 08:55 lands after all", Kind.FAULT, "start")
    for begin, end, lines, kind in _STATES:
        yield Box(_x(begin) + 1, 352, _x(end) - _x(begin) - 2, 50, lines, kind)
    yield Text(_LEFT - 8, 382, "hour=08", Kind.SMALL, "end")
    yield Text(_x(DUE), 422, f"clock past {_clock(DUE)}")
    yield Text(_x(SEALED), 422, f"watermark past {_clock(DUE)}")
    yield Text(_x(AGAIN) + 6, 422, f"{DELAY} min after version 1", Kind.SMALL, "start")


PICTURE = Picture(
    "sealing",
    "When a partition is sealed",
    "Clock against event time. Two topic partitions bring records; the watermark is the lowest of "
    "their highest event times. The partition hour=08 is due when the clock is ten minutes past "
    "its end, and sealed as version 1 when the watermark is, too. A row that lands in it later "
    "makes version 2, ten minutes after version 1 at the earliest.",
    800,
    438,
    tuple(_shapes()),
)
