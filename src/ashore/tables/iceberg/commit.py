"""One snapshot of a table: whether it is there, and how it is made.

What it is: `is_committed`, which judges by the table's metadata alone; `SnapshotWriter`, which
writes manifests and commits by one call of the catalog, with its requirements.
What it promises: an answer that is lost is looked for, never guessed: after any failure the table
is read again. Nothing that was written for a commit is deleted. pyiceberg's own transactions, which
delete manifests after a conflict and drop requirements when they retry, are not used.

A slice of a job leaves two marks in a table: a property with the number of its last entry, which no
expiry removes, and a tag at its last snapshot, which keeps that snapshot from expiry and stops a
commit that comes late.
"""

import uuid
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from pyiceberg.catalog import Catalog
from pyiceberg.io import OutputFile
from pyiceberg.manifest import (
    DataFile,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    write_manifest,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH, SnapshotRefType
from pyiceberg.table.snapshots import Operation, Snapshot, Summary, update_snapshot_summaries
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertRefSnapshotId,
    AssertTableUUID,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
)

from ashore.errors import TableOwned, TableReplaced, TableRolledBack
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.tables.iceberg.connect_events import OFFSETS
from ashore.tables.iceberg.replaced_files import FORMAT_VERSION, ManifestRewriter, find_entries

MANIFESTS_MAX = 100  # small ones, before they become one: as in other writers of Iceberg
MANIFEST_BYTES = 8 << 20  # above it a manifest is not small
SNAPSHOTS_MAX = 200  # of a table: its metadata, which each commit reads and writes, has them all
EXPIRE_EVERY = 20  # at once


@dataclass(frozen=True, slots=True)
class Marks:
    """What a slice leaves in the tables that it fills."""

    name: SliceName

    @property
    def property_key(self) -> str:
        """The property with the number of the last entry that was committed."""
        return f"ashore.{self.name.job}.{self.name.slice}"

    @property
    def tag(self) -> str:
        """The tag at the last snapshot."""
        return f"ashore-{self.name.job}-{self.name.slice}"

    @property
    def sequence_key(self) -> str:
        """The property with the sequence number of the last snapshot, which may have expired."""
        return f"{self.property_key}.sequence-number"

    def entry(self, metadata: TableMetadata) -> int:
        """Return the number of the last entry that a table has; -1: none."""
        return int(metadata.properties.get(self.property_key, -1))


def require_no_mark(metadata: TableMetadata, marks: Marks, table: str) -> None:
    """Raise TableOwned where another log of the same name has filled a table.

    Its entries have the numbers that ours will have: they would be taken for committed.
    """
    entry = marks.entry(metadata)
    if entry >= 0:
        raise TableOwned(
            f"table {table} was filled by another log of {marks.name}: its property "
            f"{marks.property_key} is at entry {entry}, which this log does not have",
            hint="restore that log, or land in a table of another name",
            table=table,
        )


def require_same_table(metadata: TableMetadata, commit: TableCommit) -> None:
    """Raise TableReplaced where the table is not the one that a commit is for."""
    if str(metadata.table_uuid) != commit.table_uuid:
        raise TableReplaced(
            f"table {commit.table} was dropped and created again: its uuid is "
            f"{metadata.table_uuid}, the log has {commit.table_uuid}",
            hint="restore the former table under its name, or land in a table of another name",
            table=commit.table,
        )


def require_snapshot(metadata: TableMetadata, marks: Marks, commit: TableCommit) -> None:
    """Raise TableRolledBack where a table has lost the last snapshot that a slice has committed.

    One that has expired is no loss: its files are in the snapshots after it. Where those after it
    have expired too, nothing shows whether they followed it: then it is taken for part of them.
    """
    if not _may_be_in_history(metadata, marks, commit.snapshot_id):
        raise TableRolledBack(
            f"table {commit.table} was rolled back: snapshot {commit.snapshot_id}, which the log "
            f"has committed, is not in the history of {MAIN_BRANCH}",
            hint="set the table's current snapshot to it, or to one that follows it, and start "
            "again; the job has landed these records and does not land them again",
            table=commit.table,
            snapshot_id=commit.snapshot_id,
        )


def _may_be_in_history(metadata: TableMetadata, marks: Marks, snapshot_id: int) -> bool:
    """Return whether a snapshot is the head of main or before it, as far as that can be known.

    The parents of snapshots are no help: who expires snapshots may cut them off, or leave them.
    """
    known = metadata.snapshot_by_id(snapshot_id)
    number = known.sequence_number if known else metadata.properties.get(marks.sequence_key)
    oldest: int | None = None
    for each in _history(metadata):
        if each.snapshot_id == snapshot_id:
            return True
        oldest = each.sequence_number
    # A history that reaches further back than the snapshot, and goes past it, is another one.
    return oldest is not None and number is not None and oldest > int(number)


