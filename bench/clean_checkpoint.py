"""What `ashore checkpoint clean` takes: on checkpoints of ten and a hundred thousand files.

    python -m bench.clean_checkpoint

Real files on a local disk, as a query leaves them that was rescaled from 400 partitions to 200: one
operator in RocksDB, changelogs, a snapshot each twenty versions, a table each snapshot, ten batches
kept. Each figure is of a fresh process: first the plan, then the cleaning itself.
"""

import json
import subprocess
import sys
import tempfile
import time
import zipfile
from io import BytesIO
from pathlib import Path

from ashore.base.clock import SystemClock
from ashore.queries.tools.clean_checkpoint import clean
from bench.table import Row

PARTITIONS, OLD_PARTITIONS = 200, 400
KEPT = 10
SNAPSHOT_EVERY = 20
SIZES = (10_000, 100_000)  # files, about
PLAN_S_MAX = 60.0


def make(root: Path, files: int) -> None:
    """Write a checkpoint of about so many files."""
    versions = files // OLD_PARTITIONS * SNAPSHOT_EVERY // (SNAPSHOT_EVERY + 2)
    last = versions - 1
    root.mkdir()
    (root / "metadata").write_text('{"id":"8d3c1a52-0d77-4ac8-9d5e-0c6d6ce0a1b7"}')
    conf = json.dumps({"spark.sql.shuffle.partitions": str(PARTITIONS)})
    planned = f'v1\n{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{conf}}}\n{{}}'
    for log, text in (("offsets", planned), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        (root / log).mkdir()
        for batch in range(last - KEPT, last + 1):
            (root / log / str(batch)).write_text(text)
    for partition in range(OLD_PARTITIONS):
        store = root / "state" / "0" / str(partition)
        (store / "SSTs").mkdir(parents=True)
        for version in range(1, versions + 1):
            (store / f"{version}.changelog").write_bytes(b"x")
            if version % SNAPSHOT_EVERY == 0:
                table = f"{version:06d}-{partition:012d}.sst"
                (store / "SSTs" / table).write_bytes(b"x")
                (store / f"{version}.zip").write_bytes(_snapshot(table))


def _snapshot(table: str) -> bytes:
    named = {"localFileName": "000001.sst", "dfsSstFileName": table, "sizeBytes": 1}
    member = "v1\n" + json.dumps({"sstFiles": [named], "numKeys": 1})
    data = BytesIO()
    with zipfile.ZipFile(data, "w") as archive:
        archive.writestr("metadata", member)
    return data.getvalue()


def look(root: Path, *, explain: bool) -> None:
    """Plan or clean in this process, and print what it took."""
    Path("/proc/self/clear_refs").write_text("5")  # the peak is that of now
    before_mb = _peak_mb()
    began_s = time.perf_counter()
    total = clean(str(root), None, 0, SystemClock(), explain=explain).total
    spent_s = time.perf_counter() - began_s
    print(json.dumps([total.files, _peak_mb() - before_mb, spent_s]))


def _peak_mb() -> float:
    """Return the most memory that this process has had since its peak was reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(each for each in lines if each.startswith("VmHWM")).split()[1]) / 1e3


def measure(root: Path, *, explain: bool) -> tuple[int, float, float]:
    """Return files, MB and seconds of a fresh process."""
    verb = "plan" if explain else "clean"
    command = [sys.executable, "-m", "bench.clean_checkpoint", str(root), verb]
    reported = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    files, size_mb, spent_s = json.loads(reported)
    return files, size_mb, spent_s


def main() -> list[Row]:
    rows = []
    for size in SIZES:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "checkpoint"
            make(root, size)
            count = sum(1 for each in root.rglob("*") if each.is_file())
            planned, plan_mb, plan_s = measure(root, explain=True)
            cleaned, clean_mb, clean_s = measure(root, explain=False)
            if planned != cleaned or sum(1 for _ in root.rglob("*.changelog")) == 0:
                raise AssertionError(f"{planned:,} files were planned, {cleaned:,} deleted")
            planning = f"plan {plan_s:.1f} s, {plan_mb:.0f} MB"
            cleaning = f"cleaning {clean_s:.1f} s, {clean_mb:.0f} MB"
            print(f"{cleaned:,} of {count:,} files go: {planning}; {cleaning}")
            name = f"clean of {size:,} files"
            at_most = PLAN_S_MAX if size == max(SIZES) else None
            rows.append(Row(f"{name}, plan", plan_s, "s", at_most=at_most))
            rows.append(Row(f"{name}, plan, memory", plan_mb, "MB"))
            rows.append(Row(f"{name}, plan and delete", clean_s, "s"))
            rows.append(Row(f"{name}, plan and delete, memory", clean_mb, "MB"))
    return rows


if __name__ == "__main__":
    if sys.argv[1:]:
        look(Path(sys.argv[1]), explain=sys.argv[2] == "plan")
    else:
        main()
