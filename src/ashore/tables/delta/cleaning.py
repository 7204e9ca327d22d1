"""What may be deleted of a Delta table: files that no version names, and versions of long ago.

What it is: `find_orphans`, which reads the log of a table as far back as it goes and compares it
with what lies below the table; `plan_log`, which cleans the log itself.
What it promises: reads only. Data files are orphans only if Ashore has made them, as their names
say; those that a version has removed, once the table's retention is over, as for VACUUM. Of the log
stays what follows from a checkpoint that was read, older than the table's retention and than what
recovery looks at.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ashore.errors import Stopped
from ashore.log import names
from ashore.log.plan_clean import DeleteFile, Leftover, ListedTable, plan_orphans
from ashore.storage.base import Storage
from ashore.tables.delta.commit import is_committed, require_history, require_same_table
from ashore.tables.delta.schema import find_unknown
from ashore.tables.delta.table_log import (
    Files,
    TableLog,
    TableState,
    find_checkpoints,
    find_expired,
    interval_ms,
)
from ashore.tables.table_format import Orphans

_RETENTION: Final = "delta.logRetentionDuration"
_ENABLED: Final = "delta.enableExpiredLogCleanup"
_DEFAULT_RETENTION = "interval 30 days"
_OF_VERSION = re.compile(r"([0-9]{20})\.(?:json|crc|checkpoint(?:\..+)?\.parquet)")


@dataclass(frozen=True, slots=True)
class LogFile:
    """A file of a table's log."""

    version: int
    file: Leftover

    @property
    def is_version(self) -> bool:
        """Whether it says what its version did."""
        return self.file.path.endswith(".json")


def find_orphans(log: TableLog, listed: ListedTable, storage: Storage) -> Orphans:
    """Return what may be deleted below a table and in its log.

    Raises TableReplaced, TableRolledBack, TableOwned; Stopped where the unclosed entry is not
    committed yet; StorageError, CatalogError.
    """
    state = log.read()
    if state is None:
        return Orphans(listed.table, skipped="there is no such table")
    if unknown := "; ".join(find_unknown(state.protocol)):
        return Orphans(listed.table, skipped=unknown)
    _require_as_logged(log, state, listed)
    files = list_log(storage, log.directory)
    current = log.files(state)
    named = _leaves([*current.added, *current.removed])
    expired = find_expired(state, current.removed, listed.now_ms)
    if plan_orphans(listed, named):
        older = _read_older(log, files)
        named |= _leaves([*older.added, *older.removed])
        expired |= find_expired(state, older.removed, listed.now_ms)
    named -= _leaves(expired - current.added.keys())
    known = sum(names.leaf(each.path) in named for each in listed.below)
    versions = sum(each.is_version for each in files)
    steps = *plan_orphans(listed, named), *plan_log(log, state, files, listed)
    return Orphans(listed.table, len(listed.below), known, versions, steps)


def _require_as_logged(log: TableLog, state: TableState, listed: ListedTable) -> None:
    fold, last = listed.fold, listed.fold.commits[listed.table]
    unclosed = fold.unclosed
    if unclosed is None or last not in getattr(unclosed.body, "commits", ()):
        require_history(log, require_same_table(state, last), listed.name, last)
    elif not is_committed(log, state, listed.name, last, unclosed.number):
        raise Stopped(
            f"entry {unclosed.number} of {listed.name} is not committed to {listed.table} yet",
            hint="run the job, which commits it",
        )


def list_log(storage: Storage, directory: str) -> list[LogFile]:
    """Return the files of a table's log that belong to versions, oldest first."""
    return [
        LogFile(int(found[1]), Leftover(each.path, each.size, each.modified_ms))
        for each in storage.list(directory)
        if (found := _OF_VERSION.fullmatch(names.leaf(each.path)))
    ]


def _read_older(log: TableLog, files: Sequence[LogFile]) -> Files:
    """Return the data files in all versions that can still be read.

    The oldest checkpoint and the versions after it have what newer checkpoints have, and more.
    """
    checkpoints = find_checkpoints(names.leaf(each.file.path) for each in files)
    oldest = min(checkpoints, default=None)
    found = Files()
    found.apply([] if oldest is None else log.read_checkpoint(checkpoints[oldest]))
    for each in files:
        if each.is_version:
            found.apply(log.actions(each.version))
    return found


def _leaves(paths: Iterable[str]) -> frozenset[str]:
    """Return names without directories: names are used once, and without escapes."""
    return frozenset(names.leaf(each) for each in paths)


def plan_log(
    log: TableLog, state: TableState, files: Sequence[LogFile], listed: ListedTable
) -> tuple[DeleteFile, ...]:
    """Return the files of a log that come before the checkpoint from which it may begin.

    That is the newest one that the table's retention lets go, and that is not newer than the
    version which the slice has inspected last: recovery reads what follows it. It is read, and the
    versions after it are there, or nothing is deleted.
    """
    cutoff_ms = _cutoff_ms(state, listed.now_ms)
    needed = listed.fold.commits[listed.table].snapshot_id
    times = {each.version: each.file.modified_ms for each in files}
    checkpoints = find_checkpoints(names.leaf(each.file.path) for each in files)
    fit = [number for number in checkpoints if number <= needed and times[number] < cutoff_ms]
    if not fit:
        return ()
    first = max(fit)
    old = [each for each in files if each.version < first]
    newer = [each.version for each in files if each.is_version and each.version > first]
    is_whole = newer == [*range(first + 1, state.version + 1)]
    has_state = any("metaData" in each for each in log.read_checkpoint(checkpoints[first]))
    if not (is_whole and has_state and all(each.file.modified_ms < cutoff_ms for each in old)):
        return ()
    why = f"the log of the table begins with checkpoint {first}"
    return tuple(DeleteFile(each.file, why) for each in old)


def _cutoff_ms(state: TableState, now_ms: int) -> int:
    """Return before which time a version may go; -1: none may."""
    settings = state.metadata.get("configuration") or {}
    kept_ms = interval_ms(state, _RETENTION, _DEFAULT_RETENTION)
    if kept_ms is None or settings.get(_ENABLED, "true").lower() != "true":
        return -1
    return now_ms - kept_ms
