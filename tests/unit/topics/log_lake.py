"""A lake in memory for tests of one log: writers, frozen processes, and what is true.

What it promises: the lake remembers what was created first at every number: the true history, to
which whatever a writer, a reader or an archiver does later is compared.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from typing import NamedTuple

from tests.strategies import Chain, Part, key_of, target_of

from ashore.errors import LogDamaged, PathExists, PathMissing
from ashore.log import names
from ashore.log.entries import Closing, Commit, Entry, Join, Joined, Open, Prepare, read_entry
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, FilePlace
from ashore.log.fold import EMPTY, Fold, Unclosed
from ashore.log.names import SliceName
from ashore.log.plan_commit import NO_CATALOG, CloseEntry, PublishBatch, places_of, plan_commit
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import list_log, read_log, read_number
from ashore.storage import MemoryStorage
from ashore.storage.base import Staged, Storage
from ashore_lab.testing import FakeClock, Fault, FaultyStorage, PendingEffects

NAME = SliceName("clicks", "main")
LOG = names.log_directory(NAME)
TARGET = target_of(8).directory
NOTHING = Closing(None, 0, 0, registered=False, deferred=(), done=())


class Witness(MemoryStorage):
    """Remembers the first content of every path."""

    def __init__(self) -> None:
        super().__init__(FakeClock())
        self.first: dict[str, bytes] = {}

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        self.first.setdefault(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Damage a file, as no process of ours would."""
        if self.stat(path) is not None:
            super().delete(path)
        super().create(path, data)


class _Stop(NamedTuple):
    kind: str
    path: str
    act: Callable[[], object]


class Frozen:
    """A storage whose caller stands still before chosen calls, while others act."""

    def __init__(self, inner: Storage) -> None:
        self._inner = inner
        self._stops: list[_Stop] = []

    def before(self, kind: str, path: str, act: Callable[[], object]) -> None:
        """Act before the next call of this kind whose path ends so, once."""
        self._stops.append(_Stop(kind, path, act))

    @property
    def is_done(self) -> bool:
        """Whether every chosen call came."""
        return not self._stops

    def __getattr__(self, kind: str) -> Callable[..., object]:
        call = getattr(self._inner, kind)

        def made(path: str | Staged | list[str], *arguments: object) -> object:
            where = " ".join(path) if isinstance(path, list) else str(path)
            for stop in self._stops:
                if stop.kind == kind and where.endswith(stop.path):
                    self._stops.remove(stop)
                    stop.act()
                    break
            return call(path, *arguments)

        return made


class Lake:
    """One log in memory, and those who use it."""

    def __init__(self) -> None:
        self.storage = Witness()
        self.pending = PendingEffects()
        self.clock = FakeClock()
        self._ids = count(1)

    def unique(self) -> str:
        """Return a name that was never used in this lake."""
        return f"{next(self._ids):016x}"

    def faulty(self, *faults: Fault) -> FaultyStorage:
        """Return the lake as a process with faults sees it."""
        return FaultyStorage(self.storage, faults, pending=self.pending)

    def writer(self, storage: Storage | None = None, settle_attempts: int = 8) -> LandingLog:
        """Return a writer that has not opened yet."""
        used = self.storage if storage is None else storage
        return LandingLog(LogContext(used, self.clock, self.unique, settle_attempts), NAME)

    def opened(self, storage: Storage | None = None) -> LandingLog:
        """Return a writer that owns the slice."""
        log = self.writer(storage)
        log.open()
        return log

    def history(self) -> list[Entry]:
        """Return the true log."""
        entries = []
        for number in count():
            data = self.storage.first.get(names.entry_path(NAME, number))
            if data is None:
                return entries
            entries.append(read_entry(data))
        return entries

    def truth(self) -> Fold:
        """Return what the true log folds to."""
        fold = EMPTY
        for entry in self.history():
            fold = extend(fold, entry)
        return fold

    def listed(self) -> list[str]:
        """Return the names of the files in the log's directory."""
        return [names.leaf(found.path) for found in self.storage.list(LOG)]

    def wrong(self) -> str | None:
        """Return which invariant does not hold, or None."""
        return _violation(self)