def _history(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield the snapshots of main, newest first, as far as they have not expired."""
    known = {each.snapshot_id: each for each in metadata.snapshots}
    head = metadata.refs.get(MAIN_BRANCH)
    snapshot_id = head.snapshot_id if head else None
    while snapshot_id in known:
        yield known[snapshot_id]
        snapshot_id = known[snapshot_id].parent_snapshot_id


def is_committed(metadata: TableMetadata, marks: Marks, commit: TableCommit, number: int) -> bool:
    """Return whether the commit of entry `number` has happened.

    Raises TableReplaced; TableRolledBack where it has happened and was undone.
    """
    require_same_table(metadata, commit)
    last = marks.entry(metadata)
    if last > number:
        return True  # and closed: the writer of a later entry has seen it
    if last < number and metadata.snapshot_by_id(commit.snapshot_id) is None:
        return False
    require_snapshot(metadata, marks, commit)
    return True


class SnapshotWriter:
    """Commits the files of one entry to one table, as often as it takes."""

    def __init__(self, catalog: Catalog, marks: Marks, commit: TableCommit, number: int) -> None:
        self._catalog = catalog
        self._marks = marks
        self._commit = commit
        self._number = number
        self._manifest: ManifestFile | None = None

    def drops_snapshots(self, metadata: TableMetadata) -> bool:
        """Return whether a commit on top of this metadata drops old snapshots."""
        return bool(self._expire(metadata))

    def commit(
        self,
        table: Table,
        files: Sequence[DataFile],
        now_ms: int,
        replaced: Collection[str] = (),
    ) -> None:
        """Try once to commit files on top of the table as it was loaded.

        `replaced`: locations of files that go; they are there. Raises whatever pyiceberg or the
        storage raises: whether it has happened is not known then.
        """
        self._manifest = self._manifest or self._write_manifest(table, files)
        metadata = table.metadata
        head = metadata.current_snapshot()
        snapshot = self._write_snapshot(table, files, now_ms, replaced)
        requirements: tuple[TableRequirement, ...] = (
            AssertTableUUID(uuid=metadata.table_uuid),
            _require_ref(metadata, MAIN_BRANCH),
        )
        if head is not None:  # pyiceberg knows no other ref in a table without snapshots
            requirements += (_require_ref(metadata, self._marks.tag),)
        updates: tuple[TableUpdate, ...] = (
            AddSnapshotUpdate(snapshot=snapshot),
            _set_ref(MAIN_BRANCH, SnapshotRefType.BRANCH, snapshot.snapshot_id),
            _set_ref(self._marks.tag, SnapshotRefType.TAG, snapshot.snapshot_id),
            SetPropertiesUpdate(
                updates={
                    self._marks.property_key: str(self._number),
                    self._marks.sequence_key: str(snapshot.sequence_number),
                }
            ),
            *self._expire(metadata),
        )
        self._catalog.commit_table(table, requirements, updates)

    def _write_manifest(self, table: Table, files: Sequence[DataFile]) -> ManifestFile:
        """Write the manifest of the files. It does not depend on what the table has beside them."""
        metadata = table.metadata
        with write_manifest(
            FORMAT_VERSION,
            metadata.specs()[self._commit.spec_id],
            metadata.schema_by_id(self._commit.schema_id) or metadata.schema(),
            self._output(table, "m0"),
            self._commit.snapshot_id,
            "deflate",
        ) as writer:
            for file in files:
                writer.add(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.ADDED,
                        snapshot_id=self._commit.snapshot_id,
                        data_file=file,
                    )
                )
        return writer.to_manifest_file()

    def _write_snapshot(
        self, table: Table, files: Sequence[DataFile], now_ms: int, replaced: Collection[str]
    ) -> Snapshot:
        head = table.metadata.current_snapshot()
        sequence_number = table.last_sequence_number + 1
        parent_id = head.snapshot_id if head else None
        rewriter = ManifestRewriter(
            table, self._commit.snapshot_id, lambda: self._output(table, "replaced")
        )
        before = head.manifests(table.io) if head else []
        kept = self._merge(table, rewriter.without(before, replaced) if replaced else before)
        added = [self._manifest] if self._manifest else []
        output = self._output(table, "list")
        with write_manifest_list(
            FORMAT_VERSION,
            output,
            self._commit.snapshot_id,
            parent_id,
            sequence_number,
            "deflate",
        ) as writer:
            writer.add_manifests([*added, *kept])
        return Snapshot.model_validate(
            {
                "snapshot-id": self._commit.snapshot_id,
                "parent-snapshot-id": parent_id,
                "sequence-number": sequence_number,
                "timestamp-ms": max(now_ms, table.metadata.last_updated_ms),
                "manifest-list": output.location,
                "summary": self._summary(files, rewriter.removed, head),
                "schema-id": table.metadata.current_schema_id,
            }
        )

    def _merge(self, table: Table, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Return manifests with the same files; many small ones become one.

        A commit and a reader open each of them: without this both take longer with each batch.
        """
        spec_id, metadata = self._commit.spec_id, table.metadata
        small = [
            each
            for each in manifests
            if each.content is ManifestContent.DATA
            and each.partition_spec_id == spec_id
            and each.manifest_length < MANIFEST_BYTES
        ]
        if len(small) < MANIFESTS_MAX:
            return list(manifests)
        with write_manifest(
            FORMAT_VERSION,
            metadata.specs()[spec_id],
            metadata.schema(),
            self._output(table, "merged"),
            self._commit.snapshot_id,
            "deflate",
        ) as writer:
            for manifest in small:
                for entry in manifest.fetch_manifest_entry(table.io):
                    writer.existing(entry)
        return [writer.to_manifest_file(), *(each for each in manifests if each not in small)]

    def _expire(self, metadata: TableMetadata) -> tuple[TableUpdate, ...]:
        """Return what drops the oldest snapshots of Ashore, so that metadata stays small.

        No branch or tag is at one of them. Their files are those of later snapshots, or were
        compacted since.
        """
        heads = {each.snapshot_id for each in metadata.refs.values()}
        oldest = sorted(metadata.snapshots, key=lambda each: each.sequence_number or 0)
        dropped = [
            each.snapshot_id
            for each in oldest[: max(0, len(oldest) - SNAPSHOTS_MAX)]
            if each.snapshot_id not in heads and each.summary and each.summary["ashore.job"]
        ]
        if len(dropped) < EXPIRE_EVERY:
            return ()
        return (RemoveSnapshotsUpdate.model_validate({"snapshot-ids": dropped}),)

    def _summary(
        self, files: Sequence[DataFile], removed: Sequence[DataFile], head: Snapshot | None
    ) -> Summary:
        changed = {
            "added-data-files": str(len(files)),
            "added-records": str(sum(each.record_count for each in files)),
            "added-files-size": str(sum(each.file_size_in_bytes for each in files)),
            "changed-partition-count": str(len({each.partition for each in files})),
            "ashore.job": self._marks.name.job,
            "ashore.slice": self._marks.name.slice,
            "ashore.entry": str(self._number),
        }
        before = head.summary.additional_properties if head and head.summary else None
        if not removed:
            return update_snapshot_summaries(Summary(Operation.APPEND, **changed), before)
        changed |= {
            "deleted-data-files": str(len(removed)),
            "deleted-records": str(sum(each.record_count for each in removed)),
            "removed-files-size": str(sum(each.file_size_in_bytes for each in removed)),
        }
        # pyiceberg computes no totals for a `replace`.
        summed = update_snapshot_summaries(Summary(Operation.OVERWRITE, **changed), before)
        return Summary(Operation.REPLACE, **summed.additional_properties)

    def _output(self, table: Table, kind: str) -> OutputFile:
        """Return a new metadata file, of a name that is used once."""
        leaf = f"{self._commit.snapshot_id}-{kind}-{uuid.uuid4()}.avro"
        return table.io.new_output(f"{table.metadata.location.rstrip('/')}/metadata/{leaf}")


def _require_ref(metadata: TableMetadata, ref: str) -> AssertRefSnapshotId:
    """Return the requirement that a branch or a tag is still where this metadata has it."""
    known = metadata.refs.get(ref)
    snapshot_id = known.snapshot_id if known else None
    return AssertRefSnapshotId.model_validate({"ref": ref, "snapshot-id": snapshot_id})


def _set_ref(ref: str, kind: SnapshotRefType, snapshot_id: int) -> SetSnapshotRefUpdate:
    return SetSnapshotRefUpdate.model_validate(
        {"ref-name": ref, "type": kind, "snapshot-id": snapshot_id}
    )


def _older_too(metadata: TableMetadata) -> Iterator[Snapshot]:
    """Yield the snapshots of main, then those before the first that has expired."""
    oldest = 0
    for each in _history(metadata):
        yield each
        oldest = each.sequence_number or 0
    yield from (each for each in metadata.snapshots if (each.sequence_number or 0) < oldest)


def find_data_files(table: Table) -> Iterator[DataFile]:
    """Yield the files that readers of a table's current snapshot see."""
    for entry in find_entries(table):
        yield entry.data_file


def find_marks(metadata: TableMetadata) -> dict[str, str]:
    """Return what a sink of Kafka Connect has left in the history of a table, the newest."""
    marks: dict[str, str] = {}
    for each in _history(metadata):
        summary = each.summary.additional_properties if each.summary else {}
        marks = {key: value for key, value in summary.items() if key.startswith(OFFSETS)} | marks
    return marks


def find_rewrite(metadata: TableMetadata) -> str:
    """Return which snapshot, the newest, has removed files of a table, in words; empty: none.

    A compaction of Ashore is none: the log has its rows.
    """
    for each in _older_too(metadata):
        operation = each.summary.operation if each.summary else Operation.OVERWRITE
        is_own = each.summary is not None and each.summary["ashore.job"] is not None
        if operation is not Operation.APPEND and not is_own:
            return f"snapshot {each.snapshot_id} ({operation.value}) has removed files"
    return ""
