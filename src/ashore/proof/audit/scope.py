"""`WatchedFiles`: the files that the logs list and what a listing has shown last, by directory.

What it is: these, and two rounds over everything: directories to list, files to read again.
What it promises: packed, about 80 bytes per file; one directory is unpacked at a time. Everything
has its turn once a round, a bounded part in each interval. What is new joins the next round.
"""

import pickle
import zlib
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

from ashore.proof.audit.result import Round
from ashore.proof.evidence.ledger import LoggedFile
from ashore.proof.evidence.packing import Packed
from ashore.storage.base import FileStat

SMALL = 256  # files: lists of fewer are packed together
SMALL_LISTS = 16  # at most


class ListedState(NamedTuple):
    """What a listing has shown of a file."""

    size: int
    modified_ms: int


@dataclass(slots=True)
class Watched:
    """A listed file, and what a listing has shown of it last."""

    file: LoggedFile
    is_seen: bool = False
    shown: ListedState | None = None  # None: it was not there

    def is_suspect(self, now: FileStat | None) -> bool:
        """Return whether a file must be looked at: it is not as it was, or not as it should be."""
        if not self.is_seen:
            return now is None or now.size != self.file.file.size_bytes
        return _state_of(now) != self.shown

    def see(self, now: FileStat | None) -> None:
        """Take what a listing shows."""
        self.is_seen = True
        self.shown = _state_of(now)


def _state_of(found: FileStat | None) -> ListedState | None:
    return None if found is None else ListedState(found.size, found.modified_ms)


class _WatchedDirectory:
    def __init__(self) -> None:
        self._large, self._small = Packed[LoggedFile](), Packed[LoggedFile]()
        self._seen = b""  # by `unique` of files, packed

    def add(self, files: Sequence[LoggedFile]) -> None:
        self._small.add(files)
        if len(files) >= SMALL or self._small.list_count > SMALL_LISTS:
            together = list(self._small)
            self._small.clear()
            (self._large if len(together) >= SMALL else self._small).add(together)

    def open(self) -> dict[str, Watched]:
        seen: dict[str, ListedState | None] = {}
        if self._seen:
            seen = pickle.loads(zlib.decompress(self._seen))  # noqa: S301 - of `keep`
        watched = {}
        for file in chain(self._large, self._small):
            unique = file.file.unique
            watched[file.final] = Watched(file, unique in seen, seen.get(unique))
        return watched

    def keep(self, watched: Iterable[Watched]) -> None:
        seen = {each.file.file.unique: each.shown for each in watched if each.is_seen}
        self._seen = zlib.compress(pickle.dumps(seen, 5), 1)

    def files(self) -> Iterator[LoggedFile]:
        """Return the files that are here now, to be gone through later."""
        return chain(self._large.copy(), self._small.copy())


class WatchedFiles:
    """Files by directory. Used by one thread."""

    def __init__(self) -> None:
        self._directories: dict[str, _WatchedDirectory] = {}

    @property
    def directories(self) -> Collection[str]:
        """The directories that hold files."""
        return self._directories.keys()

    def add(self, directory: str, files: Sequence[LoggedFile]) -> None:
        """Add files that an entry lists in a directory."""
        self._directories.setdefault(directory, _WatchedDirectory()).add(files)

    def open(self, directory: str) -> dict[str, Watched]:
        """Return the files of a directory by their final paths: the caller's, until `keep`."""
        found = self._directories.get(directory)
        return found.open() if found else {}

    def keep(self, directory: str, watched: Iterable[Watched]) -> None:
        """Keep what was seen of the files of a directory, as `open` returned them."""
        found = self._directories.get(directory)
        if found is not None:
            found.keep(watched)

    def files(self) -> Iterator[LoggedFile]:
        """Return all files that are there now, to be gone through later."""
        return chain.from_iterable([each.files() for each in self._directories.values()])


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
