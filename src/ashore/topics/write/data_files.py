"""The data files that a task has open, each from its first row to its last byte.

What it is: `OpenFile`, an encoder over a digest over a storage's file, with what the log records of
it; and `FilePool`, one such file a target, closed when it is full, when there are too many, and at
the end. Its rows stay in memory, and nothing is opened in the storage, while all of them are small
enough: so few rows for each of many targets become one file a target.
What it promises: spans, rows, event times, size and checksum are those of what was written. Never
more than `open_max` files are open in the storage and `closing_max` being closed; files come out in
the order in which they were begun; `finish` returns once all of them are closed and their
directories synced, in one call.
"""

import contextlib
import hashlib
import json
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import pyarrow as pa

from ashore.base.unique import Entropy, unique
from ashore.errors import AshoreError, PathMissing, check
from ashore.log import names
from ashore.log.files import DataFile, FileSpan, Target
from ashore.log.positions import ShardKey
from ashore.storage.base import FileWriter, Storage
from ashore.topics.decode.arrow_types import with_field_ids
from ashore.topics.decode.encode import Encoder
from ashore.topics.decode.registry import open_encoder
from ashore.topics.write.batch import Order

PIECE_BYTES = 1 << 20  # a call to a storage has its price: a thread, a packet, a system call


@dataclass(frozen=True, slots=True)
class OffsetRun:
    """Records of one shard that the task reads one after another, offsets ascending."""

    number: int  # counts the offset runs of a task, from 0
    shard: int  # index into the task's reads
    key: ShardKey


class RowSpan(NamedTuple):
    """Neighbouring rows of one offset run, in a file or on their way to one."""

    offset_run: OffsetRun
    start: int  # the offset of the first row
    end: int  # the offset of the last row, plus one
    rows: int


@dataclass(frozen=True, slots=True)
class TargetRows:
    """Rows of some offset runs, or of a query's result, on their way to one target."""

    target: Target
    roll_bytes: int
    rows: pa.Table  # the columns of the file; never empty
    spans: tuple[RowSpan, ...]  # all rows, in their order; none: no single record became a row
    event_min_ms: int | None
    event_max_ms: int | None
    sorted_by: tuple[str, ...] = ()  # columns by which all rows of the file come sorted


class DigestWriter:
    """The bytes of a data file on their way to the storage, in few large pieces.

    What an encoder writes to: it counts and hashes. `open_file` is called with the first piece.
    """

    def __init__(self, open_file: Callable[[], FileWriter]) -> None:
        self._open_file = open_file
        self._inner: FileWriter | None = None
        self._is_abandoned = False
        self._hash = hashlib.blake2b(digest_size=8)
        self._pieces: list[bytes] = []
        self._held_bytes = 0
        self._size_bytes = 0

    @property
    def size_bytes(self) -> int:
        """Bytes taken so far."""
        return self._size_bytes

    @property
    def checksum(self) -> str:
        """BLAKE2b-64 of the bytes taken so far, hexadecimal."""
        return self._hash.hexdigest()

    @property
    def closed(self) -> bool:
        """Whether `close` or `abandon` was called."""
        return self._is_abandoned if self._inner is None else self._inner.closed

    @property
    def is_begun(self) -> bool:
        """Whether there is a file in the storage."""
        return self._inner is not None

    @property
    def held_bytes(self) -> int:
        """Bytes that the storage was not given yet."""
        return self._held_bytes

    def write(self, data: bytes) -> int:
        """Take `data`, any buffer, and return its length. It may reach the storage later."""
        piece = bytes(data)
        self._hash.update(piece)
        self._size_bytes += len(piece)
        self._pieces.append(piece)
        self._held_bytes += len(piece)
        if self._held_bytes >= PIECE_BYTES:
            self.pass_on()
        return len(piece)

    def flush(self) -> None:
        """Do nothing: encoders flush often, and only a close makes anything durable."""

    def pass_on(self) -> None:
        """Hand over what is buffered. Raises StorageError."""
        if self._pieces:
            self._begin().write(b"".join(self._pieces))
            self._pieces.clear()
            self._held_bytes = 0

    def close(self) -> None:
        """Hand over what is buffered and finish the file: its content is durable then."""
        self.pass_on()
        self._begin().close()

    def abandon(self) -> None:
        """Release the file. Never fails."""
        self._is_abandoned = True
        self._pieces.clear()
        if self._inner is not None:
            self._inner.abandon()

    def _begin(self) -> FileWriter:
        if self._inner is None:
            check(not self._is_abandoned, "a file is begun after it was abandoned")
            self._inner = self._open_file()
        return self._inner


