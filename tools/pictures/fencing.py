"""Slices, epochs and fencing: `open`, `append` and `look` of src/ashore/log/store/log.py."""

from collections.abc import Iterator

from ashore.errors import Fenced

from .shapes import Box, Kind, Line, Picture, Shape, Text

_LOG_Y, _A_Y, _B_Y = 152, 44, 266
_ENTRIES = (
    (150, ("41", "prepare")),
    (258, ("42", "prepare")),
    (414, ("43", "open")),
    (560, ("44", "prepare")),
)


def _log() -> Iterator[Shape]:
    yield Text(12, _LOG_Y + 24, "landing log", Kind.STRONG, "start")
    yield Text(12, _LOG_Y + 42, "of slice main", Kind.SMALL, "start")
    for x, lines in _ENTRIES:
        yield Box(x, _LOG_Y, 88, 54, lines, Kind.LOG)
    yield Text(248, _LOG_Y + 72, "epoch 3")
    yield Text(660, _LOG_Y + 24, "epoch 4, the highest:", Kind.SMALL, "start")
    yield Text(660, _LOG_Y + 42, "it owns the slice", Kind.SMALL, "start")
    yield Line(((404, _LOG_Y - 10), (404, _LOG_Y + 80)), Kind.MARK, has_tip=False)


def _first() -> Iterator[Shape]:
    yield Text(12, _A_Y + 24, "writer A", Kind.STRONG, "start")
    yield Text(12, _A_Y + 42, "host a", Kind.SMALL, "start")
    yield Box(150, _A_Y, 196, 54, ("lands batches", "in epoch 3"))
    yield Line(((194, _A_Y + 54), (194, _LOG_Y - 2)))
    yield Line(((302, _A_Y + 54), (302, _LOG_Y - 2)))
    yield Box(360, _A_Y, 150, 54, ("frozen", "or cut off"), Kind.STAGED)
    yield Line(((510, _A_Y + 27), (534, _A_Y + 27)))
    yield Box(536, _A_Y, 112, 54, ("wakes", "appends 43"))
    yield Line(((592, _A_Y + 54), (592, 126), (458, 126), (458, _LOG_Y - 2)), Kind.FAULT)
    yield Text(604, 128, "taken: exclusive creation fails", Kind.FAULT, "start")
    yield Line(((648, _A_Y + 27), (674, _A_Y + 27)))
    yield Box(676, _A_Y, 114, 54, ("fenced", f"exit code {Fenced.exit_code}"), Kind.FAULT)


def _second() -> Iterator[Shape]:
    yield Text(12, _B_Y + 24, "writer B", Kind.STRONG, "start")
    yield Text(12, _B_Y + 42, "any machine", Kind.SMALL, "start")
    yield Box(300, _B_Y, 100, 54, ("starts", "reads the log"))
    yield Line(((400, _B_Y + 27), (412, _B_Y + 27)))
    yield Box(414, _B_Y, 134, 54, ("opens", "and finishes 42"))
    yield Line(((458, _B_Y), (458, _LOG_Y + 56)))
    yield Line(((548, _B_Y + 27), (558, _B_Y + 27)))
    yield Box(560, _B_Y, 140, 54, ("goes on", "at the next offsets"))
    yield Line(((582, _B_Y), (582, _LOG_Y + 56)))


def _shapes() -> Iterator[Shape]:
    yield Text(788, 24, "time →", Kind.SMALL, "end")
    yield from _first()
    yield from _log()
    yield from _second()
    yield Line(((10, 342), (790, 342)), Kind.WEAK, has_tip=False)
    yield Text(12, 374, "one job", Kind.STRONG, "start")
    yield Text(12, 392, "its slices", Kind.SMALL, "start")
    yield Box(150, 356, 250, 54, ("main", "all topics that land"))
    yield Box(414, 356, 286, 54, ("ods__per_minute", "the INSERT into ods.per_minute"))
    yield Text(150, 430, "each has a log and epochs of its own", Kind.SMALL, "start")


PICTURE = Picture(
    "fencing",
    "Slices, epochs and fencing",
    "Writer A has landed entries 41 and 42 in epoch 3 and is frozen. Writer B reads the log, "
    "appends open as entry 43 with epoch 4, finishes the moves of entry 42 and goes on with entry "
    "44. When A wakes and wants to append 43, that number is taken: A is fenced and ends with exit "
    "code 3. A job has several slices, each with a log and epochs of its own.",
    800,
    444,
    tuple(_shapes()),
)
