"""Appending to a landing log: take-over, exclusive creation, snapshots.

What it is: `LandingLog`, one writer's view of one slice's log.
What it promises: an entry is appended by exclusive creation of the next number, and an unclear
append is settled by reading that number. Of two writers at most one appends (I4). A number that
was archived may have been removed, and is free again: so a writer looks for the archive of its
number after each append, and before it does anything that the log must be its own for.
"""

import contextlib
import os
import socket
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from typing import NoReturn

from ashore import __version__
from ashore.base.clock import Clock, is_ahead
from ashore.base.unique import Entropy
from ashore.errors import (
    AnswerUnknown,
    Fenced,
    LogDamaged,
    LogLost,
    PathExists,
    StorageError,
    SyncFailed,
    check,
    fail,
)
from ashore.log import names
from ashore.log.entries import Body, Closing, Draft, Entry, Open, write_entry
from ashore.log.extend import extend
from ashore.log.fold import Fold, forget_sealed, forget_untouched
from ashore.log.lost_end import LogEnd, Trace
from ashore.log.names import SliceName
from ashore.log.snapshot import write_snapshot
from ashore.log.store.reader import list_log, read_log, read_number
from ashore.log.store.traces import require_whole
from ashore.storage.base import Storage

SNAPSHOT_EVERY = 500  # entries between two snapshots


@dataclass(frozen=True, slots=True)
class LogContext:
    """What an append draws on: kept in one value so that tests can replace all of it."""

    storage: Storage
    clock: Clock
    entropy: Entropy
    settle_attempts: int = 8  # how often an unclear append is looked at before it is an error
    on_wait: Callable[[str], None] = lambda _: None  # called with why an append takes long
    look_around: Callable[[], Sequence[Trace]] = tuple  # what the slice has left in its tables


