"""The one place where storage calls are repeated.

What it is: a storage around another one, and the delays between tries.
What it promises: only calls that change nothing are repeated (stat, list, read), and such as no
server took (NotApplied). An answer (PathMissing, PathExists) is never asked for again, and a failed
sync never repeated.
"""

import logging
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ashore.base.clock import Clock
from ashore.errors import NotApplied, PathExists, PathMissing, StorageError, SyncFailed, check
from ashore.storage.base import Links, Storage, StorageForwarder

_log = logging.getLogger(__name__)

T = TypeVar("T")
Jitter = Callable[[float, float], float]
any_between: Jitter = random.SystemRandom().uniform


@dataclass(frozen=True, slots=True)
class Backoff:
    """How long to wait between tries: doubling from `first_s` to `max_s`.

    `within_s`: how long a call that no server took is made again, counted from its first try.
    """

    first_s: float = 0.1
    max_s: float = 5.0
    within_s: float = 60.0

    def delays_s(self, jitter: Jitter = any_between) -> Iterator[float]:
        """Yield delays without end, each between half of the doubled one and all of it.

        `jitter` is called with these two bounds, so that many processes that failed together do
        not come back together; a test hands in `max`.
        """
        check(0 < self.first_s <= self.max_s, f"delays cannot grow from {self}")
        delay_s = self.first_s
        while True:
            yield jitter(delay_s / 2, delay_s)
            delay_s = min(2 * delay_s, self.max_s)


class RetryingStorage(StorageForwarder):
    """A Storage that asks again where nothing was changed.

    Of an unclear change the caller looks whether it was made; an unclear `open_write` is made under
    another name. A failed sync is never repeated: the system forgets what it did not write.
    """

    def __init__(
        self,
        inner: Storage,
        clock: Clock,
        *,
        attempts: int = 4,
        backoff: Backoff | None = None,
        jitter: Jitter = any_between,
    ) -> None:
        check(attempts >= 1, "a call needs at least one attempt")
        self._inner = inner
        self._clock = clock
        self._attempts = attempts
        self._backoff = backoff or Backoff()
        self._jitter = jitter

    def link(self, source: str, target: str) -> bool:
        """See Links."""
        inner = self._inner
        return isinstance(inner, Links) and self._again(lambda: inner.link(source, target), 1)

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()

    def _forward(
        self,
        what: str,  # noqa: ARG002 - see StorageForwarder
        call: Callable[[Storage], T],
        looked_at: str | None = None,
    ) -> T:
        attempts = 1 if looked_at is None else self._attempts
        return self._again(lambda: call(self._inner), attempts)

    def _again(self, call: Callable[[], T], attempts: int) -> T:
        """Make a call `attempts` times at most, not counting the tries that no server took."""
        delays_s = self._backoff.delays_s(self._jitter)
        end_s = self._clock.monotonic_s() + self._backoff.within_s
        attempt = 0
        while True:
            try:
                return call()
            except (PathMissing, PathExists, SyncFailed):
                raise
            except StorageError as error:
                attempt += not isinstance(error, NotApplied)
                is_late = isinstance(error, NotApplied) and self._clock.monotonic_s() >= end_s
                if is_late or attempt >= attempts:
                    raise
                delay_s = next(delays_s)
                _log.warning("again in %.1f s: %s", delay_s, error)
            self._clock.sleep(delay_s)
