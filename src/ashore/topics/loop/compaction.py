"""Small files of a slice's tables, put together: by a command, and between the batches of a job.

What it is: `ChunkWriter`, which writes the new files of one entry; `Compactor`, which remembers the
small files that a running slice has landed, and has some of them written anew when it is time.
What it promises: a turn of a `Compactor` is bounded: one entry, of about TURN_BYTES of old files or
of one new file. What fails before the entry is reported, and landing continues. Files that were
landed long before the process began are left to `ashore compact`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ashore.base.clock import Clock
from ashore.base.units import format_size
from ashore.errors import AshoreError, CallsHang, CatalogError, StorageError, SyncFailed
from ashore.log.entries import Compact, FilePart, Prepare
from ashore.log.files import BatchPlace
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_compact import (
    CompactRule,
    FileGroup,
    ListedFile,
    compact_entry,
    leave_large,
    plan_groups,
    split_chunks,
)
from ashore.log.positions import BatchTime
from ashore.log.progress import FilesCompacted, Progress, Step
from ashore.log.store.reader import read_history
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress
from ashore.tables.readable import RewriteBase

if TYPE_CHECKING:  # --explain appends nothing
    from ashore.log.store.entry_writer import EntryWriter
    from ashore.tables.table_format import TableFormat

TURN_BYTES = 128 << 20
LOOK_BACK = 200  # entries before the first turn, whose files may be small too
FILES_KEPT = 20_000  # small ones of a table that are remembered

Rules = Callable[[], Mapping[str, CompactRule]]  # by table


@dataclass(frozen=True, slots=True)
class ChunkWriter:
    """Writes the files of one entry, for one slice."""

    lake: LakeAddress
    name: SliceName
    storage: Storage

    def write(
        self,
        fold: Fold,
        base: RewriteBase,
        chunk: Sequence[FileGroup],
        begin: Callable[[FileGroup], bool],
    ) -> Compact | None:
        """Write the groups of a chunk anew, and return the entry; None: it was broken off.

        `begin` is called before each group; where it returns False nothing more is written.

        Raises FileConflict where a file is not what the log says; StorageError.
        If interrupted: in-progress files remain, which no entry names.
        """
        from ashore.topics.write.batch import Order  # noqa: PLC0415 - --explain loads no Arrow
        from ashore.topics.write.rewrite import rewrite_group  # noqa: PLC0415

        order = Order(self.lake, self.name, fold.epoch, fold.next_batch - 1, BatchTime(fold.now_ms))
        files = []
        for task, group in enumerate(chunk):
            if not begin(group):
                return None
            files.append((group, rewrite_group(order, self.storage, task, group)))
        return compact_entry(fold, base.id, base.drawn, files)


class Compactor:
    """Puts small files of one slice together. Used by the slice's thread, but for `stop`."""

    def __init__(
        self,
        writer: ChunkWriter,
        formats: "TableFormat",
        rules: Rules,
        *,
        clock: Clock,
        progress: Progress,
    ) -> None:
        self._writer = writer
        self._formats = formats
        self._rules = rules
        self._clock = clock
        self._progress = progress
        self._files: dict[str, dict[str, ListedFile]] = {}  # by table and path, oldest first
        self._due_s: dict[str, float] = {}
        self._has_looked_back = False
        self._stops = False

    def note(self, number: int, epoch: int, body: Prepare | Compact) -> None:
        """Take the small files of an entry that is in the log, and is done."""
        if isinstance(body, Compact):
            known = self._files.get(body.commit.table, {})
            for path in body.paths & known.keys():
                del known[path]
        rules = self._rules()
        for each in _list_files(self._writer.name, number, epoch, body):
            rule = rules.get(each.target.table)
            if rule is not None and rule.is_small(each.file):
                known = self._files.setdefault(each.target.table, {})
                known[each.path] = each
                while len(known) > FILES_KEPT:
                    del known[next(iter(known))]

    def run(self, entries: "EntryWriter") -> None:
        """Put some files together, where it is time; else do nothing.

        Requires: the log is open. Raises SyncFailed, CallsHang; and as `EntryWriter.append` and
        `finish`, whose promises hold: the entry is finished after the next `open`.
        """
        now_s, fold = self._clock.monotonic_s(), entries.log.fold
        for table, rule in self._rules().items():
            due_s = self._due_s.setdefault(table, now_s + rule.every_s)
            if now_s < due_s or table not in fold.commits or self._stops:
                continue
            body, is_more = self._write(table, rule, fold)
            if not is_more:
                self._due_s[table] = now_s + rule.every_s
            if body is not None:
                self._append(entries, body)
                return

    def stop(self) -> None:
        """Begin no new file from now on. By any thread."""
        self._stops = True

    def _append(self, entries: "EntryWriter", body: Compact) -> None:
        slice_name, table = self._writer.name.slice, body.commit.table
        entries.append(body)
        number = entries.log.fold.end
        entries.finish()
        entries.close("compact")
        fold = entries.log.fold
        if fold.commits[table] != body.commit:  # abandoned: the committer has said why
            for path in body.paths:
                self._files[table].pop(path, None)
            return
        self.note(number, fold.epoch, body)
        size_bytes = sum(each.size_bytes for each in body.replaced)
        files, written = len(body.replaced), len(body.files)
        self._progress.measured(FilesCompacted(slice_name, table, files, size_bytes, written))
        self._progress.note(
            slice_name,
            f"compacted {table}: {files:,} files with {format_size(size_bytes)} became {written:,} "
            f"(entry {number:,})",
        )

    def _write(self, table: str, rule: CompactRule, fold: Fold) -> tuple[Compact | None, bool]:
        """Return the entry of a turn, with its files written, and whether more is to be done."""
        try:
            self._look_back(fold)
            if not self._plan(table, rule):
                return None, False
            base = self._formats.begin_rewrite(self._writer.name, fold.commits[table])
            known = self._files[table]
            self._files[table] = {path: known[path] for path in known if path in base.files}
            chunks = self._plan(table, rule)
            if base.refused:
                self._warn(table, base.refused)
                return None, False
            if not chunks:
                return None, False
            self._progress.step(self._writer.name.slice, Step.COMPACT)
            return self._writer.write(fold, base, chunks[0], self._begins), len(chunks) > 1
        except (SyncFailed, CallsHang):
            raise
        except AshoreError as error:
            self._warn(table, error.message)
            if not isinstance(error, StorageError | CatalogError):
                self._files.pop(table, None)  # another try would end as this one
            return None, False

    def _begins(self, _group: FileGroup) -> bool:
        return not self._stops

    def _plan(self, table: str, rule: CompactRule) -> list[tuple[FileGroup, ...]]:
        small = leave_large(self._files.get(table, {}).values())
        return list(split_chunks(plan_groups(small, rule), TURN_BYTES))

    def _look_back(self, fold: Fold) -> None:
        """Take the files of entries before this process, of a few of them, once."""
        if self._has_looked_back:
            return
        name, start = self._writer.name, max(0, fold.end - LOOK_BACK)
        entries = [
            (each.number, each.epoch, each.body)
            for each in read_history(self._writer.storage, name, start)
            if isinstance(each.body, Prepare | Compact)
        ]
        noted, self._files = self._files, {}
        for entry in entries:
            self.note(*entry)
        for table, files in noted.items():
            self._files[table] = {**self._files.get(table, {}), **files}
        self._has_looked_back = True

    def _warn(self, table: str, why: str) -> None:
        self._progress.warn(self._writer.name.slice, f"{table} is not compacted: {why}")


def _list_files(
    name: SliceName, number: int, epoch: int, body: Prepare | Compact
) -> Iterable[ListedFile]:
    """Yield the files of an entry that are in a table in a table format."""
    place = BatchPlace(name, epoch, body.batch)
    if isinstance(body, Compact):
        parts, commits = body.parts, {body.commit.table: body.commit}
    else:
        parts = tuple(FilePart(number, read.key) for read in body.shards)
        commits = {each.table: each for each in body.commits}
    for file in body.files:
        target = body.targets[file.target]
        commit = commits.get(target.table)
        if commit is not None:
            yield ListedFile(place.place(file, target).final, target, file, parts, commit)
