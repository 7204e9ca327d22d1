"""Verification timed: ten million rows with provenance on a local disk.

    python -m bench.verify_speed [HOLE_EVERY]

Ten batches of a million rows over four topic partitions, zstd Parquet as the writer makes it. With
HOLE_EVERY, as 1000, one offset in so many is a hole (a transaction marker), so that all records
are read again, here from a source that costs nothing but Python. The files are in the page cache
when the clock starts: disks differ.
"""

import io
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ashore.base.clock import SystemClock
from ashore.base.unique import unique
from ashore.jobs.file import parse_job
from ashore.log.entries import Closing, Join, Joined, Prepare, ShardRead
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, Target
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, OffsetRange, ShardKey, StreamShard
from ashore.log.store.log import LandingLog, LogContext
from ashore.proof.verify.job import verify_job
from ashore.storage.open import open_storage
from ashore.topics.decode.registry import open_encoder
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Record
from ashore.topics.write.data_files import DigestWriter
from ashore_lab.testing import RecordedSource
from bench.table import Row

BATCHES, ROWS, SHARDS = 10, 1_000_000, 4
TABLE = "bench.clicks"
JOB = """\
job: bench
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:9092"}}}}
tables: [{{topic: clicks, table: bench.clicks, schema: "id BIGINT, text STRING"}}]
"""


class SparseSource(RecordedSource):
    """A source that computes its records, and leaves holes."""

    hole_every = 0

    def read_again(self, shard: StreamShard, offsets: OffsetRange) -> Iterator[Record]:
        self.describe_streams([shard.stream])
        for offset in range(offsets.start, offsets.end):
            if offset % self.hole_every:
                yield Record(offset, 0, None, b"")


def shard_offsets(batch: int, hole_every: int) -> np.ndarray:
    """Return the offsets of one batch in one shard."""
    size = ROWS // SHARDS
    found = np.arange(batch * size, (batch + 1) * size, dtype=np.int64)
    return found[found % hole_every != 0] if hole_every else found


def make_rows(offsets: np.ndarray, random: np.random.Generator) -> pa.Table:
    rows = len(offsets) * SHARDS
    kafka_offset = np.tile(offsets, SHARDS)
    return pa.table(
        {
            "id": random.integers(0, 1 << 40, rows),
            "text": pa.array(np.char.mod("user-%06d", random.integers(0, 100_000, rows))),
            "kafka_topic": pa.array(["clicks"]).take(pa.array(np.zeros(rows, np.int64))),
            "kafka_partition": np.repeat(np.arange(SHARDS, dtype=np.int32), len(offsets)),
            "kafka_offset": kafka_offset,
            "kafka_timestamp": pa.array(1_795_000_000_000_000 + kafka_offset).cast(
                pa.timestamp("us", "UTC")
            ),
        }
    )


def land(opened: OpenJob, log: LandingLog, keys: Sequence[ShardKey], offsets: np.ndarray) -> None:
    batch, start = log.fold.next_batch, log.fold.shards[keys[0]].next
    end = int(offsets[-1]) + 1
    target = Target(TABLE, Role.MAIN, f"hour={batch:02d}", (), "id BIGINT", "parquet")
    placing = BatchPlace(log.name, log.fold.epoch, batch)
    buffer, token = io.BytesIO(), unique()
    rows = make_rows(offsets, np.random.default_rng(batch))
    digest = DigestWriter(lambda: _Buffered(buffer))
    encoder = open_encoder("parquet", digest, rows.schema)
    encoder.write(rows)
    encoder.close({})
    digest.close()
    spans = tuple(FileSpan(i, int(offsets[0]), end, len(offsets)) for i in range(SHARDS))
    size, checksum = digest.size_bytes, digest.checksum
    file = DataFile(0, 0, token, rows.num_rows, size, checksum, spans, None, None)
    opened.storage.create(placing.place(file, target).final, buffer.getvalue())
    count = len(offsets)
    reads = tuple(
        ShardRead(key, OffsetRange(start, end), TABLE, count, count, 0, 0, 0, 0, None)
        for key in keys
    )
    body = Prepare(batch, BatchTime(log.fold.now_ms), reads, (target,), (file,), (), None)
    unclosed = log.fold.unclosed
    log.append(body, Closing(unclosed.number, 1, 0, False, (), ()) if unclosed else None)


class _Buffered:
    """A FileWriter into memory."""

    closed = False

    def __init__(self, buffer: io.BytesIO) -> None:
        self._buffer = buffer

    def write(self, data: bytes) -> int:
        return self._buffer.write(data)

    def close(self) -> None:
        self.closed = True

    def abandon(self) -> None:
        self.closed = True


def build(lake: Path, hole_every: int) -> OpenJob:
    clock = SystemClock()
    source = SparseSource("kafka")
    source.hole_every = hole_every
    source.create("clicks", SHARDS)
    storage = open_storage(f"file://{lake}")
    opened = OpenJob(parse_job(JOB.format(lake=lake)), storage, source, clock)
    log = LandingLog(LogContext(storage, clock, unique), SliceName("bench", "main"))
    log.open()
    stream_id = source.describe_streams(["clicks"])["clicks"].stream_id
    keys = [ShardKey("kafka", "clicks", 1, str(shard)) for shard in range(SHARDS)]
    log.append(Join(tuple(Joined(key, stream_id, 0, "earliest") for key in keys)), None)
    for batch in range(BATCHES):
        land(opened, log, keys, shard_offsets(batch, hole_every))
    for key in keys:
        source.leave_hole(StreamShard("clicks", key.shard), log.fold.shards[key].next)
    return opened


def time_plain_read(lake: Path) -> float:
    """Return the seconds that reading all data files takes, one after the other."""
    began = time.perf_counter()
    for path in sorted(lake.rglob("*.parquet")):
        pq.read_table(path)
    return time.perf_counter() - began


def main(hole_every: int = 0) -> list[Row]:
    with tempfile.TemporaryDirectory() as lake:
        opened = build(Path(lake), hole_every)
        steps: dict[str, float] = {}
        began = last = time.perf_counter()

        def progress(step: str, _done: int, _total: int) -> None:
            nonlocal last
            now = time.perf_counter()
            steps[step] = steps.get(step, 0.0) + now - last
            last = now

        result = verify_job(opened, progress=progress)
        spent = time.perf_counter() - began
        tally = result.totals
        print(f"holes: one in {hole_every}" if hole_every else "no holes")
        print(f"{tally.landed:,} rows, {tally.size_bytes / 1e6:.0f} MB, {tally.files} files")
        for step, seconds in steps.items():
            print(f"  {step:6} {seconds:6.2f} s")
        print(f"{spent:.2f} s; {result.summary}")
        plain = time_plain_read(Path(lake))
        print(f"{plain:.2f} s to read all columns of the same files with pyarrow")
    return [
        Row("rows verified", tally.landed / spent / 1e6, "million/s"),
        Row("verification v. reading the same files with pyarrow", spent / plain),
    ]


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else 0)
