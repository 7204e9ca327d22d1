"""`retire`: table partitions dropped on purpose.

What it promises: verification no longer asks for their files.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.base import codec
from ashore.log.fold import Changes, Fold
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class RetiredPartition:
    """A table partition dropped on purpose."""

    table: str
    partition: str


@dataclass(frozen=True, slots=True)
class Retire:
    """Table partitions dropped on purpose: verification no longer asks for their files."""

    kind: ClassVar[str] = "retire"
    partitions: tuple[RetiredPartition, ...]
    by: str
    why: str
    counters: tuple[tuple[str, int], ...] = codec.added(())  # of files that were there


def fold_retire(fold: Fold, body: Retire) -> Changes:
    """Return what a `retire` changes in the fold. Raises Refused."""
    dropped = {(each.table, each.partition) for each in body.partitions}
    kept = {key: state for key, state in fold.partitions.items() if key not in dropped}
    counters = dict(fold.counters)
    for name, count in body.counters:
        require(count >= 0, f"{name}: a count below zero")
        counters[name] = counters.get(name, 0) + count
    return {"partitions": kept, "counters": counters}
