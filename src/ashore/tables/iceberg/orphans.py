"""Files below a table that neither its snapshots nor its metadata name.

What it is: `find_orphans`, which reads the manifests of all snapshots and compares them with what
lies below the table.
What it promises: reads only. A file is an orphan only if it is Ashore's: by its name, and a
`metadata.json`, whose name is the catalog's, by its content. A table that is not as the log has it
is refused: what it no longer names may be all that is left of records.
"""

import json
import re
from collections.abc import Iterator

from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata

from ashore.errors import PathMissing, Stopped
from ashore.log import names
from ashore.log.names import SliceName
from ashore.log.plan_clean import DeleteFile, ListedTable, find_ordered, plan_orphans
from ashore.storage.base import Storage
from ashore.tables.iceberg.commit import Marks, is_committed, require_same_table, require_snapshot
from ashore.tables.table_format import Orphans

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_MANIFEST = re.compile(rf"([1-9][0-9]*)-[a-z0-9]+-{_UUID}\.avro")  # as SnapshotWriter names it
_METADATA = re.compile(rf"[0-9]{{5,}}-{_UUID}\.metadata\.json")


def find_orphans(table: Table, listed: ListedTable, storage: Storage) -> Orphans:
    """Return what a slice has left below a table that nothing refers to.

    Arguments:
        table: Requires: loaded after the log was read. So a file of a batch that is under way is
            one of the unclosed entry, and one of a batch that is closed is named by the table.
        listed: what lies below it.
        storage: of the lake.

    Raises TableReplaced, TableRolledBack, Stopped; what pyiceberg and the storage raise.

    """
    _require_as_logged(table.metadata, listed)
    named = list_named(table)
    steps = *plan_orphans(listed, named), *_find_metadata(table, listed, storage, named)
    known = sum(names.leaf(each.path) in named for each in listed.below)
    snapshots = len(table.metadata.snapshots)
    return Orphans(listed.table, len(listed.below), known, snapshots, steps)


def _require_as_logged(metadata: TableMetadata, listed: ListedTable) -> None:
    marks, fold, last = Marks(listed.name), listed.fold, listed.fold.commits[listed.table]
    if fold.unclosed is None or last.snapshot_id not in find_ordered(fold):
        require_same_table(metadata, last)
        require_snapshot(metadata, marks, last)
    elif not is_committed(metadata, marks, last, fold.unclosed.number):
        raise Stopped(
            f"entry {fold.unclosed.number} of {listed.name} is not committed to {listed.table} yet",
            hint="run the job, which commits it",
        )


def list_named(table: Table) -> frozenset[str]:
    """Return the names, without directories, of all files that a table's metadata refers to.

    Another writer may spell a directory otherwise, `file:/lake` for `file:///lake`.
    """
    metadata = table.metadata
    manifests = {
        each.manifest_path: each
        for snapshot in metadata.snapshots
        for each in snapshot.manifests(table.io)
    }
    paths = {table.metadata_location, *(each.metadata_file for each in metadata.metadata_log)}
    paths |= {each.manifest_list for each in metadata.snapshots}
    paths |= manifests.keys()
    for manifest in manifests.values():
        paths |= {each.data_file.file_path for each in manifest.fetch_manifest_entry(table.io)}
    return frozenset(names.leaf(each) for each in paths)


def _find_metadata(
    table: Table, listed: ListedTable, storage: Storage, named: frozenset[str]
) -> Iterator[DeleteFile]:
    """Yield manifests, manifest lists and metadata files that nothing names.

    Those of a snapshot that the unclosed entry orders stay: a commit may be on its way.
    """
    location = table.metadata.location.rstrip("/")
    directory = f"{location.removeprefix(storage.describe().rstrip('/') + '/')}/metadata"
    ordered = find_ordered(listed.fold)
    for file in listed.stale:
        leaf = names.leaf(file.path)
        if names.parent(file.path) != directory or leaf in named:
            continue
        if manifest := _MANIFEST.fullmatch(leaf):
            snapshot_id: int | None = int(manifest[1])
        elif _METADATA.fullmatch(leaf):
            snapshot_id = _read_own_head(storage, file.path, table.metadata, listed.name)
        else:
            continue
        if snapshot_id is not None and snapshot_id not in ordered:
            yield DeleteFile(file, "no snapshot names it, nor the table's metadata")


def _read_own_head(
    storage: Storage, path: str, metadata: TableMetadata, name: SliceName
) -> int | None:
    """Return the snapshot by whose commit a metadata file was made; None: not by the slice.

    A commit that adds a snapshot has its time. A later change by another writer has its own.
    """
    try:
        content = json.loads(storage.read(path))
        head = content["current-snapshot-id"]
        (snapshot,) = (each for each in content["snapshots"] if each["snapshot-id"] == head)
        summary = snapshot["summary"]
        is_own = (summary["ashore.job"], summary["ashore.slice"]) == name
        is_commit = snapshot["timestamp-ms"] == content["last-updated-ms"]
        is_of_table = content["table-uuid"] == str(metadata.table_uuid)
    except (PathMissing, ValueError, KeyError, TypeError):
        return None
    return int(head) if is_own and is_commit and is_of_table else None
