"""A checkpoint read, as far as a diagnosis needs it.

What it is: `observe`.
What it promises: reads only. All texts of the logs are parsed. Of the newest batch, and of those
before it until one is whole, all that a restart reads is looked at. Where a query continues
meanwhile it is looked at again, and refused where it does not stop.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock
from typing import TypeVar

import google_crc32c

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.log.plan_query import NO_BATCH
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.contents import (
    TABLE_END,
    check_archive,
    check_blocks,
    local_sum_path,
    parse_local_checksum,
    parse_spark_checksum,
)
from ashore.queries.state.diagnosis.lineage import find_break
from ashore.queries.state.diagnosis.neighbours import compare_commit, compare_offsets, find_outliers
from ashore.queries.state.diagnosis.observation import BadFile, Flaw, Looked, Observed
from ashore.queries.state.diagnosis.source_logs import (
    ListFiles,
    Named,
    check_entry,
    compare_with_files,
    find_wrong_ends,
    list_last_entries,
    list_named,
)
from ashore.queries.state.files import WORKERS, CheckpointFile
from ashore.queries.state.layout import (
    SOURCES,
    BatchLog,
    BatchPath,
    CheckpointPath,
    ChecksumPath,
    CommitFile,
    HiddenPath,
    MigrationPath,
    OffsetsFile,
    OperatorFile,
    OperatorPath,
    QueryFile,
    QueryPath,
    SchemaPath,
    SourcePath,
    StateKind,
    StatePath,
    StoreSchemaPath,
    TablePath,
    UnknownPath,
    VersionPath,
    Wrong,
    parse_path,
    parse_schemas,
)
from ashore.queries.state.required_files import Required, list_done, parse_log_offset, plan_required
from ashore.queries.state.survey import (
    HEAD_BYTES,
    LZ4,
    codec_of,
    find_gaps,
    list_continuing,
    require_checkpoint,
)

T = TypeVar("T")

TRIES = 5  # of a checkpoint that a query writes meanwhile
WHOLE_MAX = 64 << 20  # a file of state that is read into memory; a larger one is not followed
# What nothing proves. N is how many files it is.
_TABLES = "blocks of N tables (--deep compares them with their checksums)"
_OTHER_TABLES = "blocks of N tables of another kind than Spark 4.2 writes"
_PATHS = "paths in N entries of logs of file sources (--deep compares them with the files)"
_PATHS_ALONE = "paths in N entries of logs of file sources: not all of their files can be found"
_PACKED = "N changes without a checksum, compressed with "
_LARGE = f"N files of state without a checksum, over {WHOLE_MAX >> 20} MB"
_NEWEST = "N texts of the newest batches: no checksum, and no later batch to compare with"
_QUERY_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def observe(
    checkpoint: Checkpoint, expected_sources: int | None = None, deep: ListFiles | None = None
) -> Observed:
    """Look through a checkpoint. Kafka is not asked.

    Arguments:
        checkpoint: of Ashore, or of any query of Spark.
        expected_sources: how many sources the query reads now; None: not known.
        deep: lists directories of sources of files; then tables are read whole, and logs of
            sources are compared with their files. None: neither.

    Raises CheckpointUnfit where there is none, or where a query writes it all the time;
    StorageError.

    """
    require_checkpoint(checkpoint)
    for _try in range(TRIES):
        before = checkpoint.list_batches(BatchLog.OFFSETS).keys()
        try:
            observed = _Observer(checkpoint, checkpoint.list_files(), deep).observe()
        except PathMissing:
            continue  # deleted since it was listed
        if checkpoint.list_batches(BatchLog.OFFSETS).keys() == before:
            return replace(observed, expected_sources=expected_sources)
    raise CheckpointUnfit(
        f"{checkpoint.place}: a query writes to it while it is looked at",
        hint="stop the query first",
        why="runs",
    )


@dataclass
class _Observer:
    checkpoint: Checkpoint
    files: list[CheckpointFile]
    deep: ListFiles | None
    bad: dict[str, BadFile] = field(default_factory=dict)
    judged: dict[CheckpointPath, BadFile | None] = field(default_factory=dict)
    counted: Counter[str] = field(default_factory=Counter)
    unread: Counter[str] = field(default_factory=Counter)
    doubted: dict[CheckpointPath, str] = field(default_factory=dict)  # and in which words
    there: dict[str, CheckpointFile] = field(default_factory=dict)
    of_files: set[str] = field(default_factory=set)  # the sources that keep a log of files
    named: dict[str, Named] = field(default_factory=dict)  # by the log of a source of files
    log_lock: Lock = field(default_factory=Lock)
    lock: Lock = field(default_factory=Lock)  # of what is counted: files are judged in parallel

    def observe(self) -> Observed:
        self.there = {each.path: each for each in self.files}
        offsets, commits = self._read_logs()
        good = self._find_good(find_break(offsets))
        return Observed(
            uri=self.checkpoint.uri,
            files=self.files,
            source_directories=sorted(self.checkpoint.list_names(SOURCES)),
            offsets=offsets,
            commits=commits,
            bad=list(self.bad.values()),
            good=good,
            looked=Looked(files=len(self.files), **self.counted),
            doubted=self.doubted,
            not_looked=[f"{number:,} {what}" for what, number in sorted(self.unread.items())]
            + ([] if list_done(self.files) else ["state: no batch is done"]),
        )

    # ---- the logs

    def _read_logs(self) -> tuple[dict[int, OffsetsFile], dict[int, CommitFile]]:
        offsets: dict[int, OffsetsFile] = {}
        commits: dict[int, CommitFile] = {}
        parsed: list[BatchPath] = []
        paths = [each.of for each in self.files if isinstance(each.of, BatchPath)]
        paths.sort(key=lambda path: -path.batch)
        for path, data in zip(paths, self.checkpoint.read_all(paths), strict=True):
            try:
                match path.log:
                    case BatchLog.OFFSETS:
                        offsets[path.batch] = OffsetsFile.parse(data, path.path)
                    case BatchLog.COMMITS:
                        commits[path.batch] = CommitFile.parse(data, path.path)
            except CheckpointUnfit as error:
                self.judged[path] = _bad_file(error)
                self._note(self.judged[path])
                continue
            self._count("batches")
            parsed.append(path)
        self._judge_batches(parsed, offsets, commits)
        return offsets, commits

    def _judge_batches(
        self,
        parsed: Sequence[BatchPath],
        offsets: Mapping[int, OffsetsFile],
        commits: Mapping[int, CommitFile],
    ) -> None:
        """Judge the texts of batches, now that the neighbours of each are known."""
        wrong = find_wrong_ends(offsets, list_last_entries(self.files))
        broken = find_break(offsets)  # from there on another program has planned
        done = max(list_done(self.files), default=NO_BATCH)
        outliers = find_outliers(_before(broken, offsets), _before(broken, commits))
        for path in parsed:
            text = wrong.get(path.batch) if path.log is BatchLog.OFFSETS else None
            self.judged[path] = (
                _judge_ends(path, offsets)
                or _damaged(path.path, text)
                or self._judge_sums(path, partial(_contradict, path, offsets, commits))
                or _damaged(path.path, None if self._has_sum(path) else outliers.get(path))
            )
            self._note(self.judged[path])
            if path.batch >= done and self.checkpoint.has_checksum_files:
                self._doubt(path, _NEWEST)

    # ---- what a restart reads

    def _find_good(self, broken: int | None) -> Required | None:
        """Return what the newest batch needs that is whole, and note what is wrong with newer ones.

        `broken`: the first batch that does not follow the one before it; none from there on counts.
        """
        done = list_done(self.files)
        for batch in reversed([each for each in done if broken is None or each < broken]):
            is_newest = batch == done[-1]
            found = self._try(self.files, batch, is_newest=True) if is_newest else None
            # Then without what is planned after it.
            found = found or self._try(self._upto(batch), batch, is_newest=is_newest)
            if found is not None:
                return found
        return None

    def _upto(self, batch: int) -> list[CheckpointFile]:
        return [
            each
            for each in self.files
            if not (isinstance(each.of, BatchPath) and each.of.batch > batch)
        ]

    def _try(
        self, files: Sequence[CheckpointFile], batch: int, *, is_newest: bool
    ) -> Required | None:
        """Return what a batch needs, if that is whole.

        Where a snapshot is not, an older one may do with the changes since; as Spark does it.
        """
        excluded: set[StatePath] = set()
        while True:
            usable = [each for each in files if each.of not in excluded]
            try:
                found = plan_required(usable, batch, self.checkpoint.read_all)
            except CheckpointUnfit as error:
                bad = _bad_file(error)
                # What an older snapshot would need, or an older batch, may be gone for long.
                if bad.flaw is not Flaw.MISSING or (is_newest and not excluded):
                    self._note(bad)
                without = _snapshots_of(parse_path(bad.file), usable, batch)
            else:
                wrong = self._judge_all(found)
                if not wrong:
                    is_whole = self._is_connected(
                        found, is_newest=is_newest, is_left=bool(excluded)
                    )
                    return found if is_whole else None
                some = [_snapshots_of(parse_path(each.file), usable, batch) for each in wrong]
                without = set().union(*some) if all(some) else set()
            if not without:
                return None
            excluded |= without

    def _judge_all(self, required: Required) -> list[BadFile]:
        codec = codec_of(required.offsets)
        self.of_files.update(
            each.source
            for each in required.offsets.sources
            if parse_log_offset(each.end) is not None
        )
        files = [each for each in required.files if each.of not in self.judged]
        with ThreadPoolExecutor(WORKERS) as pool:
            judged = list(pool.map(lambda each: self._judge(each, codec), files))
        for each, found in zip(files, judged, strict=True):
            self.judged[each.of] = found
            self._note(found)
        wrong = [self.judged[each.of] for each in required.files]
        return [each for each in wrong if each is not None and each.flaw is not Flaw.EDITED]

    def _is_connected(self, required: Required, *, is_newest: bool, is_left: bool) -> bool:
        """Return whether the changes of format 2 continue the snapshots before them.

        `is_left`: whether snapshots were left out. Then what cannot be known is not taken for true.
        """
        chains = list_continuing(required)
        if not chains:
            return True
        if codec_of(required.offsets) != LZ4:
            self._leave("lineages of changes that are not compressed with lz4 were not read")
            return not is_left
        for last, gap in find_gaps(chains, lambda last: self._read(last, 0, HEAD_BYTES)):
            if gap == last:
                self._note(_damaged(last.path, "its lineage cannot be read"))
            elif is_newest and not is_left:
                text = f"{gap.path} is missing: {last.path} continues it"
                self._note(BadFile(gap.path, Flaw.MISSING, text))
            return False
        return True

    def _note(self, bad: BadFile | None) -> None:
        if bad is not None:
            self.bad.setdefault(bad.file, bad)

    def _judge(self, file: CheckpointFile, codec: str) -> BadFile | None:
        match file.of:
            case StatePath() as state:
                text = self._judge_state(state, file.size_bytes, codec)
                return _damaged(file.path, text) or self._judge_sums(state)
            case TablePath() as table:
                self._count("tables")
                start = max(file.size_bytes - len(TABLE_END), 0)
                if self._read(table, start) != TABLE_END:
                    return _damaged(file.path, "it does not end as a table of RocksDB")
                text = self._judge_blocks(table, file.size_bytes)
                return _damaged(file.path, text) or self._judge_sums(table)
            case BatchPath() | VersionPath() | MigrationPath() | HiddenPath() | UnknownPath():
                return None
            case ChecksumPath(of) as path:
                self._count("texts")
                if parse_spark_checksum(self._read(path)) is None:
                    return _damaged(file.path, f"it is not a checksum of {of.path}")
                return None
            case path:
                return self._judge_text(path)

    def _judge_text(self, path: CheckpointPath) -> BadFile | None:
        data = self._read(path)
        self._count("texts")
        match path:
            case StoreSchemaPath() | SchemaPath():
                try:
                    parse_schemas(data, path.path)
                except CheckpointUnfit as error:
                    return _bad_file(error)
            case SourcePath() if not data:
                return _damaged(path.path, "it is empty")
            case SourcePath(source) as entry if source in self.of_files:
                text = self._judge_entry(entry, data)
                if text is not None:
                    return _damaged(path.path, text)
            case _:
                pass  # parsed where it was found to be needed
        other = _contradict_name(path, data)
        return self._judge_sums(path, lambda: other) or _damaged(path.path, other)

    def _judge_state(self, state: StatePath, size_bytes: int, codec: str) -> str | None:
        if size_bytes > WHOLE_MAX:
            self._leave(f"files of state over {WHOLE_MAX >> 20} MB were not followed")
            self._doubt(state, _LARGE)
            return None
        if state.kind is StateKind.ROCKSDB_SNAPSHOT:
            self._count("snapshots")
            return check_archive(self._read(state))
        if codec != LZ4:
            self._leave(f"changes compressed with {codec} were not followed")
            self._doubt(state, _PACKED + codec)
            return None
        self._count("changes")
        return check_blocks(self._read(state))

    def _judge_blocks(self, table: TablePath, size_bytes: int) -> str | None:
        """Compare the blocks of a table with their checksums, where that was asked for."""
        from ashore.queries.state.diagnosis.block_checksums import UNKNOWN, check_sst  # noqa: PLC0415 - loads what only it needs

        if self.deep is None:
            self._doubt(table, _TABLES)
            return None
        found = check_sst(partial(self._read, table), size_bytes)
        if found == UNKNOWN:
            self._doubt(table, _OTHER_TABLES)
            return None
        self._count("checksums")
        return found

    def _judge_entry(self, path: SourcePath, data: bytes) -> str | None:
        """Compare what an entry of a source's log says with its path, and with the files."""
        text = check_entry(path, data)
        if text is not None or self._has_sum(path):
            return text
        if self.deep is None:
            self._doubt(path, _PATHS)
            return None
        found = compare_with_files(data, self._list_named(path.source), self.deep)
        if found.wrong is None and not found.is_proven:
            self._doubt(path, _PATHS_ALONE)
        return found.wrong

    def _list_named(self, source: str) -> Named:
        """Return the files that a source's log names; each entry is read and parsed once."""
        with self.log_lock:
            if source not in self.named:
                found = [each.of for each in self.files if isinstance(each.of, SourcePath)]
                log = (self._read(each) for each in found if each.source == source)
                self.named[source] = list_named(log)
            return self.named[source]

    def _doubt(self, path: CheckpointPath, what: str) -> None:
        """Note that nothing proves what a file holds, unless there is a checksum of it."""
        if not self._has_sum(path):
            with self.lock:
                self.doubted[path] = what

    # ---- checksums

    def _judge_sums(
        self, path: CheckpointPath, contradict: Callable[[], str | None] = lambda: None
    ) -> BadFile | None:
        """Compare a file with the checksums that there are of it.

        `contradict`: returns how other texts contradict this one; asked where its checksum differs.
        """
        hidden = self._hidden_sum(path)
        spark = ChecksumPath(path) if isinstance(path, StatePath) else None
        if hidden is not None and not self._is_as_summed(path, hidden):
            if isinstance(path, StatePath | TablePath):
                return _damaged(path.path, "it does not have the bytes that its `.crc` file is of")
            other = contradict()
            if other is not None:
                text = f"it does not have the bytes that its `.crc` file is of, and {other}"
                return _damaged(path.path, text)
            text = f"{path.path}: checksum differs; the text can be parsed, its content not proven"
            return BadFile(path.path, Flaw.EDITED, text)
        if spark is not None and spark.path in self.there:
            return _damaged(path.path, self._compare_spark(path, spark))
        if hidden is None:
            self._leave("files have no checksum beside them")
        return None

    def _hidden_sum(self, path: CheckpointPath) -> CheckpointPath | None:
        found = self.there.get(local_sum_path(path.path))
        return None if found is None else found.of

    def _is_as_summed(self, path: CheckpointPath, hidden: CheckpointPath) -> bool:
        sums = parse_local_checksum(self._read(hidden))
        self._count("checksums")
        if sums is None:
            return False
        for piece in self.checkpoint.read_pieces(path.path):
            if not sums.add(piece):
                return False
        return sums.finish()

    def _compare_spark(self, path: CheckpointPath, spark: ChecksumPath) -> str | None:
        says = parse_spark_checksum(self._read(spark))
        size_bytes = self.there[path.path].size_bytes
        if says is None:
            return None  # the checksum's own file is judged
        if says.size_bytes != size_bytes:
            return f"it has {size_bytes:,} bytes, its checksum is of {says.size_bytes:,}"
        self._count("checksums")
        if self._sum_pieces(path) != says.crc32c:
            return "it has another checksum than Spark has noted"
        return None

    def _sum_pieces(self, path: CheckpointPath) -> int:
        value = 0
        for piece in self.checkpoint.read_pieces(path.path):
            value = google_crc32c.extend(value, piece)
        return int(value)

    def _has_sum(self, path: CheckpointPath) -> bool:
        has_spark_sum = isinstance(path, StatePath) and ChecksumPath(path).path in self.there
        return has_spark_sum or self._hidden_sum(path) is not None

    def _count(self, what: str) -> None:
        with self.lock:
            self.counted[what] += 1

    def _leave(self, what: str) -> None:
        with self.lock:
            self.unread[what] += 1

    def _read(self, path: CheckpointPath, start: int = 0, length: int | None = None) -> bytes:
        return self.checkpoint.read(path.path, start, length)


