"""`skip`: offsets or lost files given up on purpose.

What it promises: nothing is given up silently: who did it and why stand in the log for ever.
Offsets are skipped where reading continues (I1). Lost files are those of the entry that it closes,
and their rows are counted, shard by shard.
"""

from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.base import codec
from ashore.log.entries.reland import find_lost
from ashore.log.fold import Changes, Fold, Unclosed
from ashore.log.positions import ShardKey, ShardRange
from ashore.log.rules import check_next, require, rows_by_partition


@dataclass(frozen=True, slots=True)
class Skip:
    """Offsets or lost files given up on purpose."""

    kind: ClassVar[str] = "skip"
    ranges: tuple[ShardRange, ...]
    entry: int | None  # the unclosed entry whose files are lost
    lost: tuple[str, ...]  # `unique` of these files
    lost_rows: tuple[tuple[ShardKey, int], ...]
    by: str
    why: str
    # Of the leaders that had the offsets where reading continues, as `ShardRead.leader_epoch`.
    leader_epochs: tuple[tuple[ShardKey, int], ...] = codec.added(())


def fold_skip(fold: Fold, body: Skip, closed: Unclosed | None) -> Changes:
    """Return what a `skip` changes in the fold. Raises Refused.

    `closed`: what its closing has closed.
    """
    shards = dict(fold.shards)
    leader_epochs = dict(body.leader_epochs)
    for each in body.ranges:
        state = check_next(shards.get(each.key), each.key, each.offsets)
        skipped = state.skipped + each.offsets.size
        shards[each.key] = replace(
            state, next=each.offsets.end, skipped=skipped, leader_epoch=leader_epochs.get(each.key)
        )
    partitions, lost_rows = dict(fold.partitions), 0
    if body.lost or body.entry is not None:
        loss = find_lost(closed, body.entry, body.lost)
        require(len(loss.files) > 0, "it gives up no file of its entry")
        # Rows of a query are of no shard, its dead letters are.
        lost_rows = sum(span.rows for file in loss.files for span in file.spans)
        for key, (rows, count) in rows_by_partition(loss.files, loss.body.targets).items():
            if key in partitions:
                left = partitions[key]
                partitions[key] = replace(left, rows=left.rows - rows, files=left.files - count)
    counted = sum(rows for _, rows in body.lost_rows)
    require(counted == lost_rows, f"{lost_rows} rows of shards are lost, {counted} counted")
    for shard, rows in body.lost_rows:
        require(shard in shards, f"{shard} was never joined")
        require(rows >= 0, f"{shard}: a count below zero")
        shards[shard] = replace(shards[shard], lost=shards[shard].lost + rows)
    return {"shards": shards, "partitions": partitions}
