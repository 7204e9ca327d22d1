"""Files of a Delta table that are replaced by others, with the same rows, in one version.

What it is: `rewrite_actions`: the version of a compaction, on top of the state that was read.
What it promises: the version changes no data (`dataChange` is false): readers of changes see none.
A file that another writer has removed, or has deleted rows of, is not replaced.
"""

import ashore
from ashore.log.plan_commit import CommitTable
from ashore.log.store.committer import TableChanged
from ashore.storage.base import Storage
from ashore.tables.ddl import parse_ddl
from ashore.tables.delta.actions import Action, add_file, lake_path
from ashore.tables.delta.table_log import TableLog, TableState
from ashore.tables.footers import read_footer

OPERATION = "OPTIMIZE"  # as other writers of Delta call it


def find_added(log: TableLog, state: TableState, storage: Storage) -> dict[str, Action]:
    """Return the `add` of each file that readers of a state see, by its path in the lake."""
    root = storage.describe().rstrip("/") + "/"
    return {
        lake_path(log.table, path, root): action["add"]
        for path, action in log.files(state).added.items()
    }


def require_files(
    log: TableLog, state: TableState, storage: Storage, step: CommitTable
) -> dict[str, Action]:
    """Return the adds of the files that a compaction replaces. Raises TableChanged."""
    if not step.is_whole:
        raise TableChanged("its new files are gone")
    added = find_added(log, state, storage)
    missing = step.replaced - added.keys()
    if missing:
        raise TableChanged(
            f"another writer has removed {len(missing)} of its files: {min(missing)}"
        )
    if any(added[path].get("deletionVector") for path in step.replaced):
        raise TableChanged("another writer has deleted rows by deletion vectors")
    return {path: added[path] for path in sorted(step.replaced)}


def rewrite_actions(
    storage: Storage, state: TableState, step: CommitTable, replaced: dict[str, Action], now_ms: int
) -> list[Action]:
    """Return the actions of a compaction on top of a state, without its mark.

    `replaced`: see `require_files`.
    """
    adds = []
    for place, target in step.files:
        columns = parse_ddl(target.schema)
        add = add_file(place, target, columns, read_footer(storage, place), now_ms)
        add["add"]["dataChange"] = False
        adds.append(add)
    info = {
        "timestamp": now_ms,
        "operation": OPERATION,
        "operationParameters": {},
        "readVersion": state.version,
        "isBlindAppend": False,
        "engineInfo": f"ashore/{ashore.__version__}",
    }
    return [{"commitInfo": info}, *(_remove(each, now_ms) for each in replaced.values()), *adds]


def _remove(add: Action, now_ms: int) -> Action:
    return {
        "remove": {
            "path": add["path"],
            "deletionTimestamp": now_ms,
            "dataChange": False,
            "extendedFileMetadata": True,
            "partitionValues": add["partitionValues"],
            "size": add["size"],
        }
    }