def entry_name(number: int) -> str:
    """Return the file name of an entry."""
    return names.leaf(names.entry_path(NAME, number))


def fill(log: LandingLog, end: int, *, snapshot: bool = False) -> None:
    """Append entries that say nothing, up to number `end`; then perhaps a snapshot."""
    while log.fold.end < end:
        log.append(Commit("test"), NOTHING)
    if snapshot:
        log.write_snapshot(0)


def join(log: LandingLog) -> None:
    """Take a shard up."""
    log.append(Join((Joined(key_of(), "id", 0, "earliest"),)), None)


def write_batch(lake: Lake, log: LandingLog, rows: int = 3) -> Prepare:
    """Step 2: write a pending file; return the body that names it."""
    chain = Chain()
    chain.fold = log.fold
    body = chain.batch(Part(key_of(), rows, {8: rows}))
    (file,) = (replace(each, unique=lake.unique()) for each in body.files)
    content = bytes(file.size_bytes)
    file = replace(file, checksum=hashlib.blake2b(content, digest_size=8).hexdigest())
    place = BatchPlace(NAME, log.fold.epoch, body.batch).place(file, body.targets[file.target])
    lake.storage.create(place.pending, content)
    return replace(body, files=(file,))


def finish(log: LandingLog, storage: Storage) -> Closing | None:
    """Steps 4 to 6: move the files of the unclosed entry, return its closing."""
    closing = None
    for step in plan_commit(NAME, log.fold, NO_CATALOG):
        match step:
            case PublishBatch():
                for place in step.places:
                    _move(storage, place)
            case CloseEntry():
                closing = Closing(step.number, 1, 0, registered=False, deferred=(), done=())
    return closing


def _move(storage: Storage, place: FilePlace) -> None:
    try:
        storage.publish(Staged(place.pending), place.final)
    except (PathMissing, PathExists):
        if storage.stat(place.final) is None:
            raise


def land(lake: Lake, log: LandingLog, closing: Closing | None = None) -> Closing | None:
    """Land one batch; return the closing for the next entry."""
    log.append(write_batch(lake, log), closing)
    return finish(log, lake.storage)


def _violation(lake: Lake) -> str | None:
    history, storage = lake.history(), lake.storage
    prepared = [entry for entry in history if isinstance(entry.body, Prepare)]
    starts = [entry.body.shards[0].offsets.start for entry in prepared]
    if len(set(starts)) < len(starts):
        return f"I1: ranges of the prepares begin at {starts}"
    places = {
        place.final: (entry, place)
        for entry in prepared
        for place in places_of(NAME, Unclosed(entry.number, entry.epoch, 0, entry.body))
    }
    for path in storage.first:
        if names.is_visible(path):
            return f"I3: {path} was written under a final name"
    for found in storage.list(TARGET):
        if found.path not in places:
            return f"I3: {found.path} is final and no prepare names it"
    archived = len(list_log(storage, NAME).archives) * names.ARCHIVE_ENTRIES - 1
    for number, entry in enumerate(history):
        now = storage.stat(names.entry_path(NAME, number)) and read_number(storage, NAME, number)
        if number <= archived or now is None or now == entry:
            continue  # what an archive holds is read from it alone
        if not isinstance(now.body, Open):
            return f"I4: entry {number}, a {entry.kind}, was created again as a {now.kind}"
    try:
        truth, known = lake.truth(), read_log(storage, NAME)
    except LogDamaged as error:
        return f"I6: {error.message}"
    if replace(known, base=truth.base) != truth:
        return f"I5: recovery folds to {known.end}, the truth is {truth.end}"
    for path, (entry, place) in places.items():
        is_final = storage.stat(path) is not None
        if not is_final and storage.stat(place.pending) is None:
            return f"I5: the file of entry {entry.number} is gone"
        is_closed = truth.unclosed is None or truth.unclosed.number != entry.number
        if is_closed and not is_final:
            return f"I5: entry {entry.number} is closed and its file not final"
    return None
