"""How far a streaming query has come: what the fold of its slice remembers.

What it is: a batch of a query, the last one that a slice's log holds, and the lineage that both are
known by.
What it promises: a lineage is a hash chain over the batches' offsets and the digest of the plan
that each ran: equal lineages mean equal input and equal state.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ashore.base import codec
from ashore.log.positions import ShardKey, ShardRange


@dataclass(frozen=True, slots=True)
class Query:
    """The batch of a streaming query that a `prepare` holds the output of."""

    query_id: str
    batch_id: int
    lineage: str  # hash chain over the batches' offsets and the plan digest
    planned_ms: int = codec.added(0)  # its time by the checkpoint; 0: logs of before do not say


@dataclass(frozen=True, slots=True)
class QueryState:
    """The query that a slice belongs to."""

    query_id: str
    batch_id: int  # the last batch in the log
    lineage: str  # its lineage
    before: str  # the lineage of the batch before; empty for batch 0
    # The first batch that the log may have: of a log that begins with a savepoint, the one after.
    first: int = codec.added(0)
    since: str = codec.added("")  # the lineage that the first batch follows


@dataclass(frozen=True, slots=True)
class PlanState:
    """The plan that a slice's query runs by."""

    digest: str  # of the statements and the views that they read
    document: str  # the plan, as JSON


@dataclass(frozen=True, slots=True)
class MigrationState:
    """A migration that was not undone: the state of the query was rewritten for other SQL."""

    entry: int
    attempt: int  # the epoch of the attempt that it has made
    batch: int  # whose state was rewritten
    before: str  # the digest of the plan before
    savepoint: str  # the place of that of the state before


@codec.positional
@dataclass(frozen=True, slots=True)
class MappingEdit:
    """An operator of a plan and one of the plan after it, by their ids."""

    old: str
    new: str


@dataclass(frozen=True, slots=True)
class EditsState:
    """What a person has said, at a migration, of which operator is which.

    Nothing of the protocol is decided by it. An undo keeps it.
    """

    entry: int  # of the migration
    before: str  # the digest of the plan whose operators are the old ones
    pinned: tuple[MappingEdit, ...] = codec.added(())  # that are a pair
    forbidden: tuple[MappingEdit, ...] = codec.added(())  # that are none


@dataclass(frozen=True, slots=True)
class VersionState:
    """The version of its job that a slice's query runs as; its document is in the entry."""

    version: int
    entry: int
    digest: str


@codec.positional
@dataclass(frozen=True, slots=True, order=True)
class Letter:
    """A record that is to be a dead letter of a query, and why."""

    key: ShardKey
    offset: int
    reason: str


def choose_letters(letters: Iterable[Letter], ranges: Iterable[ShardRange]) -> tuple[Letter, ...]:
    """Return the letters whose records are in some ranges, in the order of an entry."""
    of = {each.key: each.offsets for each in ranges}
    return tuple(
        sorted(
            each
            for each in letters
            if each.key in of and of[each.key].start <= each.offset < of[each.key].end
        )
    )


def merge_letters(known: Iterable[Letter], more: Iterable[Letter]) -> tuple[Letter, ...]:
    """Return all of them, each record once."""
    of = {(each.key, each.offset): each for each in (*known, *more)}
    return tuple(sorted(of.values()))


def link(
    before: str, plan: str, ranges: Iterable[ShardRange], left_out: Iterable[Letter] = ()
) -> str:
    """Return the lineage of a batch.

    Arguments:
        before: the lineage of the batch before; empty for batch 0.
        plan: the digest of what the query computes.
        ranges: of the batch. Their order does not matter, nor do empty ones.
        left_out: records of these that are left out, whatever the reasons.

    """
    read = [
        [*_key(each), each.offsets.start, each.offsets.end]
        for each in sorted(ranges)
        if each.offsets.size
    ]
    left = [[*_key(each), each.offset] for each in sorted(left_out)]
    linked = [before, plan, read, left] if left else [before, plan, read]  # as before there were
    text = json.dumps(linked, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _key(each: ShardRange | Letter) -> tuple[str, str, int, str]:
    return (each.key.source, each.key.stream, each.key.generation, each.key.shard)
