"""Retention: table partitions are dropped, by a running job itself or by a command.

What it is: `RetirePartition`, a partition with its files, and the steps that follow its `retire`
entry: the catalog forgets it, its files go. `Retirer`, which looks at the directories of tables now
and then, and drops what `plan_retire` says is old. The loop of the slice appends the `retire` entry
in between.
What it promises: off the commit path, and bounded: a look takes about `STEP_S` and continues with
the next turn. Only files are deleted whose names this slice has made, and success files; a
partition that holds others stays as a whole, and that is reported. A storage or a catalog that is
away delays it and stops nothing. What a process that died has left undone is found by the files
that are left.

The entry comes first, the files last: as long as files are there, a later look finds that something
is left to do. Of a partition without data no look would find that; so the catalog forgets it before
the entry. Each step may be repeated.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass

from ashore.base.clock import Clock
from ashore.errors import AshoreError, PathMissing, SyncFailed
from ashore.log import names
from ashore.log.entries import Retire
from ashore.log.entries.partitions import RetiredPartition
from ashore.log.files import PartitionKey
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.plan_retire import PARTITIONS_MAX, Kept, RetireRule, find_cutoff, plan_retire
from ashore.log.plan_seal import partition_end_ms
from ashore.log.progress import Progress
from ashore.log.store.effects import is_success_of
from ashore.storage.base import FileStat, Storage
from ashore.tables.catalog import Catalog, CatalogPartition, CatalogTable
from ashore.tables.ddl import Atom, Field, Schema
from ashore.tables.names import escape

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


# ---- of a running job

EVERY_S = 3600.0  # between two looks
PAUSE_S = 60.0  # after a failure
STEP_S = 5.0  # that a look may take of one turn of the slice
DAY_MS_MAX = 26 * 3_600_000  # with the hours that a change of time adds

Forget = Callable[[Sequence[RetirePartition]], None]  # lets the catalog forget partitions


@dataclass(frozen=True, slots=True)
class Directory:
    """An old partition's directory."""

    key: PartitionKey
    own: tuple[str, ...]  # files of this slice, and success files
    has_data: bool  # of this slice
    orphans: int  # files that readers see, and that this slice has not made


