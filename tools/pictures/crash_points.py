"""What a process leaves behind at each step of a batch, and what the next start makes of it.

The steps are those of src/ashore/topics/loop/slice_loop.py and committer.py; what a start does is
`LandingLog.open` and then `Committer.finish`.
"""

from collections.abc import Iterator
from typing import NamedTuple

from .shapes import Box, Kind, Line, Picture, Shape, Text

_TOP, _HEIGHT = 58, 58
_STAGED_X, _LOG_X, _TABLE_X, _NEXT_X = 140, 232, 372, 474
_COMMIT_GAP = 34  # for the line between the two outcomes of step 3


class Row(NamedTuple):
    """A step, what is on storage when the process dies in it, and what the next start does."""

    step: str
    where: str
    staged: int  # files
    log: tuple[str, ...]  # entries
    table: int  # files
    then: tuple[str, ...]


ROWS = (
    Row(
        *("1. Plan", "", 0, ("41",), 0),
        ("finds the files of entry 41 moved; plans anew,", "at the offsets where 41 ends"),
    ),
    Row(
        *("2. Write", "", 2, ("41",), 0),
        (
            "reads the same offsets again, into new files;",
            "the janitor deletes the old ones later",
        ),
    ),
    Row(
        *("3. Prepare", "before entry 42", 2, ("41",), 0),
        ("does as above: a file that no entry lists", "does not count"),
    ),
    Row(
        *("3. Prepare", "entry 42 is there", 2, ("41", "42"), 0),
        ("moves the two files, also where the writer", "was never told that its entry is there"),
    ),
    Row(
        *("4. Move", "", 1, ("41", "42"), 1),
        ("moves what is not yet moved, and finds the", "rest at its final name"),
    ),
    Row(
        *("5. Publish", "", 0, ("41", "42"), 2),
        ("finds all files moved; repeats the calls to", "the catalog, which may be repeated"),
    ),
    Row(
        *("6. Close", "43 closes 42", 0, ("41", "42", "43"), 2),
        ("has nothing to finish for entry 42; without", "43 it does as above"),
    ),
)


def _files(x: float, middle: float, count: int, kind: Kind) -> Iterator[Shape]:
    for number in range(count):
        yield Box(x + 34 * number, middle - 17, 26, 34, (), kind)


def _draw(row: Row, top: float) -> Iterator[Shape]:
    middle = top + _HEIGHT / 2
    lines = (row.step, row.where) if row.where else (row.step,)
    yield Box(10, top + 6, 118, _HEIGHT - 12, lines)
    yield from _files(_STAGED_X + 12, middle, row.staged, Kind.STAGED)
    for number, entry in enumerate(row.log):
        x = _LOG_X + 8 + 42 * number
        yield Box(x, middle - 14, 36, 28, (entry,), Kind.LOG)
    yield from _files(_TABLE_X + 20, middle, row.table, Kind.TABLE)
    for number, line in enumerate(row.then):
        yield Text(_NEXT_X, middle - 4 + 17 * number, line, Kind.SMALL, "start")


def _shapes() -> Iterator[Shape]:
    yield Text(69, 24, "killed in step", Kind.STRONG)
    yield Text(184, 24, "staged", Kind.STRONG)
    yield Text(184, 42, "no reader sees it")
    yield Text(300, 24, "landing log", Kind.STRONG)
    yield Text(300, 42, "entries")
    yield Text(418, 24, "table", Kind.STRONG)
    yield Text(418, 42, "final files")
    yield Text(_NEXT_X, 24, "the next start appends open, then", Kind.STRONG, "start")
    top = _TOP
    for row in ROWS:
        if row.where == "entry 42 is there":
            yield Line(((10, top + 17), (126, top + 17)), Kind.MARK, has_tip=False)
            yield Text(
                *(136, top + 21),
                "commit point: above, the batch does not exist; below, it counts, whatever happens",
                *(Kind.SMALL, "start"),
            )
            yield Line(((690, top + 17), (790, top + 17)), Kind.MARK, has_tip=False)
            top += _COMMIT_GAP
        yield from _draw(row, top)
        top += _HEIGHT


PICTURE = Picture(
    "crash-points",
    "Where a process may die, and what the next start does",
    "For each of the six steps of a batch: the staged files, the entries of the landing log and "
    "the final files that a killed process leaves, and what the next start does. Until entry 42 "
    "is in the log, the same offsets are read again; from then on, its files are moved.",
    800,
    _TOP + _HEIGHT * len(ROWS) + _COMMIT_GAP + 6,
    tuple(_shapes()),
)
