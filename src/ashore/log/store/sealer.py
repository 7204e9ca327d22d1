"""Sealing: announcing that a table partition is complete.

What it is: `Sealer`, which makes the body of the next `seal` entry from what is due.
What it promises: nothing is written here; the seal's effects follow from its entry.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ashore.log.entries import Seal, SealedPartition
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_seal import SealRule, plan_seal
from ashore.log.positions import BatchTime
from ashore.log.store.effects import next_free_version
from ashore.storage.base import Storage


@dataclass(frozen=True, slots=True)
class Sealer:
    """Seals for a job. One slice of a job has it."""

    storage: Storage
    rules: Callable[[], Sequence[SealRule]]  # a job may find more tables while it runs

    def plan(self, name: SliceName, fold: Fold, time: BatchTime) -> Seal | None:
        """Return the next seal, or None where nothing is due.

        One entry holds tables that ask for the same actions; others follow with the next one.
        """
        rules = {rule.table: rule for rule in self.rules()}
        due = plan_seal(fold, {}, rules.values(), time).partitions
        if not due:
            return None
        actions = rules[due[0].table].actions
        partitions = tuple(
            self._numbered(each) for each in due if rules[each.table].actions == actions
        )
        return Seal(partitions, actions, ((name.slice, fold.end),))

    def _numbered(self, sealed: SealedPartition) -> SealedPartition:
        version = next_free_version(self.storage, sealed.table, sealed.partition, sealed.version)
        return replace(sealed, version=version)
