"""Entries about table partitions: `seal`, they are complete; `retire`, they are dropped.

What `seal` promises: the versions of a partition grow; a version is sealed once. The actions that
it asks for stand in it, so that any writer finishes the entry alike.
What `retire` promises: verification no longer asks for the files of what was dropped on purpose.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.fold import Action, Changes, Fold, HasEffects, new_partition, require


@dataclass(frozen=True, slots=True)
class SealedPartition:
    """A table partition that is complete as far as the logs were read."""

    table: str
    partition: str
    version: int  # from 1
    rows: int
    added: int  # rows since the version before
    now_ms: int


@dataclass(frozen=True, slots=True)
class Seal(HasEffects):
    """Table partitions that are complete, and how far each slice's log was read."""

    kind: ClassVar[str] = "seal"
    partitions: tuple[SealedPartition, ...]
    actions: tuple[Action | str, ...]  # what each of them asks for
    read_to: tuple[tuple[str, int], ...]  # slice, entry number


def fold_seal(fold: Fold, body: Seal, number: int) -> Changes:
    """Return what a `seal` changes in the fold. Raises Refused. `number`: of its entry."""
    partitions = dict(fold.partitions)
    for sealed in body.partitions:
        key = (sealed.table, sealed.partition)
        state = partitions.get(key) or new_partition(key, number)
        expected = state.sealed_version + 1
        require(sealed.version >= expected, f"{key[1]}: version {sealed.version} is not new")
        partitions[key] = replace(
            state,
            sealed_version=sealed.version,
            sealed_rows=sealed.rows,
            sealed_ms=sealed.now_ms,
        )
    return {"partitions": partitions}


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
