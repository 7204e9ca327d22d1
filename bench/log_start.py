"""How long a start takes on a long log, and how large a `prepare` of many files is.

    python -m bench.log_start

The log is made as a job makes it: one `prepare` a batch, a snapshot every 500 entries, whole
thousands packed by the archiver. It is built on local disk, in a temporary directory.
"""

import statistics
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.log.entries import (
    Body,
    Closing,
    Commit,
    Draft,
    Entry,
    Join,
    Joined,
    Open,
    Prepare,
    ShardRead,
    write_entry,
)
from ashore.log.extend import extend
from ashore.log.files import DataFile, FileSpan, Role, Target
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName, entry_path, log_directory, snapshot_path
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.snapshot import write_snapshot
from ashore.log.store.archive import archive_log
from ashore.log.store.log import SNAPSHOT_EVERY, LandingLog, LogContext
from ashore.storage import LocalStorage
from ashore.storage.base import Storage
from bench.table import Row

NAME = SliceName("clicks", "main")
ENTRIES = 100_000
FEW = 2_000  # a log of a few hours, to compare with
SHARDS = 8
STARTS = 5
START_MS = 1_795_248_000_000
DDL = "id BIGINT, user STRING, ts BIGINT, country STRING, amount DOUBLE, text STRING"


def key_of(shard: int) -> ShardKey:
    return ShardKey("kafka", "clicks", 1, str(shard))


def hour_of(number: int) -> Target:
    date, hour = (
        f"2026-{1 + number // 720 % 12:02d}-{1 + number // 24 % 30:02d}",
        f"{number % 24:02d}",
    )
    values = (("date", date), ("hour", hour))
    return Target("ods.clicks", Role.MAIN, f"date={date}/hour={hour}", values, DDL, "parquet")


