"""What is done when table partitions are dropped, by a command or by a running job.

What it is: `RetirePartition`, a partition with its files, and the steps that follow its `retire`
entry: the catalog forgets it, its files go.
What it promises: the entry comes first, the files last: as long as files are there, a later look
finds that something is left to do. Of a partition without data no look would find that; so the
catalog forgets it before the entry. Each step may be repeated.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ashore.errors import PathMissing
from ashore.log import names
from ashore.log.entries import Retire
from ashore.log.entries.partitions import RetiredPartition
from ashore.log.files import PartitionKey
from ashore.log.names import SliceName
from ashore.storage.base import FileStat, Storage
from ashore.tables.catalog import Catalog, CatalogPartition, CatalogTable
from ashore.tables.ddl import Atom, Field, Schema

RETIRED_PARTITIONS, RETIRED_FILES = "retired_partitions", "retired_files"
COUNTERS = {  # of `retire` entries
    RETIRED_FILES: "files that were in partitions when a `retire` entry named them",
    RETIRED_PARTITIONS: "partitions that `retire` entries name; of one that was named twice, both",
}


@dataclass(frozen=True, slots=True)
class RetirePartition:
    """One partition that is dropped."""

    table: str
    partition: str
    files: tuple[str, ...]  # paths that are there now, or will be once the log is closed
    rows: int  # that the log lists and that were not retired before
    kept: int  # files of others: they stay
    slices: tuple[SliceName, ...]  # whose logs are to say that it is retired; empty: they do

    @property
    def has_data(self) -> bool:
        """Whether files show that something is left to do, once the log says that it is gone."""
        return not all(names.is_success_name(names.leaf(path)) for path in self.files)

    @property
    def key(self) -> PartitionKey:
        """Return table and partition."""
        return self.table, self.partition

    def explain(self) -> str:
        """Return what is done, for people."""
        text = f"retire {self.table} {self.partition}: {self.rows:,} rows"
        text += f", {len(self.files):,} files are deleted"
        return text + (f"; {self.kept:,} files that no log lists are kept" if self.kept else "")


def retire_entry(plan: Collection[RetirePartition], by: str, why: str) -> Retire:
    """Return the entry by which partitions are retired: from then on their files are not read."""
    files = sum(len(each.files) for each in plan)
    return Retire(
        tuple(RetiredPartition(*each.key) for each in plan),
        by,
        why,
        ((RETIRED_FILES, files), (RETIRED_PARTITIONS, len(plan))),
    )


def forget_partitions(
    catalog: Catalog, job: str, lake: str, plan: Iterable[RetirePartition]
) -> None:
    """Let a catalog forget partitions, one call a table. Raises CatalogError."""
    by_table: dict[str, list[CatalogPartition]] = defaultdict(list)
    for each in plan:
        by_table[each.table].append(CatalogPartition(each.partition))
    for table, partitions in by_table.items():
        location = f"{lake.rstrip('/')}/{names.table_path(table)}"
        catalog.drop_partitions(_named(table, partitions[0], job, location), partitions)


def _named(table: str, partition: CatalogPartition, job: str, location: str) -> CatalogTable:
    """Return as much of a table as it takes to name its partitions."""
    database, _, name = table.partition(".")
    columns = tuple(Field(column, Atom.STRING, nullable=True) for column in partition.columns)
    return CatalogTable(database, name, Schema(()), Schema(columns), location, "", job)


def delete_files(
    storage: Storage, paths: Sequence[str], may_go_on: Callable[[], bool] = lambda: True
) -> int:
    """Delete files and return how many were there. Raises StorageError.

    If interrupted, or `may_go_on` says no: the first of them are gone.
    """
    deleted = 0
    for path in paths:
        if not may_go_on():
            break
        with suppress(PathMissing):  # another process has deleted it
            storage.delete(path)
            deleted += 1
    return deleted


def files_of(
    listed: Iterable[FileStat], is_own: Callable[[str], bool]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of a directory that go with its partition, and those of others.

    Success files come first: nothing is to say of a half that it is complete.
    """
    there = [each.path for each in listed if not each.is_directory]
    marks = [path for path in there if names.is_success_name(names.leaf(path))]
    own = [path for path in there if path not in marks and is_own(path)]
    deleted = {*marks, *own}
    return (*marks, *own), tuple(path for path in there if path not in deleted)
