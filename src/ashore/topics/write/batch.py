"""Step 2 as the landing loop sees it: an order goes out, written files come back.

What it is: the seam between the loop and whatever reads and writes a batch (Spark, a test). An
order has its tables as tasks need to know them: `OutputSpec`, how rows become the files of a table;
and `LandingSpec`, how the records of one topic become such rows.
What it promises: orders and results are values that can be pickled; what a task reports is one
`TaskResult`, sent as bytes. Every counter of an entry is in `COUNTERS`.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Protocol

from ashore.base import codec
from ashore.errors import BatchFailed, CountsDisagree, check
from ashore.log.entries import Prepare, ShardRead
from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_batch import BatchPlan, Feed
from ashore.log.positions import (
    BatchTime,
    OffsetRange,
    ShardKey,
    ShardRange,
    StreamShard,
    find_seams,
)
from ashore.log.tables import DEAD_SUFFIX, HEADERS_TYPE, SNAPSHOTS
from ashore.storage.open import LakeAddress
from ashore.tables.ddl import FieldIds, Schema, parse_ddl
from ashore.tables.masks import Mask
from ashore.topics.route.event_columns import EventColumn

FILES_MAX = 20_000  # that one entry is to list: 5 MB, which every start, reader and archiver reads

PROVENANCE_DDL = (
    "kafka_topic STRING, kafka_partition INT, kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
)
GENERATION_DDL = "kafka_generation INT"
HEADERS_DDL = f"kafka_headers {HEADERS_TYPE}"

# What a task counts besides the ledger, and what each says: summed over tasks, kept in `prepare`
# entries, and left out where it is zero. A task that lands lost files again reports none: they were
# counted the first time.
COUNTERS: dict[str, str] = {
    "far_future": "rows whose event time is beyond the batch's time plus `future_max`; of a query, "
    "the records that are in no view for it",
    "late": "rows whose event time is more than `after` behind the watermark; of a query, the "
    "records that it has read behind its watermark, whether or not a window is open for them",
    "near_1970": "rows whose event time is in January or February of 1970, as times are that are "
    "read in a wrong unit",
    "no_event_time": "rows without an event time that a calendar holds",
    "overlapping_spans": "spans that hold offsets of another file of their task and target: "
    "such a file, if lost, cannot be landed again",
    "reader_fallbacks": "readings that the native reader gave up on the way, so that librdkafka "
    "continued them; the task's log says why",
    "records_near_1970": "of a query, the records that it has read whose event time is in January "
    "or February of 1970",
    "records_undecodable": "of a query, the records that are in no view, as they cannot be decoded",
    "records_untimed": "of a query, the records that it has read without an event time, from views "
    "with a watermark",
    "rehomed": "rows in the bucket of the batch's time, and not in that of their event time",
    "sent": "rows of a query that went into its topic; rows of an interrupted batch, which are "
    "sent again, are counted once",
    "sided": "rows in the late table",
    "times_out_of_range": "times that no table of that format can hold, and that are null: the "
    "timestamps that Kafka keeps for records, and values that SQL made",
    "tombstones": "records without a value, which are no row",
    "unknown_fields": "rows with a field that the schema does not name; an estimate by samples",
    "unnameable": "records that are no row because a partition value is too long for a directory",
}


@dataclass(frozen=True, slots=True)
class OutputSpec:
    """How rows become the files of a table."""

    table: str  # database.table
    schema: str  # DDL of the table's own columns
    partition_by: tuple[str, ...]
    timezone: str  # of the partitions of time
    event_column: str | None  # that they go by, or a field `a.b`; None: the time of the record
    event_unit: str  # s | ms | us | ns; ignored for timestamp columns
    format: str  # parquet | orc | jsonl
    roll_bytes: int
    leaves_aside: bool = False  # a query's table: what SQL cannot compute is a dead letter
    event_format: str = ""  # of an event column that is a STRING
    headers_aside: bool = False  # dead letters of a query have the headers of their records
    sort_by: tuple[str, ...] = ()  # columns by which a compaction sorts; a batch does not

    @property
    def extension(self) -> str:
        """What its files are: those of a table in a table format are Parquet."""
        return "parquet" if self.format in SNAPSHOTS else self.format

    @property
    def tables(self) -> tuple[str, ...]:
        """The table, and its dead-letter table where a query has one."""
        return (self.table, self.table + DEAD_SUFFIX) if self.leaves_aside else (self.table,)

    @property
    def event(self) -> EventColumn | None:
        """Where a row says when it happened; None: rows do not."""
        if self.event_column is None:
            return None
        return EventColumn(self.event_column, self.event_unit, self.event_format)


@dataclass(frozen=True, slots=True)
class LateRule:
    """What happens to records that come late or from the future."""

    after_ms: int
    policy: str  # rehome | keep | side
    future_max_ms: int
    keep_ms: int | None = None  # how far back `keep` reaches; older records take the side


@dataclass(frozen=True, slots=True)
class LandingSpec:
    """How the records of one topic become rows of a table."""

    output: OutputSpec
    decode: str  # json | json_whole | text | bytes
    late: LateRule
    on_invalid: str  # dead_letter | drop | fail
    provenance: bool
    headers: bool = False  # whether the provenance has the record's headers too
    generation: bool = False  # whether rows and dead letters have the generation of their topic
    select: tuple[str, ...] = ()  # SQL expressions, for Spark; none: all columns
    where: str | None = None
    decode_schema: str = ""  # DDL of the values; `select` makes the output's from it
    idle_after_ms: int = 1_800_000  # shards without records for so long hold no watermark up
    reader: str = "auto"  # auto | native | python: who decodes JSON; the rows are the same
    mask: Mask = ()  # columns that are masked, with the form of each

    @property
    def table(self) -> str:
        """The table, as `database.table`."""
        return self.output.table

    @property
    def is_selected(self) -> bool:
        """Whether Spark applies `select` or `where` to decoded records."""
        return bool(self.select or self.where)

    @property
    def feed(self) -> Feed:
        """The table as plans know it."""
        return Feed(self.table, self.idle_after_ms)


def provenance_schema(*, provenance: bool, generation: bool, headers: bool) -> Schema:
    """Return the columns that say where the rows of a table came from: they come last in it."""
    if not provenance:
        return Schema(())
    added = [GENERATION_DDL] * generation + [HEADERS_DDL] * headers
    return parse_ddl(", ".join([PROVENANCE_DDL, *added]))


def fetched_name(column: str) -> str:
    """Return the column of fetched records that a column of the provenance comes from."""
    return column.removeprefix("kafka_")


@dataclass(frozen=True, slots=True)
class KeepSpan:
    """For a reland: only records of this target and these offsets are written."""

    table: str
    partition: str
    key: ShardKey
    offsets: OffsetRange


@dataclass(frozen=True, slots=True)
class Order:
    """Where the files of a batch go, and in whose name: what each of its tasks needs to know."""

    lake: LakeAddress
    name: SliceName
    epoch: int
    batch: int
    time: BatchTime
    # By which files of tables in a table format name their fields.
    field_ids: tuple[tuple[str, FieldIds], ...] = field(default=(), kw_only=True)

    def field_ids_of(self, table: str) -> FieldIds:
        """Return the ids by which files of a table name their fields; none: by their names."""
        return next((ids for name, ids in self.field_ids if name == table), ())

    @property
    def place(self) -> BatchPlace:
        """What the names of its files carry."""
        return BatchPlace(self.name, self.epoch, self.batch)


@dataclass(frozen=True, slots=True)
class BatchOrder(Order):
    """Records of topics that are to be landed."""

    ranges: tuple[ShardRange, ...]
    tables: tuple[tuple[str, LandingSpec], ...]  # stream, its table
    keep: tuple[KeepSpan, ...] | None = None
    is_decoded: bool = True  # False: all are bad as they are, as decoding them ends a process
    stream_ids: tuple[tuple[str, str], ...] = ()  # as the log has them

    @property
    def with_headers(self) -> frozenset[str]:
        """The streams whose records are wanted with their headers."""
        return frozenset(stream for stream, spec in self.tables if spec.headers)

    @property
    def ids(self) -> dict[str, str]:
        """The identities that streams must have, by their names."""
        return dict(self.stream_ids)


@dataclass(frozen=True, slots=True)
class RowsOrder(Order):
    """Rows that a query has made, and that are to be written."""

    output: OutputSpec


@dataclass(frozen=True, slots=True)
class LettersOrder(Order):
    """Records that a query leaves aside, and that are to be written as they came."""

    output: OutputSpec  # the table that the query fills
    shards: tuple[ShardKey, ...]  # that its batch reads


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What one task did. Indices in `files` refer to this result's `targets` and `reads`.

    `ranges` are those that the task was given and has read to their end, records in them or not.
    `is_by_id`: each record was fetched by the identity of its stream in the order, and not by the
    stream's name alone.
    """

    task: int
    reads: tuple[ShardRead, ...]
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    counters: tuple[tuple[str, int], ...]
    ranges: tuple[ShardRange, ...] = ()
    is_by_id: bool = False

    def having_read(
        self,
        ranges: Iterable[ShardRange],
        counts: Mapping[str, int] = MappingProxyType({}),
        by_id: Collection[tuple[StreamShard, OffsetRange]] = (),
    ) -> "TaskResult":
        """Return the result of a task that has read these ranges to their end.

        `counts`: what the reader has counted, added to the counters. `by_id`: what it has fetched
        by the identities of streams.
        """
        read = tuple(ranges)
        return replace(
            self,
            ranges=read,
            counters=tuple(sorted((Counter(dict(self.counters)) + Counter(counts)).items())),
            is_by_id=all(
                (StreamShard(each.key.stream, each.key.shard), each.offsets) in by_id
                for each in read
            ),
        )

    def to_bytes(self) -> bytes:
        """Return the bytes that travel from the executor to the driver."""
        return json.dumps(codec.encode_object(self), separators=(",", ":")).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> "TaskResult":
        """Return the result that `to_bytes` wrote."""
        return codec.decode(cls, json.loads(data))


