"""How far a streaming query has come: what the fold of its slice remembers.

What it is: the last batch that a slice's log holds, and the lineage of the one before it.
What it promises: batches of one query follow each other without a hole, from 0. A lineage is a hash
chain over the batches' offsets and the digest of the plan that each ran: equal lineages mean equal
input and equal state.
What it must not know: what a query computes, where its state is.
"""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass

from ashore.protocol.entries import Prepare, Rewind
from ashore.protocol.positions import ShardRange


@dataclass(frozen=True, slots=True)
class QueryState:
    """The query that a slice belongs to."""

    query_id: str
    batch_id: int  # the last batch in the log
    lineage: str  # its lineage
    before: str  # the lineage of the batch before; empty for batch 0


class DoesNotFollow(ValueError):
    """A batch is not the next one of its slice's query; the message says why."""


def follow(known: QueryState | None, body: Prepare) -> QueryState | None:
    """Return the state of a slice's query with one more `prepare`; None: the slice has no query."""
    batch = body.query
    if batch is None:
        _require(known is None, "a batch without its query, in the slice of one")
        return None
    if known is None:
        _require(body.batch == 0, f"query {batch.query_id} in a slice that landed topics")
        _require(batch.batch_id == 0, f"batch {batch.batch_id} of a query is its first")
        return QueryState(batch.query_id, 0, batch.lineage, "")
    is_same = batch.query_id == known.query_id
    _require(is_same, f"query {batch.query_id} in the slice of query {known.query_id}")
    is_next = batch.batch_id == known.batch_id + 1
    _require(is_next, f"batch {batch.batch_id} of a query after its batch {known.batch_id}")
    return QueryState(batch.query_id, batch.batch_id, batch.lineage, known.lineage)


def go_back(known: QueryState | None, body: Rewind) -> QueryState:
    """Return the state of a slice's query after a `rewind`."""
    batch = body.query
    if known is None or batch.query_id != known.query_id:
        raise DoesNotFollow(f"query {batch.query_id} goes back in a slice that is not its own")
    is_earlier = 0 <= batch.batch_id < known.batch_id
    _require(is_earlier, f"it goes back from batch {known.batch_id} to {batch.batch_id}")
    return QueryState(batch.query_id, batch.batch_id, batch.lineage, body.before)


def _require(condition: bool, reason: str) -> None:
    if not condition:
        raise DoesNotFollow(reason)


def link(before: str, plan: str, ranges: Iterable[ShardRange]) -> str:
    """Return the lineage of a batch.

    Arguments:
        before: the lineage of the batch before; empty for batch 0.
        plan: the digest of what the query computes.
        ranges: of the batch. Their order does not matter, nor do empty ones.

    """
    read = [
        [*_key(each), each.offsets.start, each.offsets.end]
        for each in sorted(ranges)
        if each.offsets.size
    ]
    text = json.dumps([before, plan, read], separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _key(each: ShardRange) -> tuple[str, str, int, str]:
    return (each.key.source, each.key.stream, each.key.generation, each.key.shard)