class OpenFile:
    """A data file being written. One thread appends and ends it; then another one may close."""

    def __init__(
        self,
        order: Order,
        first: TargetRows,
        open_file: Callable[[], FileWriter],
        *,
        task: int,
        target: int,
        unique: str,
    ) -> None:
        """Begin with the schema of `first`, which is appended by the caller as all rows are.

        Arguments:
            order: of the batch.
            first: rows that are to be appended.
            open_file: called when there is something to give to the storage.
            task: that writes the file.
            target: index into the task's targets.
            unique: part of the file's name.

        """
        self._order = order
        self._task = task
        self._target = target
        self._unique = unique
        self._sink = DigestWriter(open_file)
        self._encoder: Encoder | None = open_encoder(
            first.target.extension,
            self._sink,
            with_field_ids(first.rows.schema, order.field_ids_of(first.target.table)),
            first.sorted_by,
        )
        self._is_finished = False
        self._rows = 0
        self._spans: dict[int, RowSpan] = {}
        self._event_min_ms: int | None = None
        self._event_max_ms: int | None = None

    @property
    def size_bytes(self) -> int:
        """The size as far as it is known: an estimate before `close`."""
        return self._encoder.bytes_written if self._encoder else self._sink.size_bytes

    @property
    def held_bytes(self) -> int:
        """Memory that `flush` would free."""
        encoder_bytes = self._encoder.held_bytes if self._encoder else 0
        return encoder_bytes + self._sink.held_bytes

    @property
    def is_begun(self) -> bool:
        """Whether there is a file in the storage."""
        return self._sink.is_begun

    def flush(self) -> None:
        """Encode and hand over all rows. Raises StorageError; the file is of no use then."""
        if self._encoder is not None:
            self._encoder.flush()
        self._sink.pass_on()

    def append(self, added: TargetRows) -> None:
        """Write rows. Raises StorageError; the file is of no use then."""
        check(self._encoder is not None, f"file {self._unique} is written after its end")
        if self._encoder is not None:
            self._encoder.write(added.rows)
        self._rows += added.rows.num_rows
        for span in added.spans:
            self._add_span(span)
        self._event_min_ms = lowest(self._event_min_ms, added.event_min_ms)
        self._event_max_ms = highest(self._event_max_ms, added.event_max_ms)

    def _add_span(self, added: RowSpan) -> None:
        offset_run = added.offset_run
        before = self._spans.get(offset_run.number)
        if before is not None:
            check(before.end <= added.start, f"{offset_run.key}: offsets went back in a run")
            added = RowSpan(offset_run, before.start, added.end, before.rows + added.rows)
        self._spans[offset_run.number] = added

    def end(self) -> None:
        """Encode what is left, footer included. Only `close` or `abandon` may follow."""
        if self._encoder is not None:
            self._encoder.close(self._metadata())
            self._encoder = None

    def close(self) -> None:
        """Finish the file: its content is durable then. Raises StorageError.

        Requires: `end` has returned.
        If interrupted: an in-progress file stays that no entry names.
        """
        check(self._encoder is None, f"file {self._unique} is closed before its footer")
        self._sink.close()
        self._is_finished = True

    def abandon(self) -> None:
        """Release the file, unless it is closed. Never fails."""
        if self._encoder is not None:
            self._encoder.abandon()
            self._encoder = None
        self._sink.abandon()

    def to_data_file(self) -> DataFile:
        """Return the record of the file for the log. Requires: `close` has returned."""
        check(self._is_finished, f"file {self._unique} is listed before its end")
        return DataFile(
            target=self._target,
            task=self._task,
            unique=self._unique,
            rows=self._rows,
            size_bytes=self._sink.size_bytes,
            checksum=self._sink.checksum,
            spans=tuple(
                FileSpan(span.offset_run.shard, span.start, span.end, span.rows)
                for span in self._spans.values()
            ),
            event_min_ms=self._event_min_ms,
            event_max_ms=self._event_max_ms,
        )

    def _metadata(self) -> dict[str, str]:
        """Return the footer's keys. They help people; nothing of Ashore reads them."""
        order = self._order
        ranges = [
            {
                "topic": span.offset_run.key.stream,
                "partition": int(span.offset_run.key.shard),
                "start": span.start,
                "end": span.end,
                "rows": span.rows,
            }
            for span in self._spans.values()
        ]
        return {
            "ashore.job": order.name.job,
            "ashore.slice": order.name.slice,
            "ashore.epoch": str(order.epoch),
            "ashore.batch": str(order.batch),
            "ashore.task": str(self._task),
            "ashore.ranges": json.dumps(ranges, separators=(",", ":")),
        }