@dataclass(frozen=True, slots=True)
class Written:
    """What a batch did, all tasks together, in the form that a `prepare` holds."""

    reads: tuple[ShardRead, ...]
    targets: tuple[Target, ...]
    files: tuple[DataFile, ...]
    counters: tuple[tuple[str, int], ...]

    @property
    def rows(self) -> int:
        """Rows in files of main and late tables."""
        return sum(read.landed for read in self.reads)


class BatchRunner(Protocol):
    """Reads and writes one batch. Called by the thread of one slice."""

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """Run step 2: one job, whose tasks return once their files are closed and synced.

        Raises WorkerCrashed where a task's process died, BatchFailed, BadRecord, or SourceError.
        Files of failed attempts may stay behind.
        """
        ...

    def probe(self, files: Mapping[str, bytes]) -> None:
        """Have an executor write new files, as tasks do: content by path, one after the other."""
        ...

    def cancel(self) -> None:
        """Make a `run` that is under way in another thread fail soon."""
        ...


def merge_results(order: BatchOrder, results: Sequence[TaskResult]) -> Written:
    """Put the results of all tasks together: what they have read is what was ordered, once.

    Raises BatchFailed where a part of the order was read to its end by no task: its result has not
    come, and another try may do. Raises CountsDisagree where the results do not fit.
    """
    _check_tiles(order, results)
    specs = dict(order.tables)
    return _merge([(each, specs[each.key.stream].table) for each in order.ranges], results)


