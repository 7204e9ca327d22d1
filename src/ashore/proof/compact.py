"""`compact`: small files of Iceberg and Delta tables become few, and the log knows it.

What it promises: no row comes or goes: rows and values are compared before anything is committed.
Only files that the log lists are replaced, by one snapshot of each table and entry. A table that
another writer has changed meanwhile keeps its files. Old files stay where they are: older
snapshots name them. Repeatable; a job that starts finishes what a command has left.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ashore.base.suggest import suggest
from ashore.errors import JobFileInvalid, fail
from ashore.log.entries import Commit, FilePart
from ashore.log.files import TableCommit
from ashore.log.names import SliceName
from ashore.log.plan_compact import (
    CompactRule,
    FileGroup,
    ListedFile,
    plan_groups,
    split_chunks,
)
from ashore.proof.evidence.ledger import Ledger
from ashore.proof.evidence.log_reading import read_ledger
from ashore.proof.evidence.result import Progress, quiet
from ashore.storage.open import LakeAddress
from ashore.tables.ddl import Atom, Decimal, parse_ddl
from ashore.topics.loop.compaction import ChunkWriter
from ashore.topics.loop.job import lake_of
from ashore.topics.open_job import OpenJob
from ashore.topics.use.requirements import require_stopped

if TYPE_CHECKING:  # most calls only look
    from ashore.log.store.committer import Committer
    from ashore.tables.table_format import TableFormat


@dataclass(frozen=True, slots=True)
class CompactTable:
    """What is put together of one table of a slice."""

    name: SliceName
    table: str
    files: int  # of the log, that readers see
    groups: tuple[FileGroup, ...]
    refused: str  # why nothing is, in words; empty: it is

    @property
    def files_replaced(self) -> int:
        """How many files go."""
        return sum(len(each.files) for each in self.groups)

    @property
    def size_bytes(self) -> int:
        """How many bytes are written anew, about."""
        return sum(each.size_bytes for each in self.groups)


@dataclass(frozen=True, slots=True)
class CompactedTable:
    """What was replaced of one table."""

    plan: CompactTable
    files_written: int
    snapshots: tuple[int, ...]  # Delta: the versions before
    abandoned: tuple[str, ...]  # why some of it came to nothing


def plan_compaction(
    opened: OpenJob, table: str | None, rule: CompactRule
) -> tuple[CompactTable, ...]:
    """Return what `apply_compaction` would do, for one table or for all of the job.

    Raises JobFileInvalid where the log has no such table in a table format, or no table has a
    column to sort by; LogDamaged, TableReplaced, TableRolledBack, CatalogError, StorageError.
    """
    commits = {name: opened.fold(name).commits for name in opened.slices}
    _require_known(table, commits)
    ledger = read_ledger(opened.storage, opened.job.job)
    with opened.formats() as formats:
        plan = tuple(
            plan_table(formats, ledger, last, name, rule)
            for name, tables in commits.items()
            for last in (tables[each] for each in sorted(tables))
            if table in {None, last.table}
        )
    _require_columns(rule.sort_by, plan)
    return plan


def _require_columns(sort_by: Sequence[str], plan: Sequence[CompactTable]) -> None:
    """Raise JobFileInvalid where no file that is put together has a column to sort by."""
    schemas = {group.target.schema for each in plan for group in each.groups}
    fields = [field for schema in schemas for field in parse_ddl(schema).fields]
    plain = {field.name for field in fields if isinstance(field.type, Atom | Decimal)}
    for column in sort_by if schemas else ():
        if column not in plain:
            raise JobFileInvalid(
                f"no table has a column {column} to sort by",
                hint=suggest(column, sorted(plain), f"columns: {', '.join(sorted(plain))}"),
            )


def _require_known(
    table: str | None, commits: Mapping[SliceName, Mapping[str, TableCommit]]
) -> None:
    known = sorted({each for tables in commits.values() for each in tables})
    if table is None or table in known:
        return
    otherwise = f"tables in a table format: {', '.join(known) or 'none'}"
    raise JobFileInvalid(
        f"the log has no snapshot of table {table}", hint=suggest(table, known, otherwise)
    )


def plan_table(
    formats: "TableFormat", ledger: Ledger, last: TableCommit, name: SliceName, rule: CompactRule
) -> CompactTable:
    """Return what is put together of one table. `last`: the slice's last commit to it."""
    base = formats.begin_rewrite(name, last)
    listed = [each for each in _list(ledger, name, last.table) if each.path in base.files]
    groups = () if base.refused else plan_groups(listed, rule)
    return CompactTable(name, last.table, len(listed), groups, base.refused)


def _list(ledger: Ledger, name: SliceName, table: str) -> Iterator[ListedFile]:
    for file in ledger.files:
        if file.slice != name.slice or file.target.table != table or file.commit is None:
            continue
        if not ledger.is_in_flight(file):
            parts = tuple(FilePart(each.entry, each.shard) for each in file.parts)
            yield ListedFile(file.final, file.target, file.file, parts, file.commit)


def apply_compaction(
    opened: OpenJob,
    plan: Sequence[CompactTable],
    *,
    takes_over: bool,
    progress: Progress = quiet,
) -> tuple[CompactedTable, ...]:
    """Replace planned files, table by table, entry by entry.

    `progress`: called with the table, and with bytes of old files that were written anew.

    Raises LogGrows where the job runs, unless it `takes_over`; FileConflict where a file is not
    what the log says; FilesLost, TableReplaced, CatalogError, StorageError.
    If interrupted: what has an entry is finished by the next start of the job or of this command;
    the rest of the plan is not done.
    """
    due = [each for each in plan if each.groups]
    if not due:
        return ()
    require_stopped(opened, takes_over=takes_over)
    done, lake = list[CompactedTable](), lake_of(opened.job)
    for name in dict.fromkeys(each.name for each in due):
        with opened.formats() as formats:
            committer = opened.committer(name)
            committer.take_over()
            mine = [each for each in due if each.name == name]
            done += [compact_table(committer, formats, lake, each, progress) for each in mine]
    return tuple(done)


def compact_table(
    committer: "Committer",
    formats: "TableFormat",
    lake: LakeAddress,
    plan: CompactTable,
    progress: Progress = quiet,
) -> CompactedTable:
    """Replace planned files of one table. Requires: the log is open, and nothing is unclosed.

    Raises and is interrupted as `apply_compaction`.
    """
    log, written, snapshots, abandoned = committer.log, 0, list[int](), list[str]()
    writer = ChunkWriter(lake, plan.name, committer.storage)
    size_bytes = 0

    def begin(group: FileGroup) -> bool:
        nonlocal size_bytes
        progress(plan.table, size_bytes, plan.size_bytes)
        size_bytes += group.size_bytes
        return True

    for chunk in split_chunks(plan.groups):
        fold = log.fold
        base = formats.begin_rewrite(plan.name, fold.commits[plan.table])
        body = writer.write(fold, base, chunk, begin) or fail("a compaction was broken off")
        progress(plan.table, size_bytes, plan.size_bytes)
        log.append(body, None)
        closing = committer.finish() or fail("a compaction closes nothing")
        log.append(Commit("compact"), closing)
        if closing.abandoned:
            abandoned.append(closing.abandoned)
        else:
            written += len(body.files)
            snapshots.append(base.drawn)
    return CompactedTable(plan, written, tuple(snapshots), tuple(abandoned))