class LandingLog:
    """One writer of one slice's log. Not thread-safe: a slice has one thread.

    `open` comes before everything else. After any error of `append` the writer continues only
    through a new `open`: what it tried to append may still appear. After Fenced it never does.
    """

    def __init__(self, context: LogContext, name: SliceName) -> None:
        self.name = name
        self._context = context
        self._fold: Fold | None = None
        self._is_settled = False  # whether the number after the fold is this writer's to take
        self._is_overtaken = False  # whether another's entry stands where ours should

    @property
    def fold(self) -> Fold:
        """The log as this writer knows it. Requires: `open` was called."""
        check(self._fold is not None, "a log must be opened before it is used")
        return self._fold or Fold()

    @property
    def end(self) -> int | None:
        """The last entry, as this writer knows it; None: it was never opened."""
        return None if self._fold is None else self._fold.end

    def open(self, require: Callable[[Fold], None] = lambda _fold: None) -> Fold:
        """Take the slice over with the next epoch and return the fold.

        `require` raises where the log, as it is, must not be taken over: its owner continues then.

        Raises LogDamaged, StorageError; LogLost where tables hold what was written after the end
        of the log; Fenced where this writer was fenced before.
        If interrupted: an `open` entry may stand in the log; it closes nothing.
        """
        if self._is_overtaken:
            self._fenced_or_damaged()
        self._is_settled = False
        who = Open(socket.gethostname(), os.getpid(), __version__, looks_back=True)
        while True:
            fold = self._read_whole()
            self._fold = fold
            require(fold)
            opened = self._try_append(fold, fold.epoch + 1, None, who)
            if opened is None:
                continue  # another writer took the number: fold again, take the next
            if self.was_removed(opened.end):
                continue  # this open stands where another entry had been: it means nothing
            self._fold, self._is_settled = opened, True
            return opened

    def resume(self) -> Fold:
        """Continue in the epoch that the log ends with, as its last writer, and return the fold.

        For who gives a log its lost entries back. Requires: that writer has ended; it would not
        be fenced, only one of the two appends.
        """
        self._fold = self._read_whole()
        self._is_settled = True
        return self._fold

    def append(self, body: Body, closing: Closing | None) -> Fold:
        """Append the next entry in the writer's epoch and return the fold with it.

        Raises Fenced (another writer owns the slice), LogDamaged, StorageError (unclear for so
        long that the writer gives up: the entry may still appear).
        """
        fold = self.fold
        check(self._is_settled, "after an error a log must be opened again before an append")
        self._is_settled = False
        extended = self._try_append(fold, fold.epoch, closing, body)
        if extended is None or self._is_archived_again(extended.end):
            self._fenced_or_damaged()
        self._fold, self._is_settled = extended, True
        return extended

    def was_removed(self, number: int) -> bool:
        """Look whether entry `number` may have been archived and removed before now."""
        return list_log(self._context.storage, self.name).horizon >= number

    def look(self) -> None:
        """Look at the next number. Raises Fenced where another writer has appended there."""
        following = self.fold.end + 1
        is_there = read_number(self._context.storage, self.name, following) is not None
        if is_there or self._is_archived(following):  # in this order: first packed, then removed
            self._fenced_or_damaged()

    def _is_archived(self, number: int) -> bool:
        """Look whether an archive holds entry `number`: only then it may have been removed."""
        path = names.archive_path(self.name, number // names.ARCHIVE_ENTRIES)
        return self._context.storage.stat(path) is not None

    def _is_archived_again(self, number: int) -> bool:
        """Look as `_is_archived` does, as patiently as an append that got no answer."""
        context = self._context
        for attempt in range(context.settle_attempts - 1):
            try:
                return self._is_archived(number)
            except StorageError as error:
                context.on_wait(f"look after entry {number}: {error.message}")
                context.clock.sleep(_pause_s(attempt))
        return self._is_archived(number)

    @property
    def is_snapshot_due(self) -> bool:
        """Whether the tail is long enough for a snapshot."""
        return self.fold.end - self.fold.base >= SNAPSHOT_EVERY

    def write_snapshot(self, remember_ms: int, sealing: Collection[str] = ()) -> None:
        """Write a snapshot of the fold. Requires: nothing is unclosed.

        Partitions sealed more than `remember_ms` ago are forgotten, and of tables that are not
        `sealing` all but those that were filled last.
        If interrupted: there is a whole snapshot more, or none.
        """
        kept = forget_sealed(self.fold, self.fold.now_ms - remember_ms)
        kept = forget_untouched(kept, sealing)
        path = names.snapshot_path(self.name, kept.end)
        with contextlib.suppress(PathExists):  # the same fold gives the same snapshot
            self._context.storage.create(path, write_snapshot(kept))
        self._fold = replace(kept, base=kept.end)

    def _read_whole(self) -> Fold:
        """Return the fold of the log. Raises LogLost where its end is gone."""
        known = self._fold
        # The look comes first: what a writer beside this one leaves has its entry by then.
        traces = self._context.look_around() if known is None else ()
        fold = read_log(self._context.storage, self.name)
        require_whole(self.name, LogEnd.of(fold), traces)
        if known is not None and fold.end < known.end:
            raise LogLost(
                f"{self.name}: the log ends at entry {fold.end}, but it had entry {known.end}",
                hint=f"restore {names.log_directory(self.name)}; nothing was appended",
            )
        return fold

    def _try_append(
        self, fold: Fold, epoch: int, closing: Closing | None, body: Body
    ) -> Fold | None:
        """Append at the number after `fold`; None: another entry stands there."""
        context = self._context
        draft = Draft(
            number=fold.end + 1,
            id=context.entropy() + context.entropy(),
            epoch=epoch,
            written_ms=_written_ms(context.clock.now_ms(), fold),
            previous=fold.last,
            closing=closing,
            body=body,
        )
        entry, data = write_entry(draft)
        extended = _extended(fold, entry)
        path = names.entry_path(self.name, draft.number)
        for attempt in range(context.settle_attempts):
            try:
                context.storage.create(path, data)
            except SyncFailed:
                raise
            except StorageError as error:
                failure = error
            else:
                return extended
            if not isinstance(failure, PathExists):
                context.on_wait(f"append of entry {draft.number}: {failure.message}")
                context.clock.sleep(_pause_s(attempt))
            try:
                found = read_number(context.storage, self.name, draft.number)
            except StorageError as error:
                failure = error
                continue
            if found is not None and found.id == entry.id:
                # Seen is not yet durable: the call that made it may hang before its last sync.
                context.storage.sync([names.log_directory(self.name)])
                return extended
            if found is not None:
                return None
            if isinstance(failure, PathExists):
                return None  # was taken and has been archived since
        raise AnswerUnknown(
            f"entry {draft.number} of {self.name} may or may not be in the log: {failure.message}",
            hint="the next start resolves it",
            path=path,
        ) from failure

    def _fenced_or_damaged(self) -> NoReturn:
        """Another entry stands where this writer's should. Raises Fenced or LogDamaged."""
        self._is_overtaken = True  # also if the reading fails: it is ours no more
        known = self.fold
        fold = read_log(self._context.storage, self.name)
        if fold.epoch > known.epoch:
            self._is_settled = False
            raise Fenced(
                f"slice {self.name} was taken over by epoch {fold.epoch}; this process has epoch "
                f"{known.epoch}",
                hint="do not restart this process: the job runs elsewhere",
                epoch=known.epoch,
                owner_epoch=fold.epoch,
            )
        raise LogDamaged(
            f"slice {self.name}: entry {known.end + 1} was written by another process in the "
            f"same epoch {known.epoch}",
            hint="keep everything; make sure that no copy of the job's log was restored",
            entry=known.end + 1,
        )


def _pause_s(attempt: int) -> float:
    return float(min(0.05 * 2**attempt, 5.0))


def _written_ms(now_ms: int, fold: Fold) -> int:
    """Return the time of an entry: never below the one before, unless a wrong clock gave that."""
    return now_ms if is_ahead(fold.written_ms, now_ms) else max(now_ms, fold.written_ms)


def _extended(fold: Fold, entry: Entry) -> Fold:
    """Extend the fold. Raises InvariantBroken for an entry that would not: it is never written."""
    try:
        return extend(fold, entry)
    except LogDamaged as error:
        fail(f"an entry was about to be appended that cannot be folded: {error.message}")
