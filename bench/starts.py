"""What a job costs that is started again and again, and dies each time before its first batch.

    python -m bench.starts

Each start appends an `open`. A start that finds 500 entries since the last snapshot writes one, and
packs the thousands below it; of each thousand two files stay, beside its archive. And what the look
around costs that comes before each `open`, where a table without partitions has so many files. All
is on a local disk.
"""

import hashlib
import statistics
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass, replace
from pathlib import Path

from ashore.jobs.last_writer import find_writer
from ashore.log.entries import Draft, Open, write_entry
from ashore.log.extend import extend
from ashore.log.fold import EMPTY
from ashore.log.names import (
    FinalName,
    entry_path,
    final_name,
    log_directory,
    snapshot_path,
    table_path,
)
from ashore.log.snapshot import write_snapshot
from ashore.log.store.archive import archive_log
from ashore.log.store.log import SNAPSHOT_EVERY
from ashore.log.store.reader import read_log
from ashore.log.store.traces import find_traces
from ashore.storage import LocalStorage
from bench.log_start import NAME, START_MS, measure_starts
from bench.table import Row

STARTS = (1_000, 10_000, 100_000)
FILES = (1_000, 100_000)
TABLE = "bench.clicks"


@dataclass(frozen=True, slots=True)
class Cost:
    """What a log of so many starts costs."""

    files: int
    size_bytes: int  # of all of them
    on_disk_bytes: int  # in blocks
    start_s: float
    peak_bytes: int  # of Python's memory, while the log is folded
    find_writer_s: float


def make_starts(root: Path, starts: int, *, looks_back: bool = True) -> None:
    """Write the log of a job that has only ever been started, as its starts leave it.

    With `looks_back` false its writers are of an earlier release, and no `open` is removed.
    """
    fold, storage = EMPTY, LocalStorage(str(root))
    who = Open("worker-7", 4711, "0.1.0", looks_back)
    (root / log_directory(NAME)).mkdir(parents=True)
    for number in range(starts):
        written_ms = START_MS + 300_000 * number
        draft = Draft(
            number,
            hashlib.md5(b"%d" % number, usedforsecurity=False).hexdigest(),
            number + 1,
            written_ms,
            fold.last,
            None,
            who,
        )
        entry, data = write_entry(draft)
        fold = extend(fold, entry)
        (root / entry_path(NAME, number)).write_bytes(data)
        if fold.end - fold.base >= SNAPSHOT_EVERY:
            (root / snapshot_path(NAME, number)).write_bytes(write_snapshot(fold))
            fold = replace(fold, base=number)
        if number % 10_000 == 0:
            archive_log(storage, NAME)
    archive_log(storage, NAME)


def measure(starts: int, *, looks_back: bool = True) -> Cost:
    """Return what a log of so many starts costs."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        make_starts(root, starts, looks_back=looks_back)
        found = [each.stat() for each in (root / log_directory(NAME)).iterdir()]
        storage = LocalStorage(folder)
        start_s = statistics.median(measure_starts(storage, 3))
        tracemalloc.start()
        fold = read_log(storage, NAME)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        began_s = time.perf_counter()
        if find_writer(storage, NAME, fold) is None:
            raise RuntimeError("the last writer is not found")
        return Cost(
            files=len(found),
            size_bytes=sum(each.st_size for each in found),
            on_disk_bytes=sum(512 * each.st_blocks for each in found),
            start_s=start_s,
            peak_bytes=peak,
            find_writer_s=time.perf_counter() - began_s,
        )


def seconds_of_look(files: int) -> float:
    """Return the seconds of a look around a table without partitions."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / table_path(TABLE)
        root.mkdir(parents=True)
        for number in range(files):
            final = FinalName(
                NAME.slice, 1, number // 100, number % 100, f"{number:016x}", "parquet"
            )
            (root / final_name(final)).touch()
        storage, seconds = LocalStorage(folder), []
        for _ in range(3):
            began_s = time.perf_counter()
            find_traces(storage, NAME, [TABLE])
            seconds.append(time.perf_counter() - began_s)
        return statistics.median(seconds)


def main() -> list[Row]:
    rows = []
    for files in FILES:
        spent_s = seconds_of_look(files)
        print(f"a look around {files:,} files in one directory: {spent_s:.3f} s")
        rows.append(Row(f"look around {files:,} files in one directory", spent_s, "s"))
    for starts in STARTS:
        for looks_back in (False, True):
            print(f"{starts:,} starts ...", file=sys.stderr)
            cost = measure(starts, looks_back=looks_back)
            which = "" if looks_back else ", of an earlier release"
            print(
                f"after {starts:,} starts{which}: {cost.files:,} files, "
                f"{cost.size_bytes / 1e6:.1f} MB, {cost.on_disk_bytes / 1e6:.1f} MB on disk; "
                f"a start {cost.start_s:.3f} s, at most {cost.peak_bytes / 1e6:.1f} MB; "
                f"the last writer is found in {cost.find_writer_s:.3f} s"
            )
        rows += [
            Row(f"opening a log of {starts:,} starts", cost.start_s, "s"),
            Row(f"files of a log of {starts:,} starts", cost.files),
            Row(f"bytes of a log of {starts:,} starts", cost.size_bytes / 1e6, "MB"),
        ]
    return rows


if __name__ == "__main__":
    main()