def merge_rows(table: str, ranges: Sequence[ShardRange], results: Sequence[TaskResult]) -> Written:
    """Put together what tasks did for a batch of a query: its rows, and its dead letters.

    `reads` are those of `ranges`, in their order, and count dead letters only. Raises
    CountsDisagree where a dead letter is of no range, or the results do not fit.
    """
    return _merge([(each, table) for each in ranges], results)


def _merge(ranges: Sequence[tuple[ShardRange, str]], results: Sequence[TaskResult]) -> Written:
    """Put together what tasks did with ranges, each of which goes into a table."""
    index_of = {each.key: index for index, (each, _) in enumerate(ranges)}
    reads = [
        ShardRead(each.key, each.offsets, table, 0, 0, 0, 0, 0, 0, None) for each, table in ranges
    ]
    for result in results:
        for read in result.reads:
            known = reads[index_of[read.key]].offsets if read.key in index_of else None
            if known is None or read.offsets.start < known.start or read.offsets.end > known.end:
                raise CountsDisagree(
                    f"task {result.task} read {read.key} {read.offsets}, which is outside of its "
                    "batch",
                    hint="nothing was prepared; please report this",
                )
            reads[index_of[read.key]] = add_reads(reads[index_of[read.key]], read)
    files = merge_files([_renumber(result, index_of) for result in results])
    written = replace(files, reads=tuple(reads))
    _check(written)
    return written


def add_reads(left: ShardRead, right: ShardRead) -> ShardRead:
    """Return the counts of two parts of a range together."""
    known = [each for each in (left.event_max_ms, right.event_max_ms) if each is not None]
    return replace(
        left,
        fetched=left.fetched + right.fetched,
        landed=left.landed + right.landed,
        dead=left.dead + right.dead,
        filtered=left.filtered + right.filtered,
        dropped=left.dropped + right.dropped,
        size_bytes=left.size_bytes + right.size_bytes,
        event_max_ms=max(known, default=None),
    )


