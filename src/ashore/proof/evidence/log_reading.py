"""Reading the logs of a job as they grow.

What it is: `LogReading`, which gives each new entry to a `LedgerBuilder`.
What it promises: reads only. Each entry is given once, and follows the one before it.
"""

from collections.abc import Callable

from ashore.errors import LogDamaged
from ashore.log import names
from ashore.log.entries import Entry, Prepare
from ashore.log.lost_end import LogEnd
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.proof.evidence.ledger import Ledger, LedgerBuilder
from ashore.proof.evidence.result import Progress, SliceRead, quiet
from ashore.storage.base import Storage
from ashore.topics.loop.sinks import find_slices


def read_ledger(storage: Storage, job: str) -> Ledger:
    """Return the ledger of all entries of all slices. Raises LogDamaged, StorageError."""
    reading = LogReading(storage, job)
    reading.read_on()
    return reading.builder.finish()


class LogReading:
    """The logs of all slices, read further and further. Used by one thread."""

    def __init__(
        self,
        storage: Storage,
        job: str,
        progress: Progress = quiet,
        also: Callable[[SliceName, Entry], None] | None = None,
    ) -> None:
        self.builder = LedgerBuilder()
        self._storage = storage
        self._job = job
        self._progress = progress
        self._also = also  # is given each entry too
        self._last: dict[str, str] = {}  # checksums
        self._ends: dict[str, LogEnd] = {}
        self.last_written_ms: int | None = None  # of the newest entry, by its writer's clock

    def read_on(self) -> None:
        """Read every slice's log to its present end. Raises LogDamaged."""
        for name in find_slices(self._storage, self._job):
            self._read_slice(name)

    def end(self, name: SliceName) -> LogEnd:
        """Return how far a slice's log is, as far as it was read."""
        return self._ends.get(name.slice, LogEnd())

    def slices(self, ledger: Ledger) -> tuple[SliceRead, ...]:
        """Return how far each log was read."""
        return tuple(
            SliceRead(name, end.entry + 1, end.entry, ledger.unclosed.get(name))
            for name, end in sorted(self._ends.items())
        )

    def _read_slice(self, name: SliceName) -> None:
        start = self._ends.setdefault(name.slice, LogEnd()).entry + 1
        for entry in read_history(self._storage, name, start):
            if entry.number == start and start and entry.previous != self._last[name.slice]:
                path = names.entry_path(name, entry.number)
                raise LogDamaged(
                    f"{path}: it has another predecessor",
                    hint="restore the log from a backup",
                    path=path,
                )
            self.builder.take(name, entry)
            if self._also is not None:
                self._also(name, entry)
            self._last[name.slice] = entry.checksum
            batch = self.end(name).next_batch
            if isinstance(entry.body, Prepare):
                batch = entry.body.batch + 1
            self._ends[name.slice] = LogEnd(entry.number, entry.epoch, batch)
            self.last_written_ms = max(self.last_written_ms or 0, entry.written_ms)
            self._progress("log", entry.number + 1, 0)
