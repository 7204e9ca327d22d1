"""Entries that replace files of a table in a table format by fewer ones: `compact`.

What `compact` promises: no row comes or goes. The new files have as many rows as those that they
replace, partition by partition, from the same offsets. It counts once a later entry closes it as
done, which is after readers see the new files and not the old ones; where the table had changed
meanwhile it is closed as abandoned, and the old files count as before.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from ashore.log import names
from ashore.log.files import DataFile, PartitionKey, TableCommit, Target
from ashore.log.fold import (
    Changes,
    Fold,
    HasEffects,
    PartitionState,
    check_commits,
    check_entry_files,
    require,
    rows_by_partition,
)
from ashore.log.positions import ShardKey


@dataclass(frozen=True, slots=True)
class ReplacedFile:
    """A file that a table has until it is compacted. It stays where it is, for older snapshots."""

    path: str  # final, in the lake
    rows: int
    size_bytes: int
    checksum: str


@dataclass(frozen=True, slots=True)
class FilePart:
    """What spans of new files refer to: a shard's range in one `prepare`."""

    entry: int
    key: ShardKey


@dataclass(frozen=True, slots=True)
class Compact(HasEffects):
    """Files of a table become fewer."""

    kind: ClassVar[str] = "compact"
    batch: int  # the last one's: what the names of the new files carry
    base: int  # the snapshot that the table had; in Delta, the version
    replaced: tuple[ReplacedFile, ...]
    parts: tuple[FilePart, ...]
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    commit: TableCommit

    @property
    def paths(self) -> frozenset[str]:
        """The paths of the files that go."""
        return frozenset(each.path for each in self.replaced)


def check_compact(fold: Fold, body: Compact, number: int) -> Changes:
    """Return what a `compact` changes in the fold before it is done: nothing. Raises Refused."""
    last = fold.next_batch - 1
    require(body.batch == last, f"batch {body.batch}, the last one is {last}")
    require(len(body.paths) == len(body.replaced), "it replaces a file twice")
    has_spans = fold.query is None
    check_entry_files(body.files, body.targets, len(body.parts), has_spans=has_spans)
    check_commits((body.commit,), body.targets)
    tables = {each.table for each in body.targets}
    require(tables == {body.commit.table}, "it has files of other tables")
    for part in body.parts:
        require(part.entry < number, f"it has rows of entry {part.entry}")
        require(part.key in fold.shards, f"{part.key} was never joined")
    rows = Counter[str]()
    for each in body.replaced:
        rows[names.parent(each.path)] += each.rows
    for file in body.files:
        rows[body.targets[file.target].directory] -= file.rows
    uneven = sorted(directory for directory, count in rows.items() if count)
    require(not uneven, f"the rows before and after differ in {uneven[:1]}")
    return {}


def fold_compacted(fold: Fold, body: Compact, number: int) -> Changes:
    """Return what a `compact` that is done changes in the fold. `number`: of its entry."""
    old_files = Counter(names.parent(each.path) for each in body.replaced)
    partitions: dict[PartitionKey, PartitionState] = dict(fold.partitions)
    directories = {target.key: target.directory for target in body.targets}
    for key, (_, count) in rows_by_partition(body.files, body.targets).items():
        if key in partitions:
            files = partitions[key].files - old_files[directories[key]] + count
            partitions[key] = replace(partitions[key], files=max(0, files), entry=number)
    commits: Mapping[str, TableCommit] = {**fold.commits, body.commit.table: body.commit}
    return {"partitions": partitions, "commits": commits}
