"""`WatchedFiles`: the files that the logs list and what a listing has shown last, by directory.

What it promises: packed, about 80 bytes per file; one directory is unpacked at a time.
"""

import pickle
import zlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

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
