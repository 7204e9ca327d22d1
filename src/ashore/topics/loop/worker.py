"""The seam between the loop of a job and what it runs: slices of topics, queries.

What it is: `Worker`, whose turns a `JobLoop` takes until it is drained, stopped or broken.
What it promises: whether an error is worth another turn is decided in one place.
"""

from enum import StrEnum
from typing import Protocol

from ashore.errors import (
    AshoreError,
    BatchFailed,
    CallsHang,
    ClockAhead,
    SourceError,
    StorageError,
    SyncFailed,
)
from ashore.log.store.log import LandingLog


class Tick(StrEnum):
    """What one turn of a worker did."""

    LANDED = "landed"
    BEHIND = "behind"  # landed, and more is waiting than a batch may take
    IDLE = "idle"


class Worker(Protocol):
    """A part of a job that runs, fails and stops alone. Used by one thread, but where it says so.

    Of a slice of topics a turn is one batch; of a query, one run of it, as long as it goes well.
    """

    @property
    def log(self) -> LandingLog:
        """The landing log of its slice."""
        ...

    @property
    def batches_landed(self) -> int:
        """How many batches it has landed: when it grows, patience begins anew."""
        ...

    def open(self) -> None:
        """Take the slice over. Raises what ends the worker."""
        ...

    def tick(self) -> Tick:
        """Take one turn. Raises what ends the worker, and what may pass: see `ends_worker`."""
        ...

    def close(self, reason: str) -> None:
        """Close the last entry, so that nothing is left to recover: no turn follows."""
        ...

    def stop(self, *, finishes: bool = False) -> None:
        """Let the turn under way be the last one. By any thread, once or often.

        `finishes`: as long as it takes; else a worker may give it up. The last call counts.
        """
        ...

    def cancel(self) -> None:
        """Make the turn under way fail soon. By any thread, once or often."""
        ...


def ends_worker(error: AshoreError) -> bool:
    """Return whether an error ends a worker, rather than being retried in another turn."""
    if isinstance(error, SyncFailed | CallsHang):
        return True
    return not isinstance(error, StorageError | SourceError | BatchFailed | ClockAhead)
