"""`begin`: the log of a query begins after a batch that another table has.

What it promises: the first entry about a query in its slice, and at most one: before it nothing was
joined, planned or landed there. What follows continues from the batch that it names: its offsets,
its lineage, the SQL that made its state. Nothing up to that batch is said to be in this slice's
table.
"""

from dataclasses import dataclass
from typing import ClassVar

from ashore.log.entries.join import Join, Joined, fold_join
from ashore.log.fold import Changes, Fold
from ashore.log.query import PlanState, Query, QueryState
from ashore.log.rules import require


@dataclass(frozen=True, slots=True)
class Begin:
    """The log of a query begins after a batch that another table has."""

    kind: ClassVar[str] = "begin"
    query: Query  # the batch that it continues from
    shards: tuple[Joined, ...]  # where its ranges ended: reading continues there
    digest: str  # of the SQL that made the state; empty: not known
    document: str  # that plan, as JSON; empty: not known
    owner: str  # the job and slice that the savepoint is of; empty: it does not say
    savepoint: str  # where it was
    by: str
    why: str


def fold_begin(fold: Fold, body: Begin, written_ms: int) -> Changes:
    """Return what a `begin` changes in the fold. Raises Refused. `written_ms`: of its entry."""
    require(is_empty(fold), "the slice has landed or read something before")
    require(body.query.batch_id >= 0, f"it continues from batch {body.query.batch_id}")
    require(bool(body.query.query_id and body.query.lineage), "it does not say of which query")
    require(bool(body.digest) == bool(body.document), "it has half a plan")
    state = QueryState(
        query_id=body.query.query_id,
        batch_id=body.query.batch_id,
        lineage=body.query.lineage,
        before="",
        first=body.query.batch_id + 1,
        since=body.query.lineage,
    )
    plan = PlanState(body.digest, body.document) if body.digest else None
    return {**fold_join(fold, Join(body.shards), written_ms), "query": state, "plan": plan}


def is_empty(fold: Fold) -> bool:
    """Return whether a slice may begin after a batch of a query: its log has nothing of its own."""
    is_new = fold.query is None and fold.plan is None and fold.version is None
    return is_new and fold.next_batch == 0 and not fold.shards and not fold.partitions
