"""Cleaning: in-progress files that nothing can want any more.

What it is: lists the staging directories of a slice and what processes that died have left beside
them, applies what `plan_clean` allows.
What it promises: off the commit path. It may run anywhere, also beside the job: what it deletes
is decided by a fold, and epochs and batches only grow.
What it must not know: final files.
"""

import contextlib
from collections.abc import Iterable, Sequence

from ashore.errors import PathMissing
from ashore.protocol import names
from ashore.protocol.fold import Fold
from ashore.protocol.names import SliceName
from ashore.protocol.plan_clean import (
    DeleteFile,
    Leftover,
    StagedFile,
    plan_clean,
    plan_leftovers,
)
from ashore.storage.base import Storage
from ashore.storage.paths import is_temporary


def find_staged(storage: Storage, name: SliceName, tables: Iterable[str]) -> list[StagedFile]:
    """Return the in-progress and pending files of a slice in these tables."""
    staged = []
    for table in sorted(set(tables)):
        for directory in storage.list(names.staging_root(table, name)):
            epoch = names.leaf(directory.path)
            if not directory.is_directory or not epoch.isdigit():
                continue
            for found in storage.list(directory.path):
                pending = names.parse_pending(names.leaf(found.path))
                if pending is not None:
                    staged.append(
                        StagedFile(
                            path=found.path,
                            epoch=int(epoch),
                            batch=pending.batch,
                            unique=pending.unique,
                            size_bytes=found.size,
                            modified_ms=found.modified_ms,
                        )
                    )
    return staged


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
    return (
        *plan_clean(fold, find_staged(storage, name, known), now_ms, ttl_ms),
        *plan_leftovers(find_leftovers(storage, name, known), now_ms, ttl_ms),
    )


def apply_cleaning(storage: Storage, steps: Sequence[DeleteFile]) -> int:
    """Delete what was planned and return the number of bytes. Repeating it is harmless."""
    for step in steps:
        with contextlib.suppress(PathMissing):  # another janitor was faster
            storage.delete(step.file.path)
    return sum(step.file.size_bytes for step in steps)
