"""Folds of logs that are looked at again and again, each time read on from where they were.

What it is: `KnownFolds`, which `OpenJob` asks where it has one.
What it promises: `read` returns what `read_log` would: a fold is used again only where its last
entry is still that of the log. A look costs what was appended since: the log is listed where
something is odd, and each `LIST_EVERY` looks, which finds an entry that is missing before others.
What is kept is bounded, whatever the sizes of jobs.
"""

import threading
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ashore.log.entries import Commit, Entry, Prepare, Reland
from ashore.log.extend import extend
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log, read_number, read_on
from ashore.storage.base import Storage

ITEMS_MAX = 100_000  # of all folds that are kept: shards, partitions and the like
LIST_EVERY = 60  # looks at a log
NOTES_MAX = 64  # entries of a log that are known in short
WHOLE_MS = 300_000  # tables are compared with the log again after so long


@dataclass(frozen=True, slots=True)
class EntryNote:
    """What a look needs of an entry, which is never changed."""

    number: int
    kind: str
    written_ms: int
    reason: str | None  # of a `commit`
    fetched: int | None  # of a `prepare`: records; of a query's, offsets
    commits: tuple[str, ...] = ()  # tables that it orders a snapshot or version of

    @classmethod
    def of(cls, entry: Entry) -> "EntryNote":
        """Return it."""
        body = entry.body
        reason = body.reason if isinstance(body, Commit) else None
        fetched = body.read if isinstance(body, Prepare) else None
        ordered = body.commits if isinstance(body, Prepare | Reland) else ()
        commits = tuple(each.table for each in ordered)
        return cls(entry.number, entry.kind, entry.written_ms, reason, fetched, commits)


def read_note(storage: Storage, name: SliceName, number: int) -> EntryNote | None:
    """Return an entry in short; None: its file is not there. Raises LogDamaged."""
    entry = read_number(storage, name, number)
    return None if entry is None else EntryNote.of(entry)


@dataclass
class _Known:
    """What is known of a log."""

    fold: Fold = EMPTY
    looks: int = 0  # since it was listed
    notes: dict[int, EntryNote] = field(default_factory=dict)
    whole_end: int = -1  # the end of the log when its tables were found to have nothing after it
    whole_ms: int = 0

    def note(self, entries: Iterable[Entry]) -> None:
        for each in entries:
            self.notes[each.number] = EntryNote.of(each)
        while len(self.notes) > NOTES_MAX:
            del self.notes[min(self.notes)]


class KnownFolds:
    """Reads logs on. May be used by many threads."""

    def __init__(self, items_max: int = ITEMS_MAX) -> None:
        self._items_max = items_max
        self._lock = threading.Lock()
        self._logs: OrderedDict[tuple[str, SliceName], _Known] = OrderedDict()
        self._items = 0

    def read(self, storage: Storage, name: SliceName) -> Fold:
        """Return the fold of a log as it is now. Raises as `read_log`."""
        known = self._known(storage, name)
        entries = read_on(storage, name, known.fold)
        if entries is None:  # nothing that is known may be of the log that is there
            fold = read_log(storage, name, known.fold)
            kept = _Known(fold)
        elif known.looks >= LIST_EVERY:
            fold = read_log(storage, name, known.fold)
            kept = replace(known, fold=fold, looks=0)
        else:
            fold = known.fold
            for entry in entries:
                fold = extend(fold, entry)
            kept = replace(known, fold=fold, looks=known.looks + 1, notes=dict(known.notes))
            kept.note(entries)
        self._keep((storage.describe(), name), kept)
        return fold

    def note(self, storage: Storage, name: SliceName, number: int) -> EntryNote | None:
        """Return an entry of a log that was read, in short. Raises LogDamaged."""
        known = self._known(storage, name)
        found = known.notes.get(number)
        if found is None:
            found = read_note(storage, name, number)
            if found is not None and number <= known.fold.end:
                known.notes[number] = found
        return found

    def is_whole(self, storage: Storage, name: SliceName, now_ms: int) -> bool:
        """Return whether the tables of a log were found lately to have nothing after its end."""
        known = self._known(storage, name)
        is_recent = 0 <= now_ms - known.whole_ms < WHOLE_MS
        return is_recent and 0 <= known.whole_end <= known.fold.end

    def take_whole(self, storage: Storage, name: SliceName, now_ms: int) -> None:
        """Take that they were found so."""
        known = self._known(storage, name)
        known.whole_end, known.whole_ms = known.fold.end, now_ms

    def _known(self, storage: Storage, name: SliceName) -> _Known:
        with self._lock:
            return self._logs.get((storage.describe(), name), _Known())

    def _keep(self, key: tuple[str, SliceName], known: _Known) -> None:
        with self._lock:
            before = self._logs.pop(key, None)
            self._items += items_of(known.fold) - (items_of(before.fold) if before else 0)
            self._logs[key] = known
            while self._items > self._items_max:
                _, oldest = self._logs.popitem(last=False)
                self._items -= items_of(oldest.fold)


def items_of(fold: Fold) -> int:
    """Return how large a fold is, in things that it has."""
    state = len(fold.shards) + len(fold.partitions) + len(fold.tables)
    return 1 + state + len(fold.deferred) + len(fold.left_out)
