"""The checkpoint of a query that runs, cleaned beside it, a little at a time.

What it is: `CheckpointCleaner`, whose passes begin when they are asked for.
What it promises: a step takes about STEP_S, so that its caller does other things in between. What
was modified within AGE_MS stays, however soon the job file calls a file stale: a table that Spark
uploads is named by no snapshot until all of them are there. No log is asked or written, so that
nothing is fenced; a storage that fails ends the pass, and the next one finds the rest. What cannot
be understood is reported once.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ashore.base.clock import Clock
from ashore.errors import AshoreError, CheckpointUnfit, InvariantBroken, SyncFailed
from ashore.log.progress import CheckpointCleaned
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.garbage import Garbage, Unneeded
from ashore.queries.state.leftovers import LeftAlone, delete_garbage, find_in_parts

if TYPE_CHECKING:  # commands take an age from here, and write no log
    from ashore.log.progress import Progress

STEP_S = 0.5
AGE_MS = 86_400_000

Parts = Iterator[Sequence[Garbage | LeftAlone]]


@dataclass(slots=True)
class _Pass:
    checkpoint: Checkpoint
    parts: Parts
    files: int = 0
    size_bytes: int = 0
    left: int = 0


class CheckpointCleaner:
    """Cleans the checkpoint of one query. By one thread.

    Arguments:
        slice_name: of the query.
        clock: of the job.
        progress: reports each pass that has ended.

    """

    def __init__(self, slice_name: str, clock: Clock, progress: "Progress") -> None:
        self._slice = slice_name
        self._clock = clock
        self._progress = progress
        self._pass: _Pass | None = None
        self._reported: set[tuple[str, str]] = set()

    def begin(self, checkpoint: Checkpoint, now_ms: int, ttl_ms: int) -> None:
        """Begin a pass, unless one is under way. No call is made yet.

        Arguments:
            checkpoint: that the query has, and that only it writes.
            now_ms: the time now.
            ttl_ms: what was modified within it stays, and within AGE_MS.

        """
        if self._pass is None:
            before_ms = now_ms - max(ttl_ms, AGE_MS)
            self._pass = _Pass(checkpoint, find_in_parts(checkpoint, before_ms))

    def step(self) -> None:
        """Continue the pass, if one is under way. Raises InvariantBroken, SyncFailed."""
        under_way = self._pass
        if under_way is None:
            return
        until_s = self._clock.monotonic_s() + STEP_S
        try:
            for part in under_way.parts:
                self._clean(under_way, part)
                if self._clock.monotonic_s() >= until_s:
                    return
        except (InvariantBroken, SyncFailed):
            raise
        except CheckpointUnfit as error:
            if error.fields.get("why") != "empty_checkpoint":  # before the first batch
                self._report(error.message, "")
        except AshoreError as error:
            self._progress.warn(self._slice, f"cleaning the checkpoint: {error.message}")
        self.end()

    def end(self) -> None:
        """End the pass, if one is under way, and report what it has done."""
        under_way, self._pass = self._pass, None
        if under_way is None:
            return
        if under_way.files or under_way.left:
            counts = (under_way.files, under_way.size_bytes, under_way.left)
            self._progress.measured(CheckpointCleaned(self._slice, *counts))

    def _clean(self, under_way: _Pass, part: Sequence[Garbage | LeftAlone]) -> None:
        for each in part:
            if isinstance(each, LeftAlone):
                under_way.left += 1
                self._report(each.path, each.why)
        found = [each for each in part if isinstance(each, Garbage)]
        for garbage in delete_garbage(under_way.checkpoint, found):
            if garbage.why is not Unneeded.EMPTY:
                under_way.files += 1
                under_way.size_bytes += garbage.size_bytes

    def _report(self, path: str, why: str) -> None:
        if (path, why) not in self._reported:
            self._reported.add((path, why))
            text = f"{path}: {why}" if why else path
            self._progress.note(self._slice, f"not cleaned, so that nothing is lost: {text}")