def _before(broken: int | None, texts: Mapping[int, T]) -> dict[int, T]:
    return {batch: each for batch, each in texts.items() if broken is None or batch < broken}


def _judge_ends(path: BatchPath, offsets: Mapping[int, OffsetsFile]) -> BadFile | None:
    """Return what is wrong with the ends of sources: each is JSON, whatever the source is."""
    if path.log is not BatchLog.OFFSETS:
        return None
    for each in offsets[path.batch].sources:
        try:
            json.loads(each.end or "0")
        except (ValueError, RecursionError):
            return _damaged(path.path, f"the end of source {each.source} is not JSON")
    return None


def _contradict(
    path: BatchPath, offsets: Mapping[int, OffsetsFile], commits: Mapping[int, CommitFile]
) -> str | None:
    compare = compare_offsets if path.log is BatchLog.OFFSETS else compare_commit
    return compare(path.batch, offsets, commits)


def _contradict_name(path: CheckpointPath, data: bytes) -> str | None:
    """Return how a text contradicts its own path, or cannot be what Spark writes there."""
    match path:
        case OperatorPath(operator):
            found = OperatorFile.parse(data, path.path).operator
            return None if found == operator else f"it is of operator {found}"
        case QueryPath():
            query_id = QueryFile.parse(data, path.path).query_id
            return None if _QUERY_ID.fullmatch(query_id) else "its query id is no UUID"
        case _:
            return None


