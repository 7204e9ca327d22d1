"""A storage that is slow: every so many calls one takes its time, or longer than anybody waits.

What it is: `SlowCalls`, and `SlowStorage`, which obeys it by the drill's clock.
What it promises: past the deadline the caller hears that the answer is unknown; the call takes
effect afterwards, whoever is alive then.
What it must not know: what the calls are for.
"""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import AnswerUnknown
from ashore.storage.base import Storage
from ashore.testing import FaultyStorage, LateEffect, PendingEffects

T = TypeVar("T")

DEADLINE_S = 30.0  # after which a job no longer waits
CALLS_LATER = 5  # what takes longer than the deadline arrives so many calls later


@dataclass(frozen=True, slots=True)
class SlowCalls:
    """Every n-th call of a process takes so long."""

    every: int
    seconds: float

    def __str__(self) -> str:
        return f"every {self.every}th storage call takes {self.seconds:g} s"


class SlowStorage(FaultyStorage):
    """One process's view of a slow storage. Give `inner` that all processes share."""

    def __init__(
        self, inner: Storage, slow: SlowCalls, clock: Clock, pending: PendingEffects
    ) -> None:
        super().__init__(inner, pending=pending)
        self._slow = slow
        self._clock = clock
        self._lock = threading.Lock()
        self._made = 0
        self.struck = 0

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        """Make one call, which may be a slow one."""
        with self._lock:
            self._made += 1
            is_slow = self._made % self._slow.every == 0
            self.struck += int(is_slow)
        if is_slow:
            self._clock.sleep(min(self._slow.seconds, DEADLINE_S))
            if self._slow.seconds > DEADLINE_S:
                self.pending.add(LateEffect(1, after=CALLS_LATER), late or effect)
                raise AnswerUnknown(f"{' '.join(asked)}: no answer in {DEADLINE_S:g} s")
        return super().apply(asked, effect, late)
