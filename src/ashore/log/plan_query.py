"""What is done with a batch of a streaming query: write its rows, throw them away, or refuse it.

What it is: `plan_start`, when a query meets the log of its slice, and `plan_query_batch`, for each
batch. Spark keeps offsets and state in a checkpoint, the log says what the table holds; a crash, or
restoring one of the two, makes them differ.
What it promises: pure. Rows are written for exactly the batch that follows the log. A batch that
the log holds already runs to its end, so that state is built, and its rows are thrown away: if its
lineage is the same. Everything else is refused, with what was found.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ashore.errors import check
from ashore.log.fold import Fold
from ashore.log.positions import ShardKey, ShardRange
from ashore.log.query import Letter, QueryState, choose_letters, link

NO_BATCH = -1  # where a checkpoint has none


@dataclass(frozen=True, slots=True)
class QueryBatch:
    """A batch that Spark is about to run."""

    query_id: str
    batch_id: int
    plan: str  # digest of what the query computes
    ranges: tuple[ShardRange, ...]  # offsets that it reads; none where only the watermark advances
    watermark_ms: int = 0  # by which it forgets and counts as late; 0: there is none yet
    planned_ms: int = 0  # its time by the checkpoint: what is too far ahead is so by it
    left_out: tuple[Letter, ...] = ()  # as the log says


@dataclass(frozen=True, slots=True)
class WriteRows:
    """The batch follows the log: its rows count."""

    lineage: str
    unknown: tuple[ShardKey, ...]  # shards that must be joined before


@dataclass(frozen=True, slots=True)
class DiscardRows:
    """The log holds this very batch: it is run for its state, and its rows are in the table."""

    lineage: str


class Refusal(StrEnum):
    """Why a batch, or a start, is refused."""

    EMPTY_CHECKPOINT = "empty_checkpoint"
    OTHER_QUERY = "other_query"
    OTHER_LINEAGE = "other_lineage"
    GAP = "gap"
    RANGES = "ranges"
    FORGOTTEN = "forgotten"


@dataclass(frozen=True, slots=True)
class Refuse:
    """The batch would double rows or lose some."""

    why: Refusal
    text: str


@dataclass(frozen=True, slots=True)
class CheckpointPosition:
    """How far a checkpoint has come. NO_BATCH: it has none of these."""

    query_id: str | None  # None: there is no checkpoint
    planned: int  # the last batch whose offsets it holds
    committed: int  # the last batch that it calls done


@dataclass(frozen=True, slots=True)
class Start:
    """The query may start: what it runs first follows the log, or is the log's last batch."""


@dataclass(frozen=True, slots=True)
class CutAlike:
    """The checkpoint is older than the table: these batches run again, cut as the log says."""

    first: int
    last: int


def plan_start(
    known: QueryState | None, checkpoint: CheckpointPosition
) -> Start | CutAlike | Refuse:
    """Decide whether a checkpoint and the log of its slice belong together."""
    if known is None:
        if checkpoint.committed > NO_BATCH:
            text = (
                f"the checkpoint has finished batch {checkpoint.committed}, but the log has no "
                "batch"
            )
            return Refuse(Refusal.GAP, text)
        return Start()
    if checkpoint.query_id is None:
        text = f"there is no checkpoint, but the log has batch {known.batch_id}"
        return Refuse(Refusal.EMPTY_CHECKPOINT, text)
    if checkpoint.query_id != known.query_id:
        return _other_query(known, checkpoint.query_id)
    if known.first and checkpoint.committed < known.first - 1:
        text = (
            f"the log begins after batch {known.first - 1}, which another table has, but the "
            f"checkpoint is at batch {checkpoint.committed}"
        )
        return Refuse(Refusal.FORGOTTEN, text)
    newest = max(checkpoint.committed, checkpoint.planned - 1)
    if newest > known.batch_id:
        text = f"the checkpoint is at batch {newest}, but the log ends with batch {known.batch_id}"
        return Refuse(Refusal.GAP, text)
    # Spark continues from the last batch whose offsets it has; those before it must be finished.
    if checkpoint.planned > checkpoint.committed + 1:
        text = (
            f"the checkpoint has planned batch {checkpoint.planned} and finished "
            f"{checkpoint.committed}: the batches between them would be skipped"
        )
        return Refuse(Refusal.GAP, text)
    if checkpoint.planned >= known.batch_id:
        return Start()
    if checkpoint.committed == NO_BATCH:
        text = f"the checkpoint has finished no batch, but the log has batch {known.batch_id}"
        return Refuse(Refusal.FORGOTTEN, text)
    return CutAlike(checkpoint.committed + 1, known.batch_id)


def plan_query_batch(
    fold: Fold, batch: QueryBatch, past: Mapping[int, str] | None = None
) -> WriteRows | DiscardRows | Refuse:
    """Decide whether the rows of a batch are written or dropped.

    Arguments:
        fold: of the slice's log, nothing unclosed in it that another writer could finish.
        batch: that is about to run.
        past: lineages of older batches, by their ids, where more than the last two are asked for.

    """
    known = fold.query
    if known is None:
        if batch.batch_id != 0:
            text = f"batch {batch.batch_id} is the first of the query in the log"
            return Refuse(Refusal.GAP, text)
        return _write(fold, batch, "")
    if batch.query_id != known.query_id:
        return _other_query(known, batch.query_id)
    if batch.batch_id == known.batch_id + 1:
        return _write(fold, batch, known.lineage)
    if batch.batch_id > known.batch_id:
        text = f"batch {batch.batch_id} follows batch {known.batch_id}"
        return Refuse(Refusal.GAP, text)
    return _replay(known, batch, past or {})


def _other_query(known: QueryState, query_id: str) -> Refuse:
    text = f"the log is that of query {known.query_id}, this is query {query_id}"
    return Refuse(Refusal.OTHER_QUERY, text)


def _write(fold: Fold, batch: QueryBatch, before: str) -> WriteRows | Refuse:
    unknown = []
    for each in batch.ranges:
        state = fold.shards.get(each.key)
        if state is None:
            unknown.append(each.key)
        elif each.offsets.start != state.next:
            text = f"{each} is to be read, but the next offset in the log is {state.next}"
            return Refuse(Refusal.RANGES, text)
    letters = choose_letters(fold.left_out, batch.ranges)
    check(batch.left_out == letters, "a batch leaves out what the log says")
    return WriteRows(link(before, batch.plan, batch.ranges, letters), tuple(unknown))


def _replay(known: QueryState, batch: QueryBatch, past: Mapping[int, str]) -> DiscardRows | Refuse:
    number = batch.batch_id
    if number < known.first:
        text = f"batch {number} is in another table: the log begins with batch {known.first}"
        return Refuse(Refusal.FORGOTTEN, text)
    lineages = {
        known.first - 1: known.since,
        **past,
        known.batch_id - 1: known.before,
        known.batch_id: known.lineage,
    }
    if number not in lineages or number - 1 not in lineages:
        text = f"batch {number} is older than the last batch in the log, {known.batch_id}"
        return Refuse(Refusal.FORGOTTEN, text)
    lineage = link(lineages[number - 1], batch.plan, batch.ranges, batch.left_out)
    if lineage != lineages[number]:
        text = f"batch {number} would read other offsets or give another result than before"
        return Refuse(Refusal.OTHER_LINEAGE, text)
    return DiscardRows(lineage)
