"""Step 2 without Spark: batches that a test has recorded, written as tasks write them.

What it is: `RecordedRunner`, a BatchRunner over a RecordedSource.
What it promises: real files through the storage, in staging names, closed and synced before the
results are given out; a row a record that says which record it is. Every record ends in exactly
one place: a partition of its table, its dead-letter table, or dropped.
"""

import hashlib
import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ashore.base.unique import Entropy, unique
from ashore.errors import BadRecord, BatchFailed, StorageError, check
from ashore.log import names
from ashore.log.entries import ShardRead
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import ShardKey, ShardRange, StreamShard
from ashore.storage.base import Storage
from ashore.topics.loop.splits import plan_splits
from ashore.topics.read.source import Record, Source
from ashore.topics.write.batch import BatchOrder, LandingSpec, TaskResult

EXTENSION = "jsonl"


class RecordedRow(NamedTuple):
    """One row of a file that a RecordedRunner wrote: the record that it came from."""

    stream: str
    generation: int
    shard: str
    offset: int


def read_rows(content: bytes) -> list[RecordedRow]:
    """Return the rows of a file that a RecordedRunner wrote."""
    return [RecordedRow(*json.loads(line)) for line in content.splitlines()]


class RecordedRunner:
    """The BatchRunner of one slice.

    A value is a JSON object; the columns of `partition_by` in it decide its partition, the
    `event_column`, an integer, its event time. Anything else is an invalid record.
    """

    def __init__(self, source: Source, storage: Storage, entropy: Entropy = unique) -> None:
        self._source = source
        self._storage = storage
        self._entropy = entropy
        self._is_cancelled = threading.Event()

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """Write one batch, task after task. Raises BatchFailed, BadRecord, SourceError.

        If interrupted: in-progress files remain; no entry names them.
        """
        self._is_cancelled.clear()
        try:
            return [
                self._run_task(_Task(order, number, self._entropy), ranges)
                for number, ranges in enumerate(plan_splits(plan, dict(order.tables)))
            ]
        except StorageError as error:
            raise BatchFailed(f"batch {order.batch} failed: {error.message}") from error

    def probe(self, files: Mapping[str, bytes]) -> None:
        """See BatchRunner."""
        for path, content in files.items():
            self._write_file(path, content)

    def cancel(self) -> None:
        """See BatchRunner."""
        self._is_cancelled.set()

    def _run_task(self, task: "_Task", ranges: Sequence[ShardRange]) -> TaskResult:
        for asked in ranges:
            shard = StreamShard(asked.key.stream, asked.key.shard)
            task.read(asked, self._source.read_again(shard, asked.offsets))
        for file in task.files.values():
            if self._is_cancelled.is_set():
                raise BatchFailed(f"batch {task.order.batch} was cancelled")
            self._write_file(file.path, file.content)
        directories = {names.parent(file.path) for file in task.files.values()}
        if directories:
            self._storage.sync(sorted(directories))
        return task.to_result().having_read(ranges)

    def _write_file(self, path: str, content: bytes) -> None:
        writer = self._storage.open_write(path)
        try:
            writer.write(content)
            writer.close()
        finally:
            writer.abandon()


@dataclass(slots=True)
class _RecordedSpan:
    """What a file holds of one range."""

    start: int
    end: int
    rows: int


@dataclass(slots=True)
class _RecordedFile:
    target: int
    unique: str
    path: str
    content: bytes = b""
    spans: dict[int, _RecordedSpan] = field(default_factory=dict)  # by index of the read

    @property
    def rows(self) -> int:
        return sum(span.rows for span in self.spans.values())

    def add(self, read: int, row: RecordedRow) -> None:
        self.content += json.dumps(row, separators=(",", ":")).encode() + b"\n"
        span = self.spans.setdefault(read, _RecordedSpan(row.offset, row.offset + 1, 0))
        span.end = row.offset + 1
        span.rows += 1


