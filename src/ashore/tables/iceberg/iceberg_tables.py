"""The tables of a job in an Iceberg catalog.

What it is: `IcebergTables`: makes tables, draws the commits that an entry orders, commits them.
What it promises: a table is compared with the job before anything is written for it, and with the
log before an entry is appended. Every call may be repeated. What a catalog raises is a
CatalogError that names it: landing waits for its catalog, since no reader sees a file before.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from pyiceberg.catalog import Catalog as PyicebergCatalog
from pyiceberg.exceptions import NoSuchTableError, TableAlreadyExistsError
from pyiceberg.manifest import DataFile
from pyiceberg.table import Table, Transaction
from pyiceberg.table.sorting import NullOrder
from pyiceberg.transforms import IdentityTransform

from ashore.base.clock import Clock
from ashore.errors import (
    AshoreError,
    BatchFailed,
    CatalogUnreachable,
    InvariantBroken,
    SchemaConflict,
    Stopped,
    SyncFailed,
    fail,
)
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.log.plan_clean import ListedTable
from ashore.log.plan_commit import CommitTable
from ashore.log.store.committer import TableChanged
from ashore.storage.base import Storage
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import FieldIds
from ashore.tables.iceberg.catalogs import CatalogAddress, open_catalog, require_fence
from ashore.tables.iceberg.commit import (
    Marks,
    SnapshotWriter,
    find_data_files,
    find_marks,
    find_rewrite,
    is_committed,
    require_no_mark,
    require_same_table,
    require_snapshot,
)
from ashore.tables.iceberg.data_files import ManifestFiles
from ashore.tables.iceberg.file_io import Lake
from ashore.tables.iceberg.orphans import find_orphans
from ashore.tables.iceberg.replaced_files import FORMAT_VERSION, find_replaced, has_deletes
from ashore.tables.iceberg.schema import (
    field_ids,
    find_conflicts,
    find_spec,
    iceberg_schema,
    partition_spec,
    sort_order,
)
from ashore.tables.readable import RewriteBase, SnapshotFiles
from ashore.tables.table_format import Orphans

ATTEMPTS = 8  # of a commit, while other writers win or no answer comes
ERROR_CHARS = 300  # of what a catalog answers, in a message
_NEW_TABLE = {
    "write.parquet.compression-codec": "zstd",
    "write.metadata.previous-versions-max": "20",
}


@dataclass(frozen=True, slots=True)
class _Known:
    """What files of a table are written by."""

    table: CatalogTable
    schema_id: int
    spec_id: int
    ids: FieldIds


class IcebergTables:
    """Used by the threads of a job's slices, one call at a time for each table."""

    def __init__(self, address: CatalogAddress, storage: Storage, clock: Clock) -> None:
        self._address = address
        self._storage = storage
        self._clock = clock
        self._lake = Lake(storage)
        self._opened: PyicebergCatalog | None = None
        self._known: dict[str, _Known] = {}
        self._drawn: dict[str, tuple[TableCommit, Table]] = {}  # by table; the last that was drawn

    def ensure(self, tables: Iterable[CatalogTable]) -> None:
        """Create tables, or change existing ones in one commit; remember their field ids.

        `sort_by` becomes the sort order; without it, whatever order a table has stays.
        Columns are added, types widened, NOT NULL is removed. A column that a table has and the
        job has not stays unless it is one of `dropped`: its older rows have values.

        Raises SchemaConflict before anything is changed, where a table contradicts the job;
        CatalogError.
        """
        for each in tables:
            if each.full_name not in self._known:
                self._known[each.full_name] = self._ensure(each)

    def field_ids(self) -> dict[str, FieldIds]:
        """Return the field ids by which files are written, of each table that was ensured."""
        return {name: known.ids for name, known in self._known.items()}

    def draw(
        self, name: SliceName, tables: Iterable[str], last: Mapping[str, TableCommit]
    ) -> tuple[TableCommit, ...]:
        """Return the commits of an entry that fills these tables. Nothing is written.

        Arguments:
            name: of the slice whose entry it is.
            tables: any; those that were not ensured are no Iceberg tables, and left out.
            last: the last commit to each table, as the log has it.

        Raises TableReplaced, TableRolledBack, TableOwned; BatchFailed where the columns have
        changed since the files were written: it is written again, with the new field ids;
        CatalogError.

        """
        return tuple(
            self._draw(Marks(name), table, last.get(table))
            for table in sorted({*tables} & self._known.keys())
        )

    def commit(self, name: SliceName, step: CommitTable) -> None:
        """Make the snapshot that an entry orders, unless it is there. May be repeated.

        Raises TableChanged for a compaction; TableReplaced, TableRolledBack, FileConflict;
        CatalogError where the catalog did not answer, or other writers won, for long: whether it
        has happened is looked up the next time.
        If interrupted: the snapshot is there as a whole, or metadata files remain that no table
        names.
        """
        marks, commit = Marks(name), step.commit
        writer = SnapshotWriter(self._catalog(), marks, commit, step.number)
        drawn = self._drawn.pop(commit.table, None)
        files = list[DataFile]()
        failure: Exception | None = None
        for attempt in range(ATTEMPTS):
            if failure is not None:
                self._clock.sleep(min(0.05 * 2**attempt, 2.0))
            try:
                table = self._choose(writer, commit, drawn if failure is None else None)
                if is_committed(table.metadata, marks, commit, step.number):
                    return
                replaced = find_replaced(table, step, self._lake.root)
                files = files or self._data_files(table, step)
                writer.commit(table, files, self._clock.now_ms(), replaced)
            except (Stopped, InvariantBroken, SyncFailed, TableChanged):
                raise
            except Exception as error:  # noqa: BLE001 - whatever it is: see what has happened
                failure = error
            else:
                return
        raise CatalogUnreachable(
            f"{self._address.describe()}: snapshot {commit.snapshot_id} of {commit.table} is not "
            f"there after {ATTEMPTS} tries: {_first_line(failure)}",
            hint="the job tries again; nothing was lost",
        ) from failure

    def begin_rewrite(self, name: SliceName, last: TableCommit) -> RewriteBase:
        """See TableFormat."""
        with self._naming(last.table):
            table = self._load(last.table)
            require_same_table(table.metadata, last)
            require_snapshot(table.metadata, Marks(name), last)
            head = table.metadata.current_snapshot() or fail("a table without a snapshot")
            refused = "it has delete files of another writer" if has_deletes(table) else ""
            files = {
                self._lake.path(each.file_path) or each.file_path for each in find_data_files(table)
            }
        return RewriteBase(head.snapshot_id, frozenset(files), _draw_snapshot_id(), refused)

    def readable(self, table: str) -> SnapshotFiles | None:
        """See TableFormat. None too where the catalog has no such table."""
        with self._naming(table):
            try:
                found = self._load(table)
            except NoSuchTableError:
                return None
            files = {
                self._lake.path(each.file_path) or each.file_path: each.file_size_in_bytes
                for each in find_data_files(found)
            }
            metadata = found.metadata
            known = {each.snapshot_id for each in metadata.snapshots if each.sequence_number}
            return SnapshotFiles(
                files,
                find_rewrite(metadata),
                find_marks(metadata),
                made=found.last_sequence_number,
                known=frozenset(known),
            )

    def find_orphans(self, listed: ListedTable) -> Orphans:
        """See TableFormat. Raises CatalogError too."""
        with self._naming(listed.table):
            try:
                table = self._load(listed.table)
            except NoSuchTableError:
                return Orphans(listed.table, skipped="the catalog has no such table")
            return find_orphans(table, listed, self._storage)

    def close(self) -> None:
        """Close connections. A later call makes new ones."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    def _ensure(self, expected: CatalogTable) -> _Known:
        with self._naming(expected.full_name):
            table = self._load_or_create(expected)
            self._require_fit(table, expected)
            with table.transaction() as change:  # commits nothing where nothing changes
                with change.update_schema() as update:
                    update.union_by_name(iceberg_schema(expected))
                _set_order(change, expected)  # of columns that are there, instead of those that go
                with change.update_schema() as update:
                    for name in sorted(expected.dropped.intersection(table.schema().column_names)):
                        update.delete_column(name)
            spec = find_spec(table.metadata, expected) or fail("no partition spec fits")
            return _Known(
                expected,
                table.metadata.current_schema_id,
                spec.spec_id,
                field_ids(table.schema()),
            )

    def _load_or_create(self, expected: CatalogTable) -> Table:
        catalog = self._catalog()
        if not self._known:
            require_fence(catalog, expected.database)
        try:
            return catalog.load_table(expected.full_name)
        except NoSuchTableError:
            catalog.create_namespace_if_not_exists(expected.database)
        schema = iceberg_schema(expected)
        try:
            return catalog.create_table(
                expected.full_name,
                schema,
                location=expected.location,
                partition_spec=partition_spec(expected, schema),
                sort_order=sort_order(expected, schema),
                properties={**_NEW_TABLE, "ashore.owner": expected.job},
            )
        except TableAlreadyExistsError:
            return catalog.load_table(expected.full_name)

    def _require_fit(self, table: Table, expected: CatalogTable) -> None:
        conflicts = list(find_conflicts(table.metadata, expected))
        if table.metadata.format_version != FORMAT_VERSION:
            conflicts.append(
                f"it is of format version {table.metadata.format_version}, and this release writes "
                f"version {FORMAT_VERSION}: pyiceberg writes no metadata of another one"
            )
        if self._lake.path(f"{table.metadata.location.rstrip('/')}/") is None:
            conflicts.append(f"it is at {table.metadata.location}, outside of {self._lake.root}")
        if conflicts:
            raise SchemaConflict(
                f"Iceberg table {expected.full_name}: {'; '.join(conflicts)}",
                hint="change the job file, or land in a table of another name",
                tables=[expected.full_name],
                conflicts=conflicts,
            )

    def _draw(self, marks: Marks, name: str, last: TableCommit | None) -> TableCommit:
        with self._naming(name):
            table = self._load(name)
        if last is None:
            require_no_mark(table.metadata, marks, name)
        else:
            require_same_table(table.metadata, last)
            require_snapshot(table.metadata, marks, last)
        known = self._known[name]
        if field_ids(table.schema()) != known.ids:
            self._known[name] = now = self._ensure(known.table)
            if now.ids != known.ids:
                raise BatchFailed(
                    f"the columns of {name} have changed while the batch was written",
                    hint="nothing was prepared; the batch is written again",
                )
            table = self._load(name)
        commit = TableCommit(
            name,
            str(table.metadata.table_uuid),
            self._known[name].schema_id,
            known.spec_id,
            _draw_snapshot_id(),
        )
        self._drawn[name] = (commit, table)
        return commit

    def _choose(
        self,
        writer: SnapshotWriter,
        commit: TableCommit,
        drawn: tuple[TableCommit, Table] | None,
    ) -> Table:
        """Return the table as it was when a commit was drawn, or load it.

        What has changed since makes that commit fail, by its requirements: then it is loaded. A
        commit that drops snapshots drops the branches and tags at them, so that it must know all.
        """
        if drawn is None or drawn[0] != commit or writer.drops_snapshots(drawn[1].metadata):
            return self._load(commit.table)
        return drawn[1]

    def _data_files(self, table: Table, step: CommitTable) -> list[DataFile]:
        metadata = table.metadata
        schema = metadata.schema_by_id(step.commit.schema_id) or metadata.schema()
        spec = metadata.specs()[step.commit.spec_id]
        files = ManifestFiles(
            self._storage, schema, spec, metadata.properties, metadata.sort_orders
        )
        return [files.data_file(place, target) for place, target in step.files]

    def _catalog(self) -> PyicebergCatalog:
        if self._opened is None:
            with self._naming("its address"):
                self._opened = open_catalog(self._address, self._lake)
        return self._opened

    def _load(self, table: str) -> Table:
        return self._catalog().load_table(table)

    @contextmanager
    def _naming(self, what: str) -> Iterator[None]:
        """Raise what a catalog raises as a CatalogError that says which one it was."""
        try:
            yield
        except AshoreError:
            raise
        except Exception as error:
            raise CatalogUnreachable(
                f"{self._address.describe()}: {what}: {type(error).__name__}: {_first_line(error)}",
                hint="check that the catalog is up and that its address is right",
            ) from error


def _set_order(change: Transaction, expected: CatalogTable) -> None:
    """Make the order of a job file the default. Without one, that of another writer stays."""
    metadata = change.table_metadata
    new = sort_order(expected, metadata.schema())
    now = metadata.sort_order_by_id(metadata.default_sort_order_id)
    if expected.sort_by and (now is None or now.fields != new.fields):
        with change.update_sort_order() as update:
            for name in expected.sort_by:
                update.asc(name, IdentityTransform(), NullOrder.NULLS_LAST)


def _first_line(error: object) -> str:
    """Return what a catalog has answered: a proxy before it may answer by a page of HTML."""
    return str(error).partition("\n")[0][:ERROR_CHARS]


def _draw_snapshot_id() -> int:
    return secrets.randbits(62) | 1 << 62
