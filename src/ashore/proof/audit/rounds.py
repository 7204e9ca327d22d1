"""Whose turn it is: directories to list, files to read again.

What it is: two rounds over everything, a bounded part of them in each interval.
What it promises: everything has its turn once a round. What is new joins the next round.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence

from ashore.proof.audit.result import Round
from ashore.proof.evidence.ledger import LoggedFile


class ListingRound:
    """Directories to list. Those that change have their turn in every interval besides."""

    def __init__(self) -> None:
        self._left: deque[str] = deque()
        self._known: set[str] = set()
        self._began_ms: int | None = None
        self._took_ms: int | None = None

    def begin(self, directories: Iterable[str], now_ms: int) -> None:
        """Begin a round, unless one is under way."""
        if self._began_ms is None:
            self._began_ms = now_ms
            self._known = set(directories)
            self._left = deque(sorted(self._known))

    def take(self, count: int) -> list[str]:
        """Return directories whose turn it is, at most `count`."""
        return [self._left.popleft() for _ in range(min(count, len(self._left)))]

    def add(self, directories: Iterable[str]) -> None:
        """Take up directories that a listing has shown."""
        new = [each for each in directories if each not in self._known]
        self._known.update(new)
        self._left.extend(new)

    def put_back(self, directories: Sequence[str]) -> None:
        """Give directories their turn again: they could not be listed."""
        self._left.extendleft(reversed(directories))

    def end(self, now_ms: int) -> None:
        """End the round if nothing is left."""
        if not self._left and self._began_ms is not None:
            self._took_ms, self._began_ms = now_ms - self._began_ms, None

    @property
    def state(self) -> Round:
        """How far the round is."""
        total = len(self._known)
        return Round(total - len(self._left), total, 0, self._began_ms, self._took_ms)


class ReadingRound:
    """Files to read again. A round begins `every_s` after the one before."""

    def __init__(self, every_s: float, now_ms: int) -> None:
        self._every_ms = round(every_s * 1000)
        self._due_ms = now_ms + self._every_ms
        self._left: Iterator[LoggedFile] = iter(())
        self._next: LoggedFile | None = None
        self._done = self._total = 0
        self._size_bytes = 0
        self._began_ms: int | None = None
        self._took_ms: int | None = None

    def is_due(self, now_ms: int) -> bool:
        """Return whether a round should begin."""
        return self._began_ms is None and now_ms >= self._due_ms

    def begin(self, files: Callable[[], Iterator[LoggedFile]], now_ms: int) -> None:
        """Begin a round over `files`, which are gone through twice, one at a time."""
        self._done = self._total = self._size_bytes = 0
        for file in files():
            self._total += 1
            self._size_bytes += file.file.size_bytes
        self._left = files()
        self._next = next(self._left, None)
        self._began_ms, self._due_ms = now_ms, now_ms + self._every_ms
        self._end_if_done(now_ms)

    def next(self) -> LoggedFile | None:
        """Return the file whose turn it is; it keeps it until `done`."""
        return self._next

    def done(self, now_ms: int) -> None:
        """Continue with the next file."""
        self._done += 1
        self._next = next(self._left, None)
        self._end_if_done(now_ms)

    def _end_if_done(self, now_ms: int) -> None:
        if self._next is None and self._began_ms is not None:
            self._took_ms, self._began_ms = now_ms - self._began_ms, None

    @property
    def state(self) -> Round:
        """How far the round is."""
        return Round(self._done, self._total, self._size_bytes, self._began_ms, self._took_ms)
