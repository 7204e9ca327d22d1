"""Sealing: telling the world that a table partition is complete.

What it is: `Sealer`, which makes the body of the next `seal` entry from what is due.
What it promises: nothing is written here; the seal's effects follow from its entry.
What it must not know: batches.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ashore.landing.effects import next_free_version
from ashore.protocol.entries import Seal, SealedPartition
from ashore.protocol.fold import Fold
from ashore.protocol.names import SliceName
from ashore.protocol.plan_seal import SealPlan, SealRule, plan_seal
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals for a job. One slice of a job has it."""

    storage: Storage
    rules: Callable[[], Sequence[SealRule]]  # a job may find more tables while it runs
    actions: tuple[str, ...]

    def plan(
        self, name: SliceName, fold: Fold, watermarks: Mapping[str, int], now_ms: int
    ) -> Seal | None:
        """Return the next seal, or None where nothing is due."""
        found: SealPlan = plan_seal(fold, {}, self.rules(), watermarks, now_ms)
        if not found.partitions:
            return None
        partitions = tuple(self._numbered(each) for each in found.partitions)
        return Seal(partitions, self.actions, ((name.slice, fold.end),))

    def _numbered(self, sealed: SealedPartition) -> SealedPartition:
        version = next_free_version(self.storage, sealed.table, sealed.partition, sealed.version)
        return replace(sealed, version=version)