def _check_tiles(order: BatchOrder, results: Sequence[TaskResult]) -> None:
    """Check that the ranges that tasks have read to their ends tile the order."""
    read: dict[ShardKey, list[OffsetRange]] = {each.key: [] for each in order.ranges}
    for result in results:
        for each in result.ranges:
            if each.key not in read:
                raise CountsDisagree(f"task {result.task} read {each}, which it was not assigned")
            read[each.key].append(each.offsets)
    for each in order.ranges:
        ranges = sorted(read[each.key])
        after = OffsetRange(each.offsets.end, each.offsets.end)  # the last seam is with the end
        seams = find_seams(each.key, each.offsets.start, [*ranges, after])
        if any(seam.found < seam.expected for seam in seams):
            raise CountsDisagree(
                f"{each} was read twice in part, or beyond its end: {seams[0]}",
                hint="nothing was prepared; please report this",
            )
        if seams:
            raise BatchFailed(
                f"no task has read {each} to its end: {seams[0]}",
                hint="nothing was prepared; the batch is retried",
            )


def check_tasks(results: Sequence[TaskResult], tasks: int) -> None:
    """Check that each of `tasks` has reported once what it wrote: rows have no ranges that tile.

    Raises BatchFailed where the result of a task has not come, CountsDisagree where two have.
    """
    reported = Counter(result.task for result in results)
    twice = [task for task, count in reported.items() if count > 1 or task >= tasks]
    if twice:
        raise CountsDisagree(
            f"results of tasks {sorted(twice)} came twice, or were not requested",
            hint="nothing was prepared; please report this",
        )
    missing = sorted(set(range(tasks)) - reported.keys())
    if missing:
        raise BatchFailed(
            f"tasks {missing} have not reported what they wrote",
            hint="nothing was prepared; the batch is retried",
        )


def _renumber(result: TaskResult, index_of: Mapping[ShardKey, int]) -> TaskResult:
    """Return a result whose spans refer to the ranges of the order, not to the task's reads."""
    index = [index_of[read.key] for read in result.reads]
    return replace(
        result,
        files=tuple(
            replace(
                file, spans=tuple(replace(span, shard=index[span.shard]) for span in file.spans)
            )
            for file in result.files
        ),
    )


def merge_files(results: Sequence[TaskResult]) -> Written:
    """Put the files of all tasks together; their spans are left as the tasks have numbered them."""
    targets: dict[Target, int] = {}
    files: list[DataFile] = []
    counters: Counter[str] = Counter()
    for result in results:
        for file in result.files:
            target = targets.setdefault(result.targets[file.target], len(targets))
            files.append(replace(file, target=target))
        counters.update(dict(result.counters))
    return Written((), tuple(targets), tuple(files), tuple(sorted(counters.items())))


def _check(written: Written) -> None:
    """Check that every record fetched is in exactly one place. Raises CountsDisagree."""
    rows = [[0, 0] for _ in written.reads]
    for file in written.files:
        is_dead = written.targets[file.target].role is Role.DEAD
        for span in file.spans:
            rows[span.shard][is_dead] += span.rows
    for read, (landed, dead) in zip(written.reads, rows, strict=True):
        accounted = read.landed + read.dead + read.filtered + read.dropped
        sums = {"fetched": read.fetched, "accounted": accounted}
        if read.fetched != accounted or (landed, dead) != (read.landed, read.dead):
            raise CountsDisagree(
                f"{read.key} {read.offsets}: {read.fetched} fetched, {accounted} accounted for, "
                f"{landed} rows and {dead} dead rows in files",
                hint="nothing was prepared; please report this",
                **sums,
            )


def sort_counters(counts: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    """Return the counters that are not zero, by name."""
    unknown = sorted(counts.keys() - COUNTERS.keys())
    check(not unknown, f"counters without a meaning: {unknown}")
    return tuple(sorted((name, count) for name, count in counts.items() if count))


def prepare_of(plan: BatchPlan, written: Written, commits: tuple[TableCommit, ...] = ()) -> Prepare:
    """Return the body of the entry that makes a batch count."""
    leader_epochs = dict(plan.leader_epochs)
    return Prepare(
        batch=plan.batch,
        time=plan.time,
        shards=tuple(
            replace(read, leader_epoch=leader_epochs.get(read.key)) for read in written.reads
        ),
        targets=written.targets,
        files=written.files,
        counters=written.counters,
        query=None,
        commits=commits,
    )
