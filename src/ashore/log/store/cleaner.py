"""Cleaning: in-progress files, and directories of such, that are no longer needed.

What it is: lists the staging directories of a slice and what processes that died have left beside
them, applies what `plan_clean` allows. `delete_staged` is for the writer of a batch that failed.
What it promises: cleaning is off the commit path. It may run anywhere, also beside the job: what it
deletes is decided by a fold, and epochs and batches only grow.
"""

import contextlib
from collections.abc import Iterable, Iterator, Sequence

from ashore.errors import AshoreError, PathMissing, StorageError
from ashore.log import names
from ashore.log.files import BatchPlace
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_clean import (
    DeleteFile,
    EpochDirectory,
    Leftover,
    StagedFile,
    plan_clean,
    plan_empty,
    plan_leftovers,
)
from ashore.log.tables import DEAD_SUFFIX, LATE_SUFFIX
from ashore.storage.base import FileStat, Storage, is_temporary

_SUFFIXES = "", DEAD_SUFFIX, LATE_SUFFIX


def find_staged(storage: Storage, name: SliceName, tables: Iterable[str]) -> list[StagedFile]:
    """Return the in-progress and pending files of a slice in these tables."""
    return [
        file
        for table in sorted(set(tables))
        for directory, listed in _list_epochs(storage, name, table)
        for file in _staged_in(directory.epoch, listed)
    ]


def _list_epochs(
    storage: Storage, name: SliceName, table: str
) -> Iterator[tuple[EpochDirectory, list[FileStat]]]:
    """Yield the directories that writers of a slice have staged in, each with what is in it."""
    for found in storage.list(names.staging_root(table, name)):
        epoch = names.leaf(found.path)
        if found.is_directory and epoch.isdigit():
            listed = storage.list(found.path)
            yield EpochDirectory(found.path, int(epoch), not listed, found.modified_ms), listed


def _staged_in(epoch: int, listed: Iterable[FileStat]) -> Iterator[StagedFile]:
    for found in listed:
        pending = names.parse_pending(names.leaf(found.path))
        if pending is not None:
            yield StagedFile(
                path=found.path,
                epoch=epoch,
                batch=pending.batch,
                unique=pending.unique,
                size_bytes=found.size,
                modified_ms=found.modified_ms,
            )


def delete_staged(storage: Storage, failed: BatchPlace, tables: Iterable[str]) -> None:
    """Delete what tasks of a failed batch have staged, so that tries fill no disk. Never fails.

    Requires: no entry names the batch. `tables`: main ones. What the storage does not delete, or a
    task stages later, is left to `plan_cleaning`.
    """
    with contextlib.suppress(AshoreError):
        for table in sorted({f"{each}{suffix}" for each in tables for suffix in _SUFFIXES}):
            directory = names.staging_directory(table, failed.name, failed.epoch)
            for file in _staged_in(failed.epoch, storage.list(directory)):
                if file.batch == failed.batch:
                    with contextlib.suppress(PathMissing):  # a task has deleted its own
                        storage.delete(file.path)


def find_leftovers(storage: Storage, name: SliceName, tables: Iterable[str]) -> list[Leftover]:
    """Return probes and half-made files, where a job makes files under names that are not staged.

    Not in the partitions of a table: there are too many to list.
    """
    directories = [names.job_directory(name.job), names.log_directory(name)]
    for table in tables:
        directories += [names.table_path(table), names.owner_directory(table)]
        directories.append(names.staging_root(table, name))
    return [
        Leftover(found.path, found.size, found.modified_ms)
        for directory in directories
        for found in storage.list(directory)
        if not found.is_directory
        and (is_temporary(found.path) or names.is_probe(names.leaf(found.path)))
    ]


def plan_cleaning(
    storage: Storage,
    name: SliceName,
    fold: Fold,
    tables: Iterable[str],
    now_and_ttl: tuple[int, int],
) -> tuple[DeleteFile, ...]:
    """Return what may be deleted now. `now_and_ttl` in milliseconds."""
    now_ms, ttl_ms = now_and_ttl
    known = sorted(set(tables))
    steps: list[DeleteFile] = []
    for table in known:
        directories: list[EpochDirectory] = []
        for directory, listed in _list_epochs(storage, name, table):
            directories.append(directory)
            steps += plan_clean(fold, _staged_in(directory.epoch, listed), now_ms, ttl_ms)
        steps += plan_empty(fold, directories, now_ms, ttl_ms)
    return *steps, *plan_leftovers(find_leftovers(storage, name, known), now_ms, ttl_ms)


def apply_cleaning(storage: Storage, steps: Sequence[DeleteFile]) -> int:
    """Delete what was planned and return the number of bytes. Repeating it is harmless."""
    for step in steps:
        try:
            storage.delete(step.file.path)
        except PathMissing:  # another janitor was faster
            continue
        except StorageError:
            if not (isinstance(step.file, EpochDirectory) and storage.list(step.file.path)):
                raise  # else a writer that was frozen continues: its files come first, next time
    return sum(step.file.size_bytes for step in steps)
