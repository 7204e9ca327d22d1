"""Following a job's log from outside: how much has landed by now.

What it promises: reads only what is new. What cannot be read now is read the next time.
"""

from contextlib import suppress

from ashore.errors import AshoreError
from ashore.log import names
from ashore.log.extend import extend
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log, read_number
from ashore.storage.base import Storage


class LogTail:
    """One slice's log, read further and further. Used by one thread."""

    def __init__(self, storage: Storage, name: SliceName) -> None:
        self._storage = storage
        self._name = name
        self._fold: Fold = EMPTY

    def count_landed(self) -> int:
        """Return how many records the log has, dead letters too. Never raises for the lake."""
        with suppress(AshoreError):  # the lake is away, or the log damaged: checkers will say so
            self._read_on()
        return sum(state.landed + state.dead for state in self._fold.shards.values())

    def _read_on(self) -> None:
        while True:
            entry = read_number(self._storage, self._name, self._fold.end + 1)
            if entry is None:
                break
            self._fold = extend(self._fold, entry)
        # Once every thousand entries: what was next has been packed and removed.
        last = names.entry_path(self._name, max(self._fold.end, 0))
        if self._fold.end >= 0 and self._storage.stat(last) is None:
            self._fold = read_log(self._storage, self._name)
