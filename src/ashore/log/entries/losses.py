"""Entries about lost files of the unclosed entry: `reland` reads them again, `skip` gives them up.

What `reland` promises: it brings back exactly what was lost: the same rows of the same partitions,
by the time and the watermarks of the entry that listed them. It adds no range. It closes that
entry, and its own files are now those that are unclosed.
What `skip` promises: nothing is given up silently: who did it and why stand in the log for ever.
Offsets are skipped where reading continues (I1). Lost files are those of the entry that it closes,
and their rows are counted, shard by shard.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from ashore.base import codec
from ashore.log.entries.batch import Prepare
from ashore.log.files import DataFile, TableCommit, Target
from ashore.log.fold import (
    Changes,
    Fold,
    HasEffects,
    Refused,
    Unclosed,
    check_commits,
    check_entry_files,
    check_next,
    require,
    rows_by_partition,
)
from ashore.log.positions import BatchTime, ShardKey, ShardRange


@dataclass(frozen=True, slots=True)
class Reland(HasEffects):
    """Lost files of the unclosed entry, read again into new files. Adds no range."""

    kind: ClassVar[str] = "reland"
    entry: int
    batch: int
    time: BatchTime  # of the entry: the new files are routed as the lost ones were
    lost: tuple[str, ...]  # `unique` of the files that are gone
    shards: tuple[ShardKey, ...]  # some of the entry's: spans refer to them
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    commits: tuple[TableCommit, ...] = codec.added(())  # of the entry's, those with lost files


def fold_reland(fold: Fold, body: Reland, number: int, closed: Unclosed | None) -> Changes:
    """Return what a `reland` changes in the fold. Raises Refused. `closed`: by its closing."""
    loss = find_lost(closed, body.entry, body.lost)
    require(len(loss.files) > 0, "it lands no row again")
    of = loss.body
    known = {each if isinstance(each, ShardKey) else each.key for each in of.shards}
    require(
        (body.batch, body.time) == (of.batch, of.time) and known >= set(body.shards),
        "its batch, time, watermarks or shards are not those of the entry",
    )
    check_entry_files(body.files, body.targets, len(body.shards), has_spans=True)
    check_commits(body.commits, body.targets)
    lost, landed = (
        rows_by_partition(loss.files, of.targets),
        rows_by_partition(body.files, body.targets),
    )
    partitions = dict(fold.partitions)
    for key in lost.keys() | landed.keys():
        rows, count = landed.get(key, (0, 0))
        lost_rows, lost_count = lost.get(key, (0, 0))
        require(rows == lost_rows, f"{key[1]}: {rows} rows landed again, {lost_rows} were lost")
        if key in partitions:
            left = partitions[key]
            files = left.files - lost_count + count
            partitions[key] = replace(left, files=files, entry=number)
    commits = {**fold.commits, **{each.table: each for each in body.commits}}
    return {"partitions": partitions, "commits": commits}


class Lost(NamedTuple):
    """Files that an entry gives up, and the body that named them."""

    files: tuple[DataFile, ...]
    body: Prepare | Reland


def find_lost(closed: Unclosed | None, number: int | None, lost: tuple[str, ...]) -> Lost:
    """Return the files that an entry gives up, all of them of the entry that it closes.

    Arguments:
        closed: what the entry's closing has closed.
        number: the entry that it says they are of.
        lost: their `unique`.

    Raises Refused.

    """
    if closed is None or closed.number != number:
        raise Refused("lost files of an entry that it does not close")
    if not isinstance(closed.body, Prepare | Reland):
        raise Refused("lost files of an entry that has none")
    files = {file.unique: file for file in closed.body.files}
    require(files.keys() >= set(lost), "lost files that the entry does not name")
    require(len(set(lost)) == len(lost), "a lost file is in it twice")
    return Lost(tuple(files[each] for each in lost), closed.body)


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