@dataclass(frozen=True, slots=True)
class PoolLimits:
    """What bounds the memory and the handles of a task."""

    open_max: int = 32  # in the storage
    closing_max: int = 16  # closing waits for HDFS, so several wait at once
    held_bytes_max: int = 64 << 20  # of all files together that the storage was not given yet
    files_max: int = 16_384  # that are not closed: each has some memory of its own


DEFAULT_LIMITS = PoolLimits()

TargetFiles = tuple[tuple[Target, ...], tuple[DataFile, ...]]


class FilePool:
    """Used by one thread; the closing of files runs on threads of its own."""

    def __init__(
        self,
        order: Order,
        task: int,
        storage: Storage,
        entropy: Entropy = unique,
        limits: PoolLimits = DEFAULT_LIMITS,
    ) -> None:
        self._order = order
        self._task = task
        self._storage = storage
        self._entropy = entropy
        self._limits = limits
        self._targets: dict[Target, int] = {}
        self._begun: list[OpenFile] = []
        self._paths: list[str] = []  # of those
        self._open: OrderedDict[int, OpenFile] = OrderedDict()  # least recently used first
        self._buffered: dict[int, int] = {}  # bytes, of each open file
        self._held_bytes = 0  # of all of them
        self._stored: OrderedDict[int, None] = OrderedDict()  # as `_open`: those in the storage
        self._closing: deque[Future[None]] = deque()
        self._closers = ThreadPoolExecutor(limits.closing_max, thread_name_prefix="close")

    @property
    def files(self) -> int:
        """How many files were begun."""
        return len(self._begun)

    def write_all(self, sorted_rows: Iterable[TargetRows]) -> TargetFiles:
        """Write rows and finish; release every file where that fails.

        Raises StorageError, or what making the rows raises.
        """
        try:
            for rows in sorted_rows:
                self.write(rows)
            return self.finish()
        except BaseException:
            self.abandon()
            raise

    def write(self, rows: TargetRows) -> None:
        """Append rows to the file of their target, beginning one where none is open.

        Raises StorageError, also for a file whose closing has failed meanwhile.
        """
        index = self._targets.setdefault(rows.target, len(self._targets))
        file = self._open.pop(index, None) or self._begin(index, rows)
        self._open[index] = file
        file.append(rows)
        self._note(index, file)
        if file.size_bytes >= rows.roll_bytes:
            self._close(index)
        self._bound_memory()
        self._bound_open()

    def finish(self) -> TargetFiles:
        """Close all files, sync their directories, and return what was written."""
        while self._open:
            self._close(next(iter(self._open)))
        self._wait_for_closing(0)
        self._closers.shutdown()
        directories = sorted({self._directory(target) for target in self._targets})
        if directories:
            self._storage.sync(directories)
        return tuple(self._targets), tuple(file.to_data_file() for file in self._begun)

    def abandon(self) -> None:
        """Release every file, after a failure, and delete what is staged. Never fails.

        No result of this attempt is returned, so no entry will ever name these files, and their
        names are used once: a delete that is applied late harms nothing. On a full disk each try
        would else leave files until the janitor comes. Where the storage does not delete one, the
        others are the janitor's. Waits for closings under way: the deadline of the storage bounds
        them.
        """
        self._closers.shutdown(cancel_futures=True)
        for file in self._begun:
            file.abandon()
        with contextlib.suppress(AshoreError):
            for file, path in zip(self._begun, self._paths, strict=True):
                if file.is_begun:
                    self._delete(path)

    def _delete(self, path: str) -> None:
        with contextlib.suppress(PathMissing):
            self._storage.delete(path)

    def _note(self, index: int, file: OpenFile) -> None:
        """Note what a file holds, and whether there is one in the storage."""
        held_bytes = file.held_bytes
        self._held_bytes += held_bytes - self._buffered.get(index, 0)
        self._buffered[index] = held_bytes
        if file.is_begun:
            self._stored[index] = None
            self._stored.move_to_end(index)

    def _bound_memory(self) -> None:
        """Hand over what the fullest files hold, until half of what all may hold is free."""
        if self._held_bytes <= self._limits.held_bytes_max:
            return
        for index in sorted(self._buffered, key=self._buffered.__getitem__, reverse=True):
            self._open[index].flush()
            self._note(index, self._open[index])
            self._bound_open()
            if self._held_bytes <= self._limits.held_bytes_max / 2:
                return

    def _bound_open(self) -> None:
        """Close the files of the storage that were least recently used, until few are open."""
        while len(self._stored) > self._limits.open_max:
            self._close(next(iter(self._stored)))

    def _begin(self, index: int, first: TargetRows) -> OpenFile:
        while len(self._open) >= self._limits.files_max:
            self._close(next(iter(self._open)))
        unique = self._entropy()
        file = names.pending_name(self._order.batch, unique)
        path = names.join(self._directory(first.target), file)
        opened = OpenFile(
            self._order,
            first,
            partial(self._storage.open_write, path),
            task=self._task,
            target=index,
            unique=unique,
        )
        self._begun.append(opened)
        self._paths.append(path)
        return opened

    def _close(self, index: int) -> None:
        file = self._open.pop(index)
        self._held_bytes -= self._buffered.pop(index)
        self._stored.pop(index, None)
        # Encoding takes memory and the task's one core, so it is not done side by side.
        file.end()
        self._wait_for_closing(self._limits.closing_max - 1)
        self._closing.append(self._closers.submit(file.close))

    def _wait_for_closing(self, left: int) -> None:
        """Wait until at most `left` files are being closed. Raises what the closing raised."""
        while self._closing and (len(self._closing) > left or self._closing[0].done()):
            self._closing.popleft().result()

    def _directory(self, target: Target) -> str:
        return names.staging_directory(target.table, self._order.name, self._order.epoch)


def count_overlaps(files: Sequence[DataFile]) -> int:
    """Count the spans that begin within a span of another file of the same target and shard."""
    groups: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    for number, file in enumerate(files):
        for span in file.spans:
            groups[file.target, span.shard].append((span.start, span.end, number))
    overlaps = 0
    for spans in groups.values():
        reach: dict[int, int] = {}  # file, the highest end so far
        for start, end, number in sorted(spans):
            overlaps += any(start < to for other, to in reach.items() if other != number)
            reach[number] = max(end, reach.get(number, 0))
    return overlaps


def highest(*values: int | None) -> int | None:
    """Return the highest of the values that are known."""
    return max((value for value in values if value is not None), default=None)


def lowest(*values: int | None) -> int | None:
    """Return the lowest of the values that are known."""
    return min((value for value in values if value is not None), default=None)
