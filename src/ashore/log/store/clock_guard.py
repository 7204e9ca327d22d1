"""The check of the clock before its time is recorded in the log for ever.

What it is: `ClockGuard`, which compares the time of a plan with what others say of the time.
What it promises: a clock that is more than `AHEAD_MS_MAX` above what the storage says is refused,
unless some topic partition's newest record is of about that time. The storage is asked at each
`open`: when it made the entry that the writer had just appended; from there on the monotonic clock
counts. So a job may have been away for any time, and on a disk whose clock is the machine's own a
jump is seen while the process lives, and not at its start. Kafka is asked only in case of doubt.
A log that is as far above both clock and storage is refused, whatever Kafka says.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol

from ashore.base.clock import AHEAD_MS_MAX, Clock, is_ahead
from ashore.base.units import format_duration
from ashore.errors import ClockAhead, LogAhead, SourceError
from ashore.log import names
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.storage.base import Storage

if TYPE_CHECKING:  # comparing times does not load what writes
    from ashore.log.store.committer import Committer


class RecordTimes(Protocol):
    """What a source of streams can say of the time."""

    def newest_times(self, shards: Sequence[StreamShard]) -> list[int]:
        """Return the highest record timestamp, in ms, of each shard that has one, in any order."""
        ...


class ClockGuard:
    """Holds the times of one writer of one slice against what others say. Used by one thread."""

    def __init__(self, storage: Storage, clock: Clock, source: RecordTimes | None) -> None:
        self._storage = storage
        self._clock = clock
        self._source = source
        self._storage_ms: float | None = None  # by the storage, where the monotonic clock shows 0
        self._log_ms = 0  # highest time of the log when it was opened

    def anchor(self, name: SliceName, fold: Fold) -> None:
        """Ask the storage for the time. Requires: this writer has just appended the last entry.

        A storage that was asked before and has jumped ahead since is not trusted: its clock may
        be the machine's own. Raises StorageError.
        """
        self.anchor_by(names.entry_path(name, fold.end), fold)

    def anchor_by(self, path: str, fold: Fold) -> None:
        """Ask the storage for the time, as `anchor`. Requires: this writer has just made `path`."""
        made = self._storage.stat(path)
        made_ms = self._clock.now_ms() if made is None else made.modified_ms
        if self._storage_ms is None or not is_ahead(made_ms, self.storage_ms()):
            self._storage_ms = made_ms - 1000 * self._clock.monotonic_s()
        self._log_ms = fold.latest_ms

    def storage_ms(self) -> int:
        """Return what the storage says of the time. Requires: `anchor`."""
        return round((self._storage_ms or 0) + 1000 * self._clock.monotonic_s())

    def require(self, fold: Fold, now_ms: int) -> None:
        """Raise ClockAhead or LogAhead unless a time may stand in the log. Requires: `anchor`.

        `now_ms`: the clock, or the log's last time where that is higher.
        """
        self.require_clock(fold)
        highest_ms, clock_ms = max(now_ms, self._log_ms), self._clock.now_ms()
        # Records that were written while the clock was ahead speak for nothing here.
        if is_ahead(highest_ms, max(clock_ms, self.storage_ms())):
            raise log_ahead(highest_ms, clock_ms, self.storage_ms())

    def require_clock(self, fold: Fold) -> None:
        """Raise ClockAhead where the clock is not to be believed. Requires: `anchor`."""
        now_ms, storage_ms = self._clock.now_ms(), self.storage_ms()
        if not is_ahead(now_ms, storage_ms):
            return
        newest_ms = self._newest_ms(fold)
        if any(abs(each - now_ms) <= AHEAD_MS_MAX for each in newest_ms):
            return
        evidence = f"the lake's storage says {show_time(storage_ms)}"
        if newest_ms:
            evidence += f", the newest record in Kafka is of {show_time(max(newest_ms))}"
        raise ClockAhead(
            f"this machine's clock shows {show_time(now_ms)}, "
            f"{format_duration(now_ms - storage_ms)} ahead: {evidence}; nothing was planned",
            hint="correct the clock; the job continues on its own. If it is right, start the job "
            "again; if the storage's clock is wrong, correct that one",
            clock_ms=now_ms,
            storage_ms=storage_ms,
        )

    def _newest_ms(self, fold: Fold) -> list[int]:
        """Return the times of newest records, as far as they can be asked for."""
        if self._source is None:
            return []
        shards = [StreamShard(key.stream, key.shard) for key in fold.current()]
        try:
            return self._source.newest_times(shards)
        except SourceError:  # then no time confirms the clock
            return []


def log_ahead(log_ms: int, clock_ms: int, storage_ms: int) -> LogAhead:
    """Return the error of a log that is far above the clock and what the storage says."""
    return LogAhead(
        f"the log has the time {show_time(log_ms)}: this machine's clock shows "
        f"{show_time(clock_ms)}, and the lake's storage says {show_time(storage_ms)}; nothing was "
        "planned",
        hint="if a clock was ahead: ashore reset-clock JOB.yaml --explain; if this one is behind: "
        "correct it and start the job again",
        log_ms=log_ms,
        clock_ms=clock_ms,
        storage_ms=storage_ms,
    )


def require_right_clock(committer: "Committer", source: RecordTimes) -> None:
    """Raise ClockAhead where a command's clock is not to be believed.

    Requires: its log was just opened.
    """
    log = committer.log
    guard = ClockGuard(committer.storage, committer.clock, source)
    guard.anchor(log.name, log.fold)
    guard.require_clock(log.fold)


def show_time(time_ms: int) -> str:
    """Return a time for people; for one that no calendar has, its milliseconds."""
    try:
        return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms since 1970"
