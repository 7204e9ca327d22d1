"""A storage that is slow: of so many calls one takes its time, or longer than anybody waits.

What it is: `SlowCalls`, and `SlowStorage`, which obeys it by the drill's clock.
What it promises: past the deadline the caller hears that the answer is unknown; the call takes
effect afterwards, whoever is alive then. Which calls are slow has no rhythm: whoever tries again
would fall into step with it, and meet a slow one each time.
What it must not know: what the calls are for.
"""

import random
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
    """Of so many calls one takes so long; which ones, the seed says."""

    of: int
    seconds: float
    seed: str

    def __str__(self) -> str:
        return f"one storage call of {self.of} takes {self.seconds:g} s"


class SlowStorage(FaultyStorage):
    """One process's view of a slow storage. Give `inner` that all processes share."""

    def __init__(
        self, inner: Storage, slow: SlowCalls, clock: Clock, pending: PendingEffects
    ) -> None:
        super().__init__(inner, pending=pending)
        self._slow = slow
        self._clock = clock
        self._lock = threading.Lock()
        self._dice = random.Random(slow.seed)  # noqa: S311 - to replay
        self.struck = 0

    def apply(
        self,
        asked: tuple[str, str] | tuple[str, str, str],
        effect: Callable[[], T],
        late: Callable[[], object] | None = None,
    ) -> T:
        """Make one call, which may be a slow one."""
        with self._lock:
            is_slow = self._dice.randrange(self._slow.of) == 0
            self.struck += int(is_slow)
        if is_slow:
            self._clock.sleep(min(self._slow.seconds, DEADLINE_S))
            if self._slow.seconds > DEADLINE_S:
                self.pending.add(LateEffect(1, after=CALLS_LATER), late or effect)
                raise AnswerUnknown(f"{' '.join(asked)}: no answer in {DEADLINE_S:g} s")
        return super().apply(asked, effect, late)
