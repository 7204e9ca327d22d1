"""The entries of one slice, each with the closing of the one before it.

What it is: `EntryWriter`, steps 3 to 6 of whatever a slice appends: the entry, its effects, and the
closing that the next entry carries.
What it promises: after an unclear append, or moves that failed, nothing is appended before a new
`open`. Actions that may come late are deferred in the log. What others say of the time is known
from each `open` on.
"""

from collections.abc import Callable, Collection

from ashore.errors import AshoreError, InvariantBroken, StorageError, SyncFailed
from ashore.log import names
from ashore.log.entries import Body, Closing, Commit, Retire
from ashore.log.fold import Fold
from ashore.log.plan_commit import NOTHING_CLOSED, complete_deferred, drop_deferred, find_due
from ashore.log.store.archive import archive_log
from ashore.log.store.clock_guard import ClockGuard, RecordTimes
from ashore.log.store.committer import Committer
from ashore.log.store.effects import Effects
from ashore.log.store.log import LandingLog


class EntryWriter:
    """Appends to one slice's log. Used by one thread."""

    def __init__(
        self, committer: Committer, effects: Effects | None, source: RecordTimes | None = None
    ) -> None:
        self._committer = committer
        self._guard = ClockGuard(committer.storage, committer.clock, source)
        self._effects = effects
        self._closing: Closing | None = None
        self._must_open = True

    @property
    def log(self) -> LandingLog:
        """The slice's log."""
        return self._committer.log

    @property
    def must_open(self) -> bool:
        """Whether `open` comes before anything else: at first, and after an error."""
        return self._must_open

    @property
    def has_closing(self) -> bool:
        """Whether the next entry has something to close, or an effect to call done."""
        return self._closing is not None

    def open(self, require: Callable[[Fold], None] = lambda _fold: None) -> None:
        """Take the slice over and finish what its last writer prepared.

        `require` raises where the log must not be taken over. Raises LogDamaged, FilesLost,
        FileConflict, StorageError.
        """
        self._closing = None
        self._must_open = True
        self.log.open(require)
        self._guard.anchor(self.log.name, self.log.fold)
        self.finish()

    def require_time(self, now_ms: int) -> None:
        """Raise ClockAhead or LogAhead where nothing may be planned with a time; see ClockGuard.

        To be called before an entry with a time is planned: it would stay in the log for ever.
        """
        self._guard.require(self.log.fold, now_ms)

    def append(self, body: Body) -> None:
        """Append with the closing that is due. After an error there must be a new `open`."""
        self._must_open = True
        self.log.append(body, self._closing)
        self._closing = None
        self._must_open = False

    def retire(self, body: Retire) -> None:
        """Append a `retire`, as `append` does. Deferred actions of its partitions are dropped."""
        dropped = {(each.table, each.partition) for each in body.partitions}
        self._closing = drop_deferred(self.log.fold.deferred, self._closing, dropped)
        self.append(body)

    def finish(self) -> None:
        """Steps 4 to 6. Do the effects of the entry just appended, as far as they can be done now.

        After an error there must be a new `open`.
        """
        self._must_open = True
        self._closing = self._committer.finish()
        self._must_open = False
        self.run_deferred()

    def run_deferred(self) -> None:
        """Step 5. Do what is deferred, by the entry just finished and by earlier ones.

        What cannot be done now stays deferred: the closing says so.
        """
        known, closing = self.log.fold.deferred, self._closing or NOTHING_CLOSED
        due = find_due(known, closing)
        if self._effects is None or not due:
            return
        self.log.look()
        tried = self._effects.run(due)
        if tried.done or tried.failed:
            self._closing = complete_deferred(known, closing, tried)

    def close(self, reason: str) -> None:
        """Close the last entry on its own, where it is not closed."""
        if self._closing is not None:
            self.append(Commit(reason))

    def shorten(self, remember_ms: int, sealing: Collection[str] = ()) -> None:
        """At a start, write a snapshot if one is due, and pack what lies below it.

        Each start appends an entry; a job that dies soon, and is started again and again, never
        comes to its housekeeping. What it forgets: see `LandingLog.write_snapshot`.
        If interrupted: a later start continues, when the next archive is due.
        """
        log = self.log
        packed = log.fold.base // names.ARCHIVE_ENTRIES
        self.write_snapshot(remember_ms, sealing)
        if log.fold.base // names.ARCHIVE_ENTRIES == packed:
            return
        try:
            archive_log(self._committer.storage, log.name)
        except (InvariantBroken, SyncFailed):
            raise
        except AshoreError as error:
            self._committer.progress.warn(log.name.slice, f"packing the log: {error.message}")

    def write_snapshot(self, remember_ms: int, sealing: Collection[str] = ()) -> None:
        """Write a snapshot of the log if one is due, closing the last entry before.

        What it forgets: see `LandingLog.write_snapshot`.
        """
        if not self.log.is_snapshot_due:
            return
        if self.log.fold.unclosed is not None:
            self.append(Commit("snapshot"))
        try:
            self.log.write_snapshot(remember_ms, sealing)
        except SyncFailed:
            raise
        except StorageError as error:
            # A snapshot is a shortcut: without it the next start reads a longer tail.
            message = f"log snapshot: {error.message}"
            self._committer.progress.warn(self.log.name.slice, message)
