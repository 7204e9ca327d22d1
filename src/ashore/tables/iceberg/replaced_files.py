"""Files of a table that are replaced by others, with the same rows, in one snapshot.

What it is: `find_replaced`, which compares a table with what a compaction began with;
`ManifestRewriter`, which writes the manifests of a table again without some of its files.
What it promises: a file that another writer has removed is not brought back, nor rows that it has
deleted: the compaction is abandoned then. Files of others stay as they are.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Final

from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    write_manifest,
)
from pyiceberg.table import Table

from ashore.log.plan_commit import CommitTable
from ashore.log.store.committer import TableChanged

FORMAT_VERSION: Final = 2


def find_entries(table: Table) -> Iterator[ManifestEntry]:
    """Yield the entries of the files that readers of a table's current snapshot see."""
    head = table.metadata.current_snapshot()
    for manifest in head.manifests(table.io) if head else []:
        if manifest.content is ManifestContent.DATA:
            yield from manifest.fetch_manifest_entry(table.io)


def has_deletes(table: Table) -> bool:
    """Return whether rows of a table are deleted by files of deletes.

    They name files, or apply to all files that are older: rows that are written anew would be back.
    """
    head = table.metadata.current_snapshot()
    return any(
        each.content is ManifestContent.DELETES
        and (each.has_added_files() or each.has_existing_files())
        for each in (head.manifests(table.io) if head else [])
    )


def find_replaced(table: Table, step: CommitTable, root: str) -> list[str]:
    """Return the locations of the files that a compaction replaces; none for another step.

    `root`: the lake's address, with a slash. Raises TableChanged unless readers of the table see
    each of them, and all of its rows.
    """
    if not step.is_whole:
        raise TableChanged("its new files are gone")
    if not step.replaced:
        return []
    locations = [root + each for each in sorted(step.replaced)]
    if has_deletes(table):
        raise TableChanged("another writer has deleted rows by delete files")
    missing = set(locations) - {each.data_file.file_path for each in find_entries(table)}
    if missing:
        raise TableChanged(
            f"another writer has removed {len(missing)} of its files: {min(missing)}"
        )
    return locations


class ManifestRewriter:
    """Writes manifests of one table again, for one snapshot."""

    def __init__(self, table: Table, snapshot_id: int, output: Callable[[], OutputFile]) -> None:
        self._table = table
        self._snapshot_id = snapshot_id
        self._output = output
        self.removed: list[DataFile] = []

    def without(
        self, manifests: Sequence[ManifestFile], locations: Collection[str]
    ) -> list[ManifestFile]:
        """Return manifests with the same files but these; those that had none stay as they are."""
        old_files = frozenset(locations)
        kept: list[ManifestFile] = []
        for manifest in manifests:
            is_data = manifest.content is ManifestContent.DATA
            entries = manifest.fetch_manifest_entry(self._table.io) if is_data else []
            if any(each.data_file.file_path in old_files for each in entries):
                kept.append(self._write(manifest, entries, old_files))
            else:
                kept.append(manifest)
        return kept

    def _write(
        self, manifest: ManifestFile, entries: Sequence[ManifestEntry], old_files: frozenset[str]
    ) -> ManifestFile:
        metadata = self._table.metadata
        with write_manifest(
            FORMAT_VERSION,
            metadata.specs()[manifest.partition_spec_id],
            metadata.schema(),
            self._output(),
            self._snapshot_id,
            "deflate",
        ) as writer:
            for entry in entries:
                if entry.data_file.file_path in old_files:
                    writer.delete(entry)
                    self.removed.append(entry.data_file)
                else:
                    writer.existing(entry)
        return writer.to_manifest_file()
