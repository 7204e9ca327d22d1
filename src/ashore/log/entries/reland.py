"""`reland`: lost files of the unclosed entry, read again into new files.

What it promises: it brings back exactly what was lost: the same rows of the same partitions, by the
time and the watermarks of the entry that listed them. It adds no range. It closes that entry, and
its own files are now those that are unclosed.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from ashore.log.batch_time import BatchTime
from ashore.log.effects import HasEffects
from ashore.log.entries.prepare import Prepare
from ashore.log.files import DataFile, Target
from ashore.log.fold import Changes, Fold, Unclosed
from ashore.log.positions import ShardKey
from ashore.log.rules import Refused, check_entry_files, require, rows_by_partition


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
    return {"partitions": partitions}


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