class Retirer:
    """Drops old partitions of one slice's tables. Used by its thread."""

    def __init__(
        self,
        name: SliceName,
        *,
        storage: Storage,
        clock: Clock,
        progress: Progress,
        rules: Callable[[], Sequence[RetireRule]],
        forget: Forget,
    ) -> None:
        """`rules`: a job may find more while it runs. `forget`: see Forget; may be repeated."""
        self._name = name
        self._storage = storage
        self._clock = clock
        self._progress = progress
        self._rules = rules
        self._forget = forget
        self._next_s = float("-inf")
        self._until_s = 0.0
        self._look: Iterator[Directory | None] | None = None  # that is under way
        self._seen: set[PartitionKey] = set()  # by it
        self._retired: set[PartitionKey] = set()  # by an entry of this process
        self._reported: set[PartitionKey] = set()

    def is_due(self) -> bool:
        """Return whether it is time for a look, or for more of one."""
        return self._clock.monotonic_s() >= self._next_s

    def plan(self, fold: Fold) -> tuple[RetirePartition, ...]:
        """Look for old partitions and return what is to go now. Never raises but SyncFailed."""
        self._until_s = self._clock.monotonic_s() + STEP_S
        rules = self._rules()
        found: dict[PartitionKey, Directory] = {}
        self._try(lambda: found.update((each.key, each) for each in self._find(fold, rules)))
        planned = plan_retire(fold, rules, {key: each.orphans for key, each in found.items()})
        self._report(planned.kept)
        return tuple(self._drop(fold, found[key]) for key in planned.partitions)

    def begin(self, plan: Sequence[RetirePartition]) -> bool:
        """Do what comes before the entry; False: it was put off, so that no entry is due.

        Requires: the log is ours. Never raises but SyncFailed.
        """
        empty = [each for each in plan if not each.has_data]
        marks = [path for each in empty for path in each.files]

        def drop() -> None:
            self._forget(empty)
            delete_files(self._storage, marks)

        return self._try(drop)

    def apply(self, plan: Sequence[RetirePartition]) -> int:
        """Let the catalog forget partitions, delete their files, return how many were deleted.

        Requires: the log says that they are retired, and it is ours. Never raises but SyncFailed.
        If interrupted, or what takes long: the next look finds the files that are left.
        """
        self._until_s = self._clock.monotonic_s() + STEP_S
        self._retired |= {each.key for each in plan}
        left = [each for each in plan if each.has_data]
        paths = [path for each in left for path in each.files]
        deleted = 0

        def drop() -> None:
            nonlocal deleted
            self._forget(left)
            deleted = delete_files(self._storage, paths, self._has_time)

        if self._try(drop) and deleted < len(paths):
            self._begin_again(self._clock.monotonic_s())
        return deleted

    def _try(self, act: Callable[[], None]) -> bool:
        """Do something; False: it failed, and is put off."""
        try:
            act()
        except SyncFailed:
            raise
        except AshoreError as error:
            self._begin_again(self._clock.monotonic_s() + PAUSE_S)
            self._progress.warn(self._name.slice, f"retention deferred: {error.message}")
            return False
        return True

    # ---- looking

    def _find(self, fold: Fold, rules: Sequence[RetireRule]) -> Iterator[Directory]:
        """Yield old partitions, as many as there is time for; at last those without an owner."""
        if self._look is None:
            self._seen.clear()
            self._look = self._walk_tables(fold, rules)
        count = 0
        for each in self._look:
            if each is not None:
                self._seen.add(each.key)
                count += bool(each.own)
                if each.has_data or each.key in fold.partitions or self._has_success(each):
                    yield each
            if count == PARTITIONS_MAX or not self._has_time():
                return
        self._look = None
        self._next_s = self._clock.monotonic_s() + EVERY_S
        without_files = dict.fromkeys(fold.partitions.keys() - self._seen, 0)
        for key in plan_retire(fold, rules, without_files).partitions:
            yield self._list(key)  # its files were dropped by others, or it was not old before

    def _walk_tables(self, fold: Fold, rules: Sequence[RetireRule]) -> Iterator[Directory | None]:
        for rule in rules:
            cutoff_ms = find_cutoff(fold, rule)
            if cutoff_ms is not None:
                yield from self._walk(rule, cutoff_ms, "")

    def _walk(self, rule: RetireRule, cutoff_ms: int, partition: str) -> Iterator[Directory | None]:
        """Yield the old partitions below a directory, the latest first; None: it listed one."""
        depth = partition.count("/") + 1 if partition else 0
        listed = self._storage.list(names.join(names.table_path(rule.table), partition))
        yield None
        is_last = depth + 1 == len(rule.columns)
        for each in reversed(listed):
            below = names.join(partition, names.leaf(each.path))
            is_value = names.leaf(below).startswith(f"{escape(rule.columns[depth])}=")
            if not (each.is_directory and is_value):
                continue
            end_ms = partition_end_ms(below, rule.timezone)
            if is_last and end_ms is not None and end_ms <= cutoff_ms:
                yield self._list((rule.table, below))
            elif not is_last and (end_ms is None or end_ms - DAY_MS_MAX <= cutoff_ms):
                yield from self._walk(rule, cutoff_ms, below)

    def _list(self, key: PartitionKey) -> Directory:
        directory = names.join(names.table_path(key[0]), key[1])
        own, others = files_of(self._storage.list(directory), self._is_own)
        orphans = sum(names.is_visible(names.leaf(path)) for path in others)
        return Directory(key, own, any(map(self._is_own, own)), orphans)

    def _has_success(self, directory: Directory) -> bool:
        """Return whether the job's own success file arrived late: the log forgot the partition."""
        read, job = self._storage.read, self._name.job
        return any(is_success_of(job, read(path)) for path in directory.own)

    def _is_own(self, path: str) -> bool:
        final = names.parse_final(names.leaf(path))
        return final is not None and final.slice == self._name.slice

    # ---- doing

    def _drop(self, fold: Fold, directory: Directory) -> RetirePartition:
        key, state = directory.key, fold.partitions.get(directory.key)
        is_said = state is None and key in self._retired
        return RetirePartition(
            *key,
            files=directory.own,
            rows=state.rows if state else 0,
            kept=0,
            slices=() if is_said else (self._name,),
        )

    def _has_time(self) -> bool:
        return self._clock.monotonic_s() < self._until_s

    def _begin_again(self, at_s: float) -> None:
        self._look, self._next_s = None, at_s

    def _report(self, kept: Sequence[Kept]) -> None:
        """Report once the partitions that stay for what others have put there."""
        for each in kept:
            key = (each.table, each.partition)
            if each.orphans and key not in self._reported:
                self._reported.add(key)
                what = f"retention: {each.table} {each.partition} is kept: {each.why}"
                self._progress.warn(self._name.slice, what)
