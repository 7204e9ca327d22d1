"""Keeping the house of one slice while it lands: off the commit path, now and then.

What it is: `Housekeeping`: packs the log, deletes staged files that are no longer needed.
What it promises: looking whether something is due costs nothing. A storage that fails delays it and
stops nothing; a bug is raised.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import AshoreError, InvariantBroken, SyncFailed
from ashore.log.names import ARCHIVE_ENTRIES
from ashore.log.progress import Progress
from ashore.log.store.archive import archive_log
from ashore.log.store.cleaner import apply_cleaning, plan_cleaning
from ashore.log.store.log import LandingLog
from ashore.storage.base import Storage

ARCHIVE_EVERY_S = 30.0


@dataclass(frozen=True, slots=True)
class CleanRule:
    """How often stale files are looked for, and when a file is stale."""

    every_s: float
    ttl_ms: int

    @property
    def look_every_s(self) -> float:
        """How often it is worth a look whether something is due."""
        return min(ARCHIVE_EVERY_S, self.every_s)


CleanMore = Callable[[int, int], None]  # now_ms, ttl_ms: what else of the slice may be stale


class Housekeeping:
    """Keeps the house of one slice. `tick` by one thread, often."""

    def __init__(  # noqa: PLR0913 - given by name
        self,
        log: LandingLog,
        rule: CleanRule,
        *,
        storage: Storage,
        clock: Clock,
        progress: Progress,
        tables: Callable[[], Sequence[str]],
        cleans_first: bool = False,
        clean_more: CleanMore = lambda _now_ms, _ttl_ms: None,
    ) -> None:
        """`tables`: those that the slice may have staged files in."""
        self._log = log
        self._storage = storage
        self._clock = clock
        self._progress = progress
        self._tables = tables
        self._rule = rule
        self._clean_more = clean_more
        self._archived = 0  # whole archives of the log
        now_s = clock.monotonic_s()
        self._next_look_s = now_s if cleans_first else now_s + rule.look_every_s
        self._next_clean_s = now_s if cleans_first else now_s + rule.every_s

    def tick(self) -> None:
        """Do what is due. Raises InvariantBroken, SyncFailed, and what is no AshoreError."""
        now_s = self._clock.monotonic_s()
        if now_s < self._next_look_s:
            return
        self._next_look_s = now_s + self._rule.look_every_s
        try:
            self._archive()
            if now_s >= self._next_clean_s:
                self._next_clean_s = now_s + self._rule.every_s
                self._clean()
        except (InvariantBroken, SyncFailed):
            raise
        except AshoreError as error:
            self._progress.warn(self._log.name.slice, f"housekeeping: {error.message}")

    def _archive(self) -> None:
        whole = self._log.fold.base // ARCHIVE_ENTRIES
        if whole > self._archived:
            archive_log(self._storage, self._log.name)
            self._archived = whole

    def _clean(self) -> None:
        log, now_and_ttl = self._log, (self._clock.now_ms(), self._rule.ttl_ms)
        steps = plan_cleaning(self._storage, log.name, log.fold, self._tables(), now_and_ttl)
        apply_cleaning(self._storage, steps)
        self._clean_more(*now_and_ttl)