def _snapshots_of(
    bad: CheckpointPath, files: Sequence[CheckpointFile], batch: int
) -> set[StatePath]:
    """Return the snapshots that a restore does not begin with where a file of theirs is bad.

    None where the file is no snapshot, and no table or checksum of one.
    """
    match bad:
        case StatePath() as snapshot if snapshot.is_whole:
            return {snapshot} if any(each.of == snapshot for each in files) else set()
        case ChecksumPath(of) if of.is_whole:
            return _snapshots_of(of, files, batch)
        case TablePath(store):
            found = [each.of for each in files if isinstance(each.of, StatePath)]
            whole = [
                each
                for each in found
                if each.is_whole and each.store == store and each.version <= batch + 1
            ]
            newest = max((each.version for each in whole), default=0)
            return {each for each in whole if each.version == newest}
        case _:
            return set()


def _damaged(file: str, text: str | None) -> BadFile | None:
    return None if text is None else BadFile(file, Flaw.DAMAGED, f"{file}: {text}")


def _bad_file(error: CheckpointUnfit) -> BadFile:
    """Return which file an error is about: without a root, messages begin with the file."""
    file = error.message.partition(" ")[0].rstrip(":")
    match error.fields.get("why"):
        case "missing":
            flaw = Flaw.MISSING
        case Wrong.OTHER_VERSION.value:
            flaw = Flaw.OTHER_VERSION
        case _:
            flaw = Flaw.DAMAGED
    return BadFile(file, flaw, error.message)
