"""The one place where storage calls are repeated.

What it is: a storage around another one, and the delays between tries.
What it promises: only calls that change nothing are repeated (stat, list, read), and such as no
server took (NotApplied). An answer (PathMissing, PathExists) is never asked for again, and a failed
sync never repeated.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

from ashore.base.clock import Clock
from ashore.errors import NotApplied, PathExists, PathMissing, StorageError, SyncFailed, check
from ashore.storage.base import FileStat, FileWriter, Links, Staged, Storage

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


class RetryStatistics(NamedTuple):
    """What the tries came to."""

    repeated: int  # tries after the first
    given_up: int  # calls whose last try failed too


class RetryingStorage:
    """A Storage that asks again where nothing was changed."""

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
        self._lock = threading.Lock()
        self._repeated = 0
        self._given_up = 0

    def statistics(self) -> RetryStatistics:
        """Return the counts since the start."""
        with self._lock:
            return RetryStatistics(self._repeated, self._given_up)

    def create(self, path: str, data: bytes) -> None:
        """See Storage. An appender looks at the number before trying an unclear one again."""
        self._again(lambda: self._inner.create(path, data))

    def open_write(self, path: str) -> FileWriter:
        """See Storage. After an unclear one the next try takes another name."""
        return self._again(lambda: self._inner.open_write(path))

    def publish(self, staged: Staged, final: str) -> None:
        """See Storage. The caller looks at both names before trying an unclear one again."""
        self._again(lambda: self._inner.publish(staged, final))

    def stat(self, path: str) -> FileStat | None:
        """See Storage."""
        return self._again(lambda: self._inner.stat(path), self._attempts)

    def list(self, directory: str) -> list[FileStat]:
        """See Storage."""
        return self._again(lambda: self._inner.list(directory), self._attempts)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """See Storage."""
        return self._again(lambda: self._inner.read(path, start, length), self._attempts)

    def delete(self, path: str) -> None:
        """See Storage."""
        self._again(lambda: self._inner.delete(path))

    def sync(self, directories: Sequence[str]) -> None:
        """See Storage. A failed one is never repeated: the system forgets what it did not write."""
        self._again(lambda: self._inner.sync(directories))

    def link(self, source: str, target: str) -> bool:
        """See Links."""
        inner = self._inner
        return isinstance(inner, Links) and self._again(lambda: inner.link(source, target))

    def describe(self) -> str:
        """See Storage."""
        return self._inner.describe()

    def _again(self, call: Callable[[], T], attempts: int = 1) -> T:
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
                    with self._lock:
                        self._given_up += 1
                    raise
                delay_s = next(delays_s)
                _log.warning("again in %.1f s: %s", delay_s, error)
            with self._lock:
                self._repeated += 1
            self._clock.sleep(delay_s)
