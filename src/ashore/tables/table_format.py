"""The seam to table formats: how files of a batch become a snapshot that readers see.

What it is: what a job asks of a table format, and the answers where a table has none, and is a
directory whose files readers see.
What it promises: every call may be repeated. The landing log is the truth: a commit is an effect
that an entry orders.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NoReturn, Protocol

from ashore.errors import CatalogError
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.log.plan_clean import DeleteFile, ListedTable
from ashore.log.plan_commit import CommitTable
from ashore.log.store.committer import refuse_commit
from ashore.tables.catalog import CatalogTable
from ashore.tables.ddl import FieldIds
from ashore.tables.readable import RewriteBase, SnapshotFiles


@dataclass(frozen=True, slots=True)
class Orphans:
    """What a slice has left below a table that nothing refers to, and what was looked at."""

    table: str
    files: int = 0  # below the table
    named: int = 0  # of these, by a snapshot or by the table's metadata
    snapshots: int = 0  # that were read
    steps: tuple[DeleteFile, ...] = ()
    skipped: str = ""  # why the table was not looked at, in words


class TableFormat(Protocol):
    """Calls may raise CatalogError: landing waits, since no reader sees a file before."""

    def ensure(self, tables: Iterable[CatalogTable]) -> None:
        """Create tables, or add the columns that existing ones lack.

        Raises SchemaConflict before anything is changed, where a table contradicts the job.
        """
        ...

    def field_ids(self) -> Mapping[str, FieldIds]:
        """Return the ids by which files name their fields, of each table that was ensured."""
        ...

    def draw(
        self, name: SliceName, tables: Iterable[str], last: Mapping[str, TableCommit]
    ) -> tuple[TableCommit, ...]:
        """Return the commits of an entry that fills these tables. Nothing is written.

        Arguments:
            name: of the slice whose entry it is.
            tables: any; those that were not ensured are directories, and left out.
            last: the last commit to each table, as the log has it.

        Raises TableReplaced, TableRolledBack; BatchFailed where the columns have changed since the
        files were written.

        """
        ...

    def commit(self, name: SliceName, step: CommitTable) -> None:
        """Make the snapshot that an entry orders, unless it is there.

        Raises TableReplaced, TableRolledBack, FileConflict; TableChanged where the files that a
        compaction replaces are not those of the table any more.
        If interrupted: the snapshot is there as a whole, or not at all.
        """
        ...

    def begin_rewrite(self, name: SliceName, last: TableCommit) -> RewriteBase:
        """Return what a table has now, for a compaction. Nothing is written.

        `last`: the last commit of the slice to it. Raises TableReplaced, TableRolledBack.
        """
        ...

    def readable(self, table: str) -> SnapshotFiles | None:
        """Return what readers of a table see; None: it is no table of this format."""
        ...

    def find_orphans(self, listed: ListedTable) -> Orphans:
        """Return what may be deleted below a table, by its snapshots and the log of a slice.

        Raises TableReplaced, TableRolledBack, and Stopped where the last batch is not committed:
        nothing may be deleted then; StorageError.
        """
        ...

    def close(self) -> None:
        """Close connections. A later call makes new ones."""
        ...


class Directories:
    """No table format: readers see the files of a directory."""

    def ensure(self, tables: Iterable[CatalogTable]) -> None:
        """Do nothing."""

    def field_ids(self) -> Mapping[str, FieldIds]:
        """Return none: files name their fields by their names."""
        return {}

    def draw(
        self,
        name: SliceName,  # noqa: ARG002 - see TableFormat
        tables: Iterable[str],  # noqa: ARG002 - see TableFormat
        last: Mapping[str, TableCommit],  # noqa: ARG002 - see TableFormat
    ) -> tuple[TableCommit, ...]:
        """Return none."""
        return ()

    def commit(self, name: SliceName, step: CommitTable) -> None:
        """Raise CatalogError: an entry orders what this job has no catalog for."""
        refuse_commit(name, step)

    def begin_rewrite(
        self,
        name: SliceName,  # noqa: ARG002 - see TableFormat
        last: TableCommit,
    ) -> RewriteBase:
        """Raise CatalogError: no table of this job has a table format."""
        return _refuse_rewrite(last)

    def readable(self, table: str) -> SnapshotFiles | None:  # noqa: ARG002 - see TableFormat
        """Return None: readers list the directory."""
        return None

    def find_orphans(self, listed: ListedTable) -> Orphans:
        """Return none: readers see each file, so that none is an orphan."""
        return Orphans(listed.table, skipped="it is a directory")

    def close(self) -> None:
        """Do nothing."""


class TableFormats:
    """Several table formats, each for its tables."""

    def __init__(self, formats: Mapping[str, TableFormat]) -> None:
        self._formats = formats

    def ensure(self, tables: Iterable[CatalogTable]) -> None:
        """See TableFormat."""
        for each in tables:
            self._formats[each.format].ensure([each])

    def field_ids(self) -> Mapping[str, FieldIds]:
        """See TableFormat."""
        return {
            table: ids for each in self._formats.values() for table, ids in each.field_ids().items()
        }

    def draw(
        self, name: SliceName, tables: Iterable[str], last: Mapping[str, TableCommit]
    ) -> tuple[TableCommit, ...]:
        """See TableFormat."""
        filled = [*tables]
        return tuple(
            drawn for each in self._formats.values() for drawn in each.draw(name, filled, last)
        )

    def commit(self, name: SliceName, step: CommitTable) -> None:
        """See TableFormat. Raises CatalogError where the job has no table of the format."""
        found = self._formats.get(step.commit.format)
        if found is None:
            refuse_commit(name, step)
        else:
            found.commit(name, step)

    def begin_rewrite(self, name: SliceName, last: TableCommit) -> RewriteBase:
        """See TableFormat. Raises CatalogError where the job has no table of the format."""
        found = self._formats.get(last.format)
        return found.begin_rewrite(name, last) if found else _refuse_rewrite(last)

    def readable(self, table: str) -> SnapshotFiles | None:
        """See TableFormat."""
        for each in self._formats.values():
            if (files := each.readable(table)) is not None:
                return files
        return None

    def find_orphans(self, listed: ListedTable) -> Orphans:
        """See TableFormat."""
        last = listed.fold.commits.get(listed.table)
        if last is None:
            return Orphans(listed.table, skipped=f"the log of {listed.name} has no batch in it")
        found = self._formats.get(last.format)
        if found is None:
            return Orphans(listed.table, skipped=f"the job has no table of format {last.format}")
        return found.find_orphans(listed)

    def close(self) -> None:
        """See TableFormat."""
        for each in self._formats.values():
            each.close()


def _refuse_rewrite(last: TableCommit) -> NoReturn:
    raise CatalogError(
        f"this job does not know the format of {last.table}, {last.format}",
        hint="keep the table and its `catalog` in the job file",
    )
