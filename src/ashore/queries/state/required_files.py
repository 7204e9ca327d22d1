"""Which files of a checkpoint one batch needs: what Spark reads when it continues after that batch.

What it is: `plan_required`. A savepoint copies these files; what no kept batch needs is garbage;
a batch whose files are not all there cannot be restored.
What it promises: pure: it decides from a listing, and from the bytes of a few small files, which it
asks for. Every file that it returns is in the listing. Where one is missing it raises, and names
the file. What Spark would find without a file of this list, it also finds in a copy that has only
these: a restart after the batch.

    metadata                 the id of the query
    offsets                  of the batch, and of the one before; of the one after, where that was
                             planned and the batch is the last one that is done: Spark runs it
                             again with the same offsets
    commits                  of the batch; in format 2 also of each batch in a chain: they name the
                             ids of its files
    sources                  all files of a source; of one that keeps a log of the files it has seen
                             the newest compacted file up to the batch's offset, and those after
                             it; where two readings of one stream have one log together, up to the
                             highest offset that may be of it
    operators                `_metadata/metadata`; of `_metadata/v2` the newest up to the batch
    schemas                  `_metadata/schema`; of `_stateSchema` those that the operator names
    state, for each store    its chain: the newest snapshot up to the batch, and each change since
    tables                   those that the snapshots of the chains name, with the size they say
    checksums                of format 2, of the files of the chains
    versions, migration      Ashore's own, which Spark does not look at: all copies of the job's
                             versions, which say whose the checkpoint is, and the mark of a
                             migration
    not needed               partitions at or above the number that the batch has, hidden files, and
                             files that Spark 4.2 does not write

Batch 7 makes version 8 of each store. Its chain is `5.zip`, `6.changelog`, `7.changelog`,
`8.changelog` where version 5 has the newest snapshot, and begins with `1.changelog` where there is
none.
"""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ashore.errors import CheckpointUnfit
from ashore.log.plan_query import NO_BATCH
from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import (
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    CommitFile,
    MigrationPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryFile,
    QueryPath,
    SchemaPath,
    SnapshotFile,
    SourcePath,
    StateKind,
    StatePath,
    Store,
    StoreSchemaPath,
    TablePath,
    VersionPath,
    parse_schemas,
    schema_names,
)

# Returns the bytes of files, in their order: several at once, so that they can be read in parallel.
Read = Callable[[Sequence[CheckpointPath]], Sequence[bytes]]

_SNAPSHOTS_AT_ONCE = 256  # archives of some kilobytes, in memory at a time
_FIRST = "0"  # the name of the first source
COMPACTED = ".compact"  # an entry of a log of seen files that holds all that came before it


@dataclass(frozen=True, slots=True)
class Chain:
    """What a restore of one store reads: a snapshot, then changes, in their order.

    Arguments:
        store: that is restored.
        snapshot: None where the store begins empty.
        changes: each leads from one version to the next.
        tables: that the snapshot names, as paths.
        rows: in the snapshot, where it says; None otherwise.

    """

    store: Store
    snapshot: StatePath | None
    changes: tuple[StatePath, ...]
    tables: tuple[TablePath, ...] = ()
    rows: int | None = None

    @property
    def paths(self) -> tuple[CheckpointPath, ...]:
        """All that a restore of the store reads."""
        snapshot = () if self.snapshot is None else (self.snapshot,)
        return (*snapshot, *self.tables, *self.changes)

    @property
    def rows_now(self) -> int | None:
        """How many rows the store holds at the batch; None: only a restore would count them."""
        return None if self.changes else self.rows


