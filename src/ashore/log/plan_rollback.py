"""What takes the table of a query back to an earlier batch.

What it is: `plan_rollback`, from the fold and the batches that follow to the entry that undoes
them.
What it promises: pure. What comes to nothing is exactly what came after that batch: its files go
aside and its offsets are read again. What cannot be undone is refused, with what to do instead.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace

from ashore.log.entries import Rollback, ShardRead, Withdrawn
from ashore.log.files import PartitionKey, Target
from ashore.log.fold import Fold
from ashore.log.positions import OffsetRange, ShardKey, ShardRange
from ashore.log.query_history import LandedBatch

WITHDRAWN_MAX = 10_000  # files in one entry: about a megabyte


@dataclass(frozen=True, slots=True)
class NoRollback:
    """The table cannot be rolled back like this."""

    text: str
    hint: str


@dataclass(frozen=True, slots=True)
class Wish:
    """To which batch, by whom and for what reason."""

    batch_id: int
    by: str
    why: str


def plan_rollback(
    fold: Fold, batches: Mapping[int, LandedBatch], wish: Wish
) -> Rollback | NoRollback:
    """Return the entry that rolls a table back, or why there is none.

    Arguments:
        fold: of the slice's log.
        batches: that count, from the one before the wished one on, by their numbers.
        wish: which batch to roll back to. Requires: at or above batch 0.

    """
    known, number = fold.query, wish.batch_id
    if known is None:
        return NoRollback("no batch of the query has landed yet", "there is nothing to roll back")
    if number >= known.batch_id:
        return NoRollback(
            f"the table is at batch {known.batch_id}, not after batch {number}",
            "name an earlier batch",
        )
    if number < known.first:
        return NoRollback(
            f"its log begins with batch {known.first}: it continues a savepoint of batch "
            f"{known.first - 1}, and earlier batches are in another table",
            f"name batch {known.first} or a later one, or fill another table from that savepoint",
        )
    if fold.migrations and number < fold.migrations[-1].batch:
        return NoRollback(
            f"the SQL was migrated after batch {fold.migrations[-1].batch}, and the state before "
            "that is of other SQL",
            "`ashore migrate undo JOB.yaml --output roll-back` returns to that batch first",
        )
    numbers = range(max(number - 1, known.first), known.batch_id + 1)
    missing = [each for each in numbers if each not in batches]
    if missing:
        return NoRollback(f"the log does not have batch {missing[0]}", "name a later batch")
    undone = [batches[each] for each in range(number + 1, known.batch_id + 1)]
    if any(not read.table for each in undone for read in each.body.shards):
        return NoRollback(
            "its rows are in a topic and cannot be removed from it",
            "run the job: the query catches up, and sends no row twice",
        )
    withdrawn = [file for each in undone for file in each.files]
    if len(withdrawn) > WITHDRAWN_MAX:
        return NoRollback(
            f"{len(withdrawn)} files would be moved aside, but at most {WITHDRAWN_MAX} can be at "
            "once",
            "roll back in steps: name a later batch first",
        )
    if fold.commits:
        return NoRollback(
            "its rows are in snapshots of a table, which this release does not take back",
            "fill another table",
        )
    if sealed := _find_sealed(fold, undone):
        text = f"{sealed[0]} {sealed[1]} is sealed: it may have been read as complete"
        return NoRollback(text, "fill another table")
    kept = batches[number]
    before = batches[number - 1].query.lineage if number > known.first else known.since
    return _rollback(fold, kept, undone, wish, before)


def _find_sealed(fold: Fold, undone: list[LandedBatch]) -> PartitionKey | None:
    keys = {batch.target(file).key for batch in undone for file in batch.files}
    sealed = (key for key in keys if key in fold.partitions and fold.partitions[key].sealed_version)
    return min(sealed, default=None)


def _rollback(
    fold: Fold, kept: LandedBatch, undone: list[LandedBatch], wish: Wish, before: str
) -> Rollback:
    targets: dict[Target, int] = {}
    files = []
    for batch in undone:
        for file in batch.files:
            index = targets.setdefault(batch.target(file), len(targets))
            moved = replace(file, target=index, spans=())
            files.append(Withdrawn(batch.epoch, batch.body.batch, moved))
    firsts = _first_reads(undone)
    return Rollback(
        entry=kept.entry,
        query=kept.query,
        before=before,
        shards=tuple(
            ShardRange(key, OffsetRange(read.offsets.start, fold.shards[key].next))
            for key, read in firsts
        ),
        targets=tuple(targets),
        files=tuple(files),
        by=wish.by,
        why=wish.why,
        leader_epochs=tuple(
            (key, read.leader_epoch) for key, read in firsts if read.leader_epoch is not None
        ),
        left_out=tuple(sorted(each for batch in (kept, *undone) for each in batch.left_out)),
        dead=_count_dead(undone),
    )


def _count_dead(undone: list[LandedBatch]) -> tuple[tuple[ShardKey, int], ...]:
    """Return the dead letters of the batches, by shard; of a query they are all that is fetched."""
    counts: Counter[ShardKey] = Counter()
    for batch in undone:
        counts.update({read.key: read.dead for read in batch.body.shards})
    return tuple(sorted((+counts).items()))


def _first_reads(undone: list[LandedBatch]) -> list[tuple[ShardKey, ShardRead]]:
    """Return what the batches have read first of each shard.

    The leader of such a range had all that comes before it, or the batch would not have been begun.
    """
    firsts: dict[ShardKey, ShardRead] = {}
    for batch in undone:
        for read in batch.body.shards:
            firsts.setdefault(read.key, read)
    return sorted(firsts.items(), key=lambda each: each[0])
