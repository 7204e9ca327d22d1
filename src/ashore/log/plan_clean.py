"""Which in-progress files, directories of such and orphan files the janitor may delete.

What it promises: pure. Only files that no unclosed entry names, of an older epoch or of a closed
batch; only empty directories of older epochs, and of each table the newest stays: it shows a start
that finds no log, or a shorter one, that there was one. The time-to-live is courtesy to slow
tasks; safety rests on no clock: a file that is still needed is either named by the unclosed entry,
or of the current epoch and the next batch.
"""

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from ashore.log import names
from ashore.log.entries import Compact, Prepare, Reland
from ashore.log.fold import Fold
from ashore.log.names import SliceName


@dataclass(frozen=True, slots=True)
class StagedFile:
    """A file in a staging directory of the slice."""

    path: str
    epoch: int
    batch: int
    unique: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class Leftover:
    """A file that nothing refers to: half of a new file, a probe, or an orphan of a table."""

    path: str
    size_bytes: int
    modified_ms: int


@dataclass(frozen=True, slots=True)
class EpochDirectory:
    """Where the writer of an epoch staged the files of a table."""

    path: str
    epoch: int
    is_empty: bool
    modified_ms: int
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class DeleteFile:
    """Delete one file, or empty directory, that is no longer needed."""

    file: StagedFile | Leftover | EpochDirectory
    why: str


@dataclass(frozen=True, slots=True)
class ListedTable:
    """A table in a table format that a slice has filled, and what lies below it."""

    table: str
    below: tuple[Leftover, ...]  # all files, of any writer
    name: SliceName
    fold: Fold  # of the slice's log. Requires: read after the files were listed
    now_ms: int
    ttl_ms: int

    @property
    def stale(self) -> Iterator[Leftover]:
        """The files that are old enough to be deleted."""
        return (each for each in self.below if self.now_ms - each.modified_ms >= self.ttl_ms)


def find_wanted(fold: Fold) -> tuple[set[str], int]:
    """Return the `unique` of the files that the unclosed entry names, and the first open batch."""
    unclosed = fold.unclosed
    if unclosed and isinstance(unclosed.body, Prepare | Reland):
        return {file.unique for file in unclosed.body.files}, unclosed.body.batch
    if unclosed and isinstance(unclosed.body, Compact):
        return {file.unique for file in unclosed.body.files}, fold.next_batch
    return set(), fold.next_batch


def find_ordered(fold: Fold) -> frozenset[int]:
    """Return the snapshots that the unclosed entry orders: a commit of one may be on its way."""
    body = fold.unclosed.body if fold.unclosed else None
    if isinstance(body, Compact):
        return frozenset({body.commit.snapshot_id})
    commits = body.commits if isinstance(body, Prepare | Reland) else ()
    return frozenset(each.snapshot_id for each in commits)


def plan_clean(
    fold: Fold, staged: Iterable[StagedFile], now_ms: int, ttl_ms: int
) -> tuple[DeleteFile, ...]:
    """Return what may be deleted.

    Requires: `fold` was read before `staged` was listed, or after; either is safe, since epochs
    and batches only grow.
    """
    needed, closed_below = find_wanted(fold)
    steps = []
    for file in staged:
        if file.unique in needed or now_ms - file.modified_ms < ttl_ms:
            continue
        if file.epoch < fold.epoch:
            steps.append(DeleteFile(file, f"epoch {file.epoch} is over"))
        elif file.epoch == fold.epoch and file.batch < closed_below:
            steps.append(DeleteFile(file, f"batch {file.batch} is closed"))
    return tuple(steps)


def plan_empty(
    fold: Fold, directories: Iterable[EpochDirectory], now_ms: int, ttl_ms: int
) -> tuple[DeleteFile, ...]:
    """Return which directories of a slice in one table may be deleted.

    That of the unclosed entry stays, however old: the writer that finishes the entry syncs it.
    Requires: as `plan_clean`.
    """
    known = sorted(directories, key=lambda each: each.epoch)
    unclosed = fold.unclosed.epoch if fold.unclosed else None
    return tuple(
        DeleteFile(each, f"epoch {each.epoch} is over")
        for each in known[:-1]
        if each.is_empty
        and each.epoch < fold.epoch
        and each.epoch != unclosed
        and now_ms - each.modified_ms >= ttl_ms
    )


def plan_leftovers(found: Iterable[Leftover], now_ms: int, ttl_ms: int) -> tuple[DeleteFile, ...]:
    """Return what a process has left that died while it made a file, or tried out a directory.

    To delete one of a process that lives is harmless: its call fails, and is made again.
    """
    return tuple(
        DeleteFile(each, "a process died while it wrote it")
        for each in found
        if now_ms - each.modified_ms >= ttl_ms
    )


def plan_orphans(listed: ListedTable, named: Container[str]) -> tuple[DeleteFile, ...]:
    """Return which data files below a table in a table format may be deleted.

    Only those that the slice has made, as their names say, of closed batches: no commit of them is
    to come. A file is known by its name, which is used once, wherever the table has it.

    Arguments:
        listed: the table.
        named: the names of the files that snapshots of the table refer to. Requires: read after
            the log was, so that they include the files of all batches that it has closed.

    """
    fold = listed.fold
    needed, closed_below = find_wanted(fold)
    steps = []
    for file in listed.stale:
        leaf = names.leaf(file.path)
        final = names.parse_final(leaf)
        if final is None or final.slice != listed.name.slice:
            continue
        if leaf in named or final.unique in needed:
            continue
        if (final.epoch, final.batch) < (fold.epoch, closed_below):
            steps.append(DeleteFile(file, "no snapshot names it"))
    return tuple(steps)
