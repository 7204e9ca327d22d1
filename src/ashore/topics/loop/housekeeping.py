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


@dataclass(frozen=True, slots=True)
class House:
    """What is kept, and with what. `tables`: those that the slice may have staged files in."""

    log: LandingLog
    storage: Storage
    clock: Clock
    progress: Progress
    tables: Callable[[], Sequence[str]]


CleanMore = Callable[[int, int], None]  # now_ms, ttl_ms: what else of the slice may be stale


class Housekeeping:
    """Keeps one house. `tick` by one thread, often."""

    def __init__(
        self,
        house: House,
        rule: CleanRule,
        *,
        cleans_first: bool = False,
        clean_more: CleanMore = lambda _now_ms, _ttl_ms: None,
    ) -> None:
        self._house = house
        self._rule = rule
        self._clean_more = clean_more
        self._archived = 0  # whole archives of the log
        now_s = house.clock.monotonic_s()
        self._next_look_s = now_s if cleans_first else now_s + rule.look_every_s
        self._next_clean_s = now_s if cleans_first else now_s + rule.every_s

    def tick(self) -> None:
        """Do what is due. Raises InvariantBroken, SyncFailed, and what is no AshoreError."""
        house, now_s = self._house, self._house.clock.monotonic_s()
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
            house.progress.warn(house.log.name.slice, f"housekeeping: {error.message}")

    def _archive(self) -> None:
        whole = self._house.log.fold.base // ARCHIVE_ENTRIES
        if whole > self._archived:
            archive_log(self._house.storage, self._house.log.name)
            self._archived = whole

    def _clean(self) -> None:
        house, log = self._house, self._house.log
        now_and_ttl = (house.clock.now_ms(), self._rule.ttl_ms)
        steps = plan_cleaning(house.storage, log.name, log.fold, house.tables(), now_and_ttl)
        apply_cleaning(house.storage, steps)
        self._clean_more(*now_and_ttl)