class _Task:
    """What one task has read, and the files that it is to write."""

    def __init__(self, order: BatchOrder, number: int, entropy: Entropy) -> None:
        self.order = order
        self.number = number
        self.reads: list[ShardRead] = []
        self.files: dict[Target, _RecordedFile] = {}
        self._entropy = entropy
        self._specs = dict(order.tables)

    def read(self, asked: ShardRange, records: Iterable[Record]) -> None:
        """Sort the records of one range into files."""
        spec, index = self._specs[asked.key.stream], len(self.reads)
        counts = dict.fromkeys(("landed", "dead", "dropped"), 0)
        event_max_ms, size = None, 0
        for record in records:
            check(asked.offsets.start <= record.offset < asked.offsets.end, f"not of {asked}")
            row = _parse(record)
            target = _find_target(spec, row)
            if not self._keeps(target, asked.key, record.offset):
                continue
            place = "dropped" if target is None else "dead" if row is None else "landed"
            counts[place] += 1
            size += len(record.key or b"") + len(record.value or b"")
            event_ms = (row or {}).get(spec.output.event_column or "")
            if isinstance(event_ms, int):
                event_max_ms = max(event_ms, event_max_ms or event_ms)
            if target is not None:
                key = asked.key
                written = RecordedRow(key.stream, key.generation, key.shard, record.offset)
                self._file(target).add(index, written)
        self.reads.append(
            ShardRead(
                key=asked.key,
                offsets=asked.offsets,
                table=spec.table,
                fetched=sum(counts.values()),
                landed=counts["landed"],
                dead=counts["dead"],
                filtered=0,
                dropped=counts["dropped"],
                size_bytes=size,
                event_max_ms=event_max_ms,
            )
        )

    def to_result(self) -> TaskResult:
        """Return what the log records. Requires: the files are closed and synced."""
        return TaskResult(
            task=self.number,
            reads=tuple(self.reads),
            targets=tuple(self.files),
            files=tuple(self._describe(file) for file in self.files.values()),
            counters=(),
        )

    def _keeps(self, target: Target | None, key: ShardKey, offset: int) -> bool:
        """Return whether a record is landed: in a reland only what the lost files contained is."""
        keep = self.order.keep
        if keep is None:
            return True
        place = (target.table, target.partition, key) if target else None
        return any(
            (span.table, span.partition, span.key) == place
            and span.offsets.start <= offset < span.offsets.end
            for span in keep
        )

    def _file(self, target: Target) -> _RecordedFile:
        if target not in self.files:
            token = self._entropy()
            directory = names.staging_directory(target.table, self.order.name, self.order.epoch)
            path = names.join(directory, names.pending_name(self.order.batch, token))
            self.files[target] = _RecordedFile(len(self.files), token, path)
        return self.files[target]

    def _describe(self, file: _RecordedFile) -> DataFile:
        return DataFile(
            target=file.target,
            task=self.number,
            unique=file.unique,
            rows=file.rows,
            size_bytes=len(file.content),
            checksum=hashlib.blake2b(file.content, digest_size=8).hexdigest(),
            spans=tuple(
                FileSpan(read, span.start, span.end, span.rows) for read, span in file.spans.items()
            ),
            event_min_ms=None,
            event_max_ms=None,
        )


def _parse(record: Record) -> dict[str, object] | None:
    """Return the columns of a record, or None where it is invalid."""
    try:
        value = json.loads(record.value or b"")
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _find_target(spec: LandingSpec, row: dict[str, object] | None) -> Target | None:
    """Return where a row belongs; None: it is dropped."""
    if row is not None:
        values = tuple((column, str(row.get(column))) for column in spec.output.partition_by)
        partition = "/".join(f"{column}={value}" for column, value in values)
        return Target(spec.table, Role.MAIN, partition, values, spec.output.schema, EXTENSION)
    if spec.on_invalid == "fail":
        raise BadRecord(f"a record of {spec.table} is invalid")
    if spec.on_invalid == "drop":
        return None
    return Target(f"{spec.table}__dead", Role.DEAD, "", (), "reason STRING", EXTENSION)