class Writer:
    """Makes the entries of a steady job: a batch of one file a shard, every ten seconds."""

    def __init__(self, shards: int) -> None:
        self.fold: Fold = EMPTY
        self._shards = shards
        joined = (Joined(key_of(each), "stream", 0, "earliest") for each in range(shards))
        self.first = (
            self.add(Open("worker-7", 4711, "0.1.0"), None),
            self.add(Join(tuple(joined)), None),
        )

    def add(self, body: Body, closing: Closing | None) -> tuple[Entry, bytes]:
        number = self.fold.end + 1
        written_ms = START_MS + 10_000 * number
        entry, data = write_entry(
            Draft(number, unique() + unique(), 1, written_ms, self.fold.last, closing, body)
        )
        self.fold = extend(self.fold, entry)
        return entry, data

    def prepare(self) -> tuple[Entry, bytes]:
        batch, size = self.fold.next_batch, 1_000
        reads = tuple(
            ShardRead(
                key=key_of(shard),
                offsets=OffsetRange(batch * size, (batch + 1) * size),
                table="ods.clicks",
                fetched=size,
                landed=size,
                dead=0,
                filtered=0,
                dropped=0,
                size_bytes=125_000,
                event_max_ms=START_MS + batch,
            )
            for shard in range(self._shards)
        )
        spans = [FileSpan(i, batch * size, (batch + 1) * size, size) for i in range(self._shards)]
        files = tuple(self.file(0, (span,)) for span in spans)
        hour = hour_of(batch // 360)
        body = Prepare(batch, BatchTime(START_MS + 10_000 * batch), reads, (hour,), files, (), None)
        return self.add(body, self.closing())

    def commit(self) -> tuple[Entry, bytes]:
        return self.add(Commit("snapshot"), self.closing())

    def closing(self) -> Closing | None:
        unclosed = self.fold.unclosed
        if unclosed is None:
            return None
        return Closing(unclosed.number, self._shards, 0, registered=True, deferred=(), done=())

    def file(self, target: int, spans: tuple[FileSpan, ...]) -> DataFile:
        rows = sum(span.rows for span in spans)
        times = (START_MS, START_MS + 10_000)
        return DataFile(target, 0, unique(), rows, 100_000 + rows, unique(), spans, *times)


def make_log(root: Path, storage: Storage, entries: int, shards: int = SHARDS) -> None:
    """Write a log of so many entries as a job and its archiver leave it, but without syncs."""
    writer = Writer(shards)
    (root / log_directory(NAME)).mkdir(parents=True)
    for entry, data in writer.first:
        (root / entry_path(NAME, entry.number)).write_bytes(data)
    while writer.fold.end < entries - 1:
        is_due = writer.fold.end - writer.fold.base >= SNAPSHOT_EVERY
        entry, data = writer.commit() if is_due else writer.prepare()
        (root / entry_path(NAME, entry.number)).write_bytes(data)
        if is_due:
            (root / snapshot_path(NAME, entry.number)).write_bytes(write_snapshot(writer.fold))
            writer.fold = replace(writer.fold, base=entry.number)
        if entry.number % 10_000 == 0:
            archive_log(storage, NAME)
    archive_log(storage, NAME)


def make_prepare(files: int, spans: int) -> bytes:
    """Return the bytes of a `prepare`: a day of hourly buckets, 64 shards, so many spans a file."""
    writer = Writer(64)
    size = 100_000
    reads = tuple(
        ShardRead(
            key=key_of(shard),
            offsets=OffsetRange(7_000_000_000, 7_000_000_000 + size),
            table="ods.clicks",
            fetched=0,
            landed=0,
            dead=0,
            filtered=0,
            dropped=0,
            size_bytes=125 * size,
            event_max_ms=START_MS,
        )
        for shard in range(64)
    )
    made = []
    for index in range(files):
        held = tuple(
            FileSpan((index + each) % 64, 7_000_000_000 + 31 * each, 7_000_050_000 + each, 12_345)
            for each in range(spans)
        )
        made.append(replace(writer.file(index % 24, held), task=index // 24))
    targets = tuple(hour_of(hour) for hour in range(24))
    time_of = BatchTime(START_MS, (("ods.clicks", START_MS),))
    body = Prepare(0, time_of, reads, targets, tuple(made), (), None)
    return write_entry(Draft(2, unique() * 2, 1, START_MS, writer.fold.last, None, body))[1]


def measure_starts(storage: Storage, starts: int = STARTS) -> list[float]:
    """Return the seconds that `LandingLog.open` takes, again and again."""
    context = LogContext(storage, SystemClock(), unique)
    seconds = []
    for _ in range(starts):
        began = time.perf_counter()
        LandingLog(context, NAME).open()
        seconds.append(time.perf_counter() - began)
    return seconds


def start_of(entries: int) -> list[float]:
    with tempfile.TemporaryDirectory() as folder:
        storage = LocalStorage(folder)
        print(f"making a log of {entries:,} entries, {SHARDS} shards ...", file=sys.stderr)
        make_log(Path(folder), storage, entries)
        return measure_starts(storage)


def main() -> list[Row]:
    few, seconds = start_of(FEW), start_of(ENTRIES)
    print(f"| start of a log of {ENTRIES:,} entries | seconds |\n|---|---|")
    print(f"| first | {seconds[0]:.3f} |")
    print(f"| median of {len(seconds)} | {statistics.median(seconds):.3f} |")
    print("\n| prepare of 10,000 files | MB |\n|---|---|")
    sizes = {spans: len(make_prepare(10_000, spans)) / 1e6 for spans in (1, 4)}
    for spans, size in sizes.items():
        print(f"| {spans} span(s) a file | {size:.2f} |")
    slower = statistics.median(seconds) / statistics.median(few)
    return [
        Row(f"opening a log of {ENTRIES:,} entries v. one of {FEW:,}", slower),
        Row("prepare of 10,000 files, one span each", sizes[1], "MB", at_most=1.5),
    ]


if __name__ == "__main__":
    main()