@dataclass(frozen=True, slots=True)
class Required:
    """What a batch needs.

    Arguments:
        batch: that is done.
        query_id: of the query.
        planned: the batch after it, where its offsets are needed too; else the batch.
        offsets: what the batch was planned with.
        commit: what the batch left.
        operators: what each says of itself.
        chains: of each store of each partition, sorted.
        files: all of them, sorted by path.

    """

    batch: int
    query_id: str
    planned: int
    offsets: OffsetsFile
    commit: CommitFile
    operators: Mapping[int, OperatorFile]
    chains: tuple[Chain, ...]
    files: tuple[CheckpointFile, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(each.size_bytes for each in self.files)


def list_batches(files: Iterable[CheckpointFile]) -> dict[BatchLog, list[int]]:
    """Return the batches of each log, sorted."""
    found: dict[BatchLog, list[int]] = {log: [] for log in BatchLog}
    for each in files:
        if isinstance(each.of, BatchPath):
            found[each.of.log].append(each.of.batch)
    return {log: sorted(batches) for log, batches in found.items()}


def list_done(files: Iterable[CheckpointFile]) -> list[int]:
    """Return the batches that are done and whose offsets are kept, sorted."""
    batches = list_batches(files)
    return sorted(set(batches[BatchLog.OFFSETS]).intersection(batches[BatchLog.COMMITS]))


def plan_required(
    files: Sequence[CheckpointFile], batch: int, read: Read, root: str = ""
) -> Required:
    """Return what a batch needs. The batch must be done.

    Arguments:
        files: all of the checkpoint.
        batch: after which Spark is to continue.
        read: returns the bytes of some of these files. What it raises is raised.
        root: where the checkpoint is: for messages.

    Raises CheckpointUnfit where a file is missing, is shorter or longer than it should be, or is
    not as Spark 4.2 writes it; `why` is `missing` or `size` in the first two cases.

    """
    return _Planner({each.of: each for each in files}, batch, read, root).plan()


@dataclass
class _Planner:
    """One run of `plan_required`: what is there, and what was found to be needed."""

    there: Mapping[CheckpointPath, CheckpointFile]
    batch: int
    read: Read
    root: str
    needed: set[CheckpointPath] = field(default_factory=set)

    def plan(self) -> Required:
        query_id = QueryFile.parse(*self._take(QueryPath())).query_id
        commit = CommitFile.parse(*self._take(BatchPath(BatchLog.COMMITS, self.batch)))
        offsets = OffsetsFile.parse(*self._take(BatchPath(BatchLog.OFFSETS, self.batch)))
        planned, ends = self._plan_logs(offsets)
        self._plan_sources(ends)
        self.needed.update(
            each for each in self.there if isinstance(each, VersionPath | MigrationPath)
        )
        operators = self._plan_operators()
        chains = self._plan_state(offsets, commit)
        files = sorted((self.there[each] for each in self.needed), key=lambda each: each.path)
        return Required(
            self.batch, query_id, planned, offsets, commit, operators, chains, tuple(files)
        )

    # ---- logs and sources

    def _plan_logs(self, offsets: OffsetsFile) -> tuple[int, OffsetsFile]:
        """Return the last batch that is planned, and what that was planned with."""
        if self.batch > 0:
            self._need(BatchPath(BatchLog.OFFSETS, self.batch - 1))
        after = BatchPath(BatchLog.OFFSETS, self.batch + 1)
        if after not in self.there or BatchPath(BatchLog.COMMITS, self.batch + 1) in self.there:
            return self.batch, offsets
        return self.batch + 1, OffsetsFile.parse(*self._take(after))

    def _plan_sources(self, offsets: OffsetsFile) -> None:
        ends = {each.source: each.end for each in offsets.sources}
        files: dict[str, list[SourcePath]] = {}
        for each in self.there:
            match each:
                case SourcePath(source):
                    files.setdefault(source, []).append(each)
        logs = {source: parse_log_offset(end) for source, end in ends.items()}
        if have_shared_logs(logs, files):
            self.needed.update(self._select_shared(logs, files))
            return
        for source, last in logs.items():
            paths = files.get(source, [])
            self.needed.update(paths if last is None else self._select_seen(source, paths, last))

    def _select_shared(
        self, logs: Mapping[str, int | None], files: Mapping[str, Sequence[SourcePath]]
    ) -> Iterator[SourcePath]:
        """Yield the logs of seen files where some readings have one log together.

        The first log is of the first line. Which of the others is of which line is not written: of
        each all is needed up to the highest offset that a line may have in it.
        """
        ends, found = {end for end in logs.values() if end is not None}, set[int]()
        for source, paths in sorted(files.items()):
            there = {each.rest.removesuffix(COMPACTED) for each in paths}
            inside = {end for end in ends if f"{end}" in there}
            if source == _FIRST and (first := logs.get(source)) is not None:
                inside = {first}
            if inside:
                yield from self._select_seen(source, paths, max(inside))
            elif None in logs.values():
                yield from paths  # of a source that is not one of files
            else:
                raise self._missing(SourcePath(source, f"{max(ends)}").path)
            found |= inside
        for source, end in logs.items():
            if end is not None and end not in found:
                raise self._missing(SourcePath(source, f"{end}").path)

    def _select_seen(
        self, source: str, paths: Sequence[SourcePath], last: int
    ) -> Iterator[SourcePath]:
        """Yield the log of seen files up to an entry: the newest compacted one, those after it."""
        there = {each.rest: each for each in paths}
        for number in range(last, -1, -1):
            compacted = there.get(f"{number}{COMPACTED}")
            if compacted is not None:
                yield compacted
                return
            if str(number) not in there:
                raise self._missing(SourcePath(source, str(number)).path)
            yield there[str(number)]

    # ---- operators

    def _plan_operators(self) -> dict[int, OperatorFile]:
        fixed: dict[int, list[OperatorPath]] = {}
        for each in self.there:
            match each:
                case OperatorPath(operator, batch) if batch is None or batch <= self.batch:
                    fixed.setdefault(operator, []).append(each)
        newest = {
            operator: max(paths, key=lambda path: NO_BATCH if path.batch is None else path.batch)
            for operator, paths in sorted(fixed.items())
        }
        found = {
            operator: OperatorFile.parse(*self._take(path)) for operator, path in newest.items()
        }
        for operator, says in found.items():
            self._plan_schemas(operator, says)
        return found

    def _plan_schemas(self, operator: int, says: OperatorFile) -> None:
        there = {
            (each.store_name, each.path.rpartition("/")[2]): each
            for each in self.there
            if isinstance(each, SchemaPath) and each.operator == operator
        }
        for store in says.stores:
            for name in schema_names(store):
                path = there.get((store.name, name))
                if path is None:
                    raise self._missing(f"state/{operator}/_stateSchema/{store.name}/{name}")
                self.needed.add(path)

    # ---- state

    def _plan_state(self, offsets: OffsetsFile, commit: CommitFile) -> tuple[Chain, ...]:
        partitions = offsets.partitions
        stores = _group_versions(self.there, partitions)
        self._require_operator_files(stores)
        self._require_partitions(stores, partitions)
        commits = self._read_commits(commit) if commit.store_ids is not None else None
        chains = [
            self._plan_chain(store, versions, commits)
            for store, versions in sorted(stores.items(), key=lambda item: _order(item[0]))
        ]
        chains = list(self._add_tables(chains))
        for chain in chains:
            self.needed.update(chain.paths)
            for path in (chain.snapshot, *chain.changes):
                if path is not None and (checksum := ChecksumPath(path)) in self.there:
                    self.needed.add(checksum)
        return tuple(chains)

    def _require_partitions(self, stores: Iterable[Store], partitions: int | None) -> None:
        """Raise where a partition, or one of its stores, has no file at all.

        An operator without keys has its state in partition 0 alone, as Spark gives it all rows.
        """
        names: dict[int, set[str]] = {}
        found: dict[int, set[int]] = {}
        there = set(stores)
        for each in there:
            names.setdefault(each.operator, set()).add(each.name)
            found.setdefault(each.operator, set()).add(each.partition)
        for operator, numbers in found.items():
            expected = range(partitions if partitions is not None else max(numbers) + 1)
            if numbers == {0} and self._has_no_keys(operator):
                expected = range(1)
            for partition in expected:
                for name in sorted(names[operator]):
                    if Store(operator, partition, name) not in there:
                        raise self._missing(Store(operator, partition, name).path)

    def _require_operator_files(self, stores: Iterable[Store]) -> None:
        """Raise where an operator does not say what it is, or what its stores hold."""
        with_file = {each.operator for each in self.there if isinstance(each, OperatorPath)}
        schemas = {each.operator for each in self.there if isinstance(each, SchemaPath)}
        for store in stores:
            if store.operator not in with_file:
                raise self._missing(OperatorPath(store.operator).path)
            if store.operator not in schemas and store.partition == 0:
                self._need(StoreSchemaPath(store))

    def _has_no_keys(self, operator: int) -> bool:
        path = StoreSchemaPath(Store(operator, 0))
        if path not in self.there:
            return False
        schema = parse_schemas(*self._take(path))[0]
        return not schema.key

    def _read_commits(self, commit: CommitFile) -> dict[int, CommitFile]:
        """Return the kept commits up to the batch: those of format 2 name the ids of files."""
        paths = [
            each
            for each in self.there
            if isinstance(each, BatchPath)
            and each.log is BatchLog.COMMITS
            and each.batch < self.batch
        ]
        read = zip(paths, self.read(paths), strict=True)
        found = {path.batch: CommitFile.parse(data, self._place(path)) for path, data in read}
        return {**found, self.batch: commit}

    def _plan_chain(
        self,
        store: Store,
        versions: Mapping[int, Sequence[StatePath]],
        commits: Mapping[int, CommitFile] | None,
    ) -> Chain:
        changes: list[StatePath] = []
        for version in range(self.batch + 1, 0, -1):
            found = versions.get(version, ())
            if commits is not None:
                found = self._select_named(store, version, found, commits)
            snapshot = next((each for each in found if each.is_whole), None)
            if snapshot is not None:
                return Chain(store, snapshot, tuple(reversed(changes)))
            if not found:
                raise self._no_version(store, version, versions)
            changes.append(found[0])
        return Chain(store, None, tuple(reversed(changes)))

    def _select_named(
        self,
        store: Store,
        version: int,
        found: Sequence[StatePath],
        commits: Mapping[int, CommitFile],
    ) -> list[StatePath]:
        """Return the files of a version whose ids the batch's commit names."""
        path = BatchPath(BatchLog.COMMITS, version - 1)
        if version - 1 not in commits:
            raise self._missing(path.path)
        self.needed.add(path)
        ids = (commits[version - 1].store_ids or {}).get(store.operator, ())
        named = ids[store.partition] if store.partition < len(ids) else ()
        return [each for each in found if each.unique in named]

    def _add_tables(self, chains: Sequence[Chain]) -> Iterator[Chain]:
        """Yield the chains with the tables that their snapshots name."""
        for start in range(0, len(chains), _SNAPSHOTS_AT_ONCE):
            some = chains[start : start + _SNAPSHOTS_AT_ONCE]
            snapshots = [
                each.snapshot
                for each in some
                if each.snapshot and each.snapshot.kind is StateKind.ROCKSDB_SNAPSHOT
            ]
            read = dict(zip(snapshots, self.read(snapshots), strict=True)) if snapshots else {}
            for chain in some:
                data = read.get(chain.snapshot) if chain.snapshot else None
                yield chain if data is None else self._with_tables(chain, data)

    def _with_tables(self, chain: Chain, data: bytes) -> Chain:
        says = SnapshotFile.read(data, self._place(chain.paths[0]))
        tables = []
        for name, size in sorted(says.tables.items()):
            path = TablePath(chain.store, name)
            file = self._need(path)
            if size is not None and file.size_bytes != size:
                raise CheckpointUnfit(
                    f"{self._place(path)} has {file.size_bytes:,} bytes, its snapshot "
                    f"{self._place(chain.paths[0])} says {size:,}",
                    hint=_OTHER_BATCH,
                    why="size",
                )
            tables.append(path)
        return Chain(chain.store, chain.snapshot, chain.changes, tuple(tables), says.rows)

    # ---- files

    def _take(self, path: CheckpointPath) -> tuple[bytes, str]:
        self._need(path)
        return self.read([path])[0], self._place(path)

    def _need(self, path: CheckpointPath) -> CheckpointFile:
        if path not in self.there:
            raise self._missing(path.path)
        self.needed.add(path)
        return self.there[path]

    def _place(self, path: CheckpointPath) -> str:
        return f"{self.root}/{path.path}" if self.root else path.path

    def _missing(self, path: str) -> CheckpointUnfit:
        place = f"{self.root}/{path}" if self.root else path
        return CheckpointUnfit(f"{place} is missing", hint=_OTHER_BATCH, why="missing")

    def _no_version(
        self, store: Store, version: int, versions: Mapping[int, Sequence[StatePath]]
    ) -> CheckpointUnfit:
        """Name the file as its neighbours are called."""
        kinds = {each.kind for some in versions.values() for each in some if not each.is_whole}
        kind = min(kinds, default=StateKind.ROCKSDB_SNAPSHOT)
        return self._missing(StatePath(store, version, kind).path)


_OTHER_BATCH = "choose another batch with --batch, or restore the file"


def _order(store: Store) -> tuple[int, int, str]:
    return store.operator, store.partition, store.name


def _group_versions(
    there: Iterable[CheckpointPath], partitions: int | None
) -> dict[Store, dict[int, list[StatePath]]]:
    found: dict[Store, dict[int, list[StatePath]]] = {}
    for each in there:
        match each:
            case StatePath(store, version) if partitions is None or store.partition < partitions:
                found.setdefault(store, {}).setdefault(version, []).append(each)
    return found


def have_shared_logs(ends: Mapping[str, int | None], logs: Collection[str]) -> bool:
    """Return whether several readings have one log of seen files together.

    Spark gives two readings of one stream of files a line of offsets each, and one directory:
    directories are numbered in the order of the first readings, lines in that of all. Then no
    number is left out, and lines have no more different offsets than there are directories.

    Arguments:
        ends: how far each reading has come, by its number; None: it is not one of files.
        logs: names of the directories of sources.

    """
    is_without = any(end is not None and source not in logs for source, end in ends.items())
    is_numbered = set(logs) == {f"{number}" for number in range(len(logs))}
    return is_without and is_numbered and len(set(ends.values())) <= len(logs)


def parse_log_offset(end: str | None) -> int | None:
    """Return how far a source of files has come; None: it is another source."""
    try:
        value = json.loads(end or "")
    except (ValueError, RecursionError):
        return None
    found = value.get("logOffset") if isinstance(value, dict) else None
    return found if type(found) is int else None
