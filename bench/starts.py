"""What a job costs that is started again and again, and dies each time before its first batch.

    python -m bench.starts

Each start appends an `open`, which stays for ever. What a start reads of them is bounded by the
snapshot that it writes where 500 entries have come since the last. And what the look around costs
that comes before each `open`, where a table without partitions has so many files. All is on a local
disk.
"""

import statistics
import sys
import tempfile
import time
from pathlib import Path

from ashore.landing.traces import find_traces
from ashore.protocol.entries import Draft, Open, write_entry
from ashore.protocol.extend import extend
from ashore.protocol.fold import EMPTY, Fold
from ashore.protocol.names import (
    FinalName,
    entry_path,
    final_name,
    log_directory,
    snapshot_path,
    table_path,
)
from ashore.protocol.snapshot import write_snapshot
from ashore.storage import LocalStorage
from bench.log_start import NAME, START_MS, measure_starts
from bench.table import Row

STARTS = (100, 1_000, 10_000)
FILES = (1_000, 100_000)
TABLE = "bench.clicks"
WHO = Open("worker-7", 4711, "0.1.0")


def make_starts(root: Path, starts: int) -> Fold:
    """Write the log of a job that has only ever been started, without a snapshot."""
    fold = EMPTY
    (root / log_directory(NAME)).mkdir(parents=True)
    for number in range(starts):
        written_ms = START_MS + 300_000 * number
        draft = Draft(number, f"{number:032x}", number + 1, written_ms, fold.last, None, WHO)
        entry, data = write_entry(draft)
        fold = extend(fold, entry)
        (root / entry_path(NAME, number)).write_bytes(data)
    return fold


def seconds_of(starts: int, *, with_snapshot: bool) -> float:
    """Return the seconds that opening such a log takes."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        fold = make_starts(root, starts)
        if with_snapshot:
            path = root / snapshot_path(NAME, fold.end)
            path.write_bytes(write_snapshot(fold))
        return statistics.median(measure_starts(LocalStorage(folder), 3))


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
        print(f"{starts:,} starts ...", file=sys.stderr)
        without = seconds_of(starts, with_snapshot=False)
        snapshot = seconds_of(starts, with_snapshot=True)
        print(f"after {starts:,} starts: {without:.3f} s without a snapshot, {snapshot:.3f} s with")
        rows += [
            Row(f"opening a log of {starts:,} starts, without a snapshot", without, "s"),
            Row(f"opening a log of {starts:,} starts", snapshot, "s"),
        ]
    return rows


if __name__ == "__main__":
    main()
