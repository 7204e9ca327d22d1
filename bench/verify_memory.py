"""What `ashore verify` and `audit` hold in memory: of a log that lists a hundred thousand files.

    python -m bench.verify_memory

A thousand batches, eight topic partitions, a table of twelve columns with partitions of hours, on a
local disk. The files are there and have the right size; their contents are not read (`--since`), so
that what counts is what is held of each: by `audit` after two intervals in which it has listed all
of them, while they still wait to be proven. Each figure is of a fresh process.
"""

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.jobs.file import parse_job
from ashore.log.entries import Closing, Draft, Join, Joined, Open, Prepare, ShardRead, write_entry
from ashore.log.entries.frame import Body
from ashore.log.extend import extend
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, Target
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName, entry_path, log_directory
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.proof.audit.auditor import Auditor, Pace
from ashore.proof.verify.job import verify_job
from ashore.storage.open import open_storage
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import RecordedSource
from bench.table import Row

NAME = SliceName("bench", "main")
SHARDS = 8
FILES = 100  # of a batch
BATCHES = (10, 1_000)
ROWS = 8
SIZE = 1
START_MS = 1_795_248_000_000
COLUMNS = ", ".join(f"column_{number} STRING" for number in range(12))
JOB = """\
job: bench
lake: file://{lake}
source: {{kafka: {{bootstrap_servers: "127.0.0.1:9092"}}}}
tables: [{{topic: clicks, table: bench.clicks, schema: "{columns}"}}]
"""


class Maker:
    """Writes a log and its files, without syncs."""

    def __init__(self, root: Path, stream_id: str) -> None:
        self.root, self.fold = root, EMPTY
        self.keys = [ShardKey("kafka", "clicks", 1, str(shard)) for shard in range(SHARDS)]
        (root / log_directory(NAME)).mkdir(parents=True)
        self.add(Open("worker-7", 4711, "0.1.0"), 1)
        self.add(Join(tuple(Joined(key, stream_id, 0, "earliest") for key in self.keys)))

    def add(self, body: Body, epoch: int | None = None) -> None:
        fold: Fold = self.fold
        unclosed = fold.unclosed
        closing = (
            Closing(unclosed.number, FILES, 0, registered=True, deferred=(), done=())
            if unclosed
            else None
        )
        number = fold.end + 1
        draft = Draft(
            number, f"{number:032x}", epoch or fold.epoch, START_MS, fold.last, closing, body
        )
        entry, data = write_entry(draft)
        self.fold = extend(fold, entry)
        (self.root / entry_path(NAME, number)).write_bytes(data)

    def land(self) -> None:
        """Land a batch of FILES files, each with rows of one topic partition."""
        batch, size = self.fold.next_batch, FILES * ROWS // SHARDS
        day, hour = f"2026-11-{1 + batch // 24 % 30:02d}", f"{batch % 24:02d}"
        values = (("date", day), ("hour", hour))
        target = Target(
            "bench.clicks", Role.MAIN, f"date={day}/hour={hour}", values, COLUMNS, "parquet"
        )
        files = []
        for number in range(FILES):
            shard, start = number % SHARDS, batch * size + number // SHARDS * ROWS
            unique = f"{batch * FILES + number:016x}"
            span = (FileSpan(shard, start, start + ROWS, ROWS),)
            files.append(DataFile(0, number, unique, ROWS, SIZE, unique, span, START_MS, START_MS))
        reads = []
        for shard, key in enumerate(self.keys):
            count = ROWS * sum(number % SHARDS == shard for number in range(FILES))
            offsets = OffsetRange(self.fold.shards[key].next, self.fold.shards[key].next + count)
            reads.append(
                ShardRead(key, offsets, "bench.clicks", count, count, 0, 0, 0, count, START_MS)
            )
        files = [_shift(file, reads[file.spans[0].shard], batch, size) for file in files]
        time_of = BatchTime(START_MS, (("bench.clicks", START_MS),))
        self.add(Prepare(batch, time_of, tuple(reads), (target,), tuple(files), (), None))
        place = BatchPlace(NAME, self.fold.epoch, batch)
        for file in files:
            path = self.root / place.place(file, target).final
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(bytes(SIZE))


def _shift(file: DataFile, read: ShardRead, batch: int, size: int) -> DataFile:
    """Return the file with its span counted from where the range of its topic partition begins."""
    from dataclasses import replace  # noqa: PLC0415

    (span,) = file.spans
    start = read.offsets.start + span.start - batch * size
    return replace(file, spans=(FileSpan(span.shard, start, start + ROWS, ROWS),))


def make(root: Path, batches: int) -> None:
    source = RecordedSource("kafka")
    source.create("clicks", SHARDS)
    maker = Maker(root, source.describe_streams(["clicks"])["clicks"].stream_id)
    for _ in range(batches):
        maker.land()


def verify(opened: OpenJob) -> int:
    """Verify the lake, and return how many files it lists."""
    return verify_job(opened, since=str(START_MS + 1)).totals.files


def audit(opened: OpenJob) -> int:
    """Look at the lake twice, and return how many files wait to be proven."""
    auditor = Auditor(opened, Pace(1.0, read_bytes_per_s=0, listings=None))
    auditor.tick()
    return auditor.tick().unproven * FILES


LOOKS = {"verify": verify, "audit": audit}


def look(root: Path, name: str) -> None:
    """Look at the lake in this process, and print what it took."""
    source = RecordedSource("kafka")
    source.create("clicks", SHARDS)
    text = JOB.format(lake=root, columns=COLUMNS)
    opened = OpenJob(parse_job(text), open_storage(f"file://{root}"), source, SystemClock())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began_s = time.perf_counter()
    files = LOOKS[name](opened)
    spent_s = time.perf_counter() - began_s
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([files, (after - before) / 1e3, spent_s]))


def main() -> list[Row]:
    rows = []
    for batches in BATCHES:
        with tempfile.TemporaryDirectory() as folder:
            print(f"making {batches * FILES:,} files ...", file=sys.stderr)
            make(Path(folder), batches)
            for name in LOOKS:
                command = [sys.executable, "-m", "bench.verify_memory", folder, name]
                reported = subprocess.run(
                    command, capture_output=True, text=True, check=True
                ).stdout
                files, size_mb, spent_s = json.loads(reported)
                print(f"{name} of {files:,} files: {size_mb:.0f} MB, {spent_s:.1f} s")
                rows.append(Row(f"{name} of {files:,} files, memory", size_mb, "MB"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:]:
        look(Path(sys.argv[1]), sys.argv[2])
    else:
        main()
