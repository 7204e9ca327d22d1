"""One data file, from its first row to its last byte.

What it is: an encoder over a digest over a storage's file, with what the log records of it.
What it promises: spans, rows, event times, size and checksum are those of what was written.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from ashore.errors import check
from ashore.log.files import DataFile, FileSpan, Target
from ashore.log.positions import ShardKey
from ashore.storage.base import FileWriter
from ashore.topics.decode.encode import Encoder
from ashore.topics.decode.registry import open_encoder
from ashore.topics.write.batch import Order

PIECE_BYTES = 1 << 20  # a call to a storage has its price: a thread, a packet, a system call
ARRAY_BYTES = 512  # what an array takes beside its values


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
            first.target.extension, self._sink, first.rows.schema
        )
        self._is_finished = False
        self._waiting = 0  # arrays, since the last flush
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
        return encoder_bytes + self._sink.held_bytes + self._waiting * ARRAY_BYTES

    @property
    def is_begun(self) -> bool:
        """Whether there is a file in the storage."""
        return self._sink.is_begun

    def flush(self) -> None:
        """Encode and hand over all rows. Raises StorageError; the file is of no use then."""
        if self._encoder is not None:
            self._encoder.flush()
        self._waiting = 0
        self._sink.pass_on()

    def append(self, added: TargetRows) -> None:
        """Write rows. Raises StorageError; the file is of no use then."""
        check(self._encoder is not None, f"file {self._unique} is written after its end")
        if self._encoder is not None:
            self._encoder.write(added.rows)
        self._waiting += added.rows.num_columns
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
