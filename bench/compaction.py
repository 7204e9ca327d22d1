"""What it takes to put a gigabyte of small files together: time and memory.

    python -m bench.compaction

One process writes files of about a megabyte anew as files of 128 MB, on local disk, as `ashore
compact` and a running job do: it reads and compares each of them. The memory is the highest
resident set of that process, and what it grew by after its imports.
"""

import hashlib
import io
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ashore.log.files import BatchPlace, DataFile, Role, TableCommit, Target
from ashore.log.names import SliceName
from ashore.log.plan_compact import CompactRule, ListedFile, plan_groups
from ashore.log.positions import BatchTime
from ashore.storage.base import Storage
from ashore.storage.open import LakeAddress, open_storage
from ashore.topics.write.batch import Order
from ashore.topics.write.rewrite import rewrite_group
from bench.table import Row

NAME, TABLE = SliceName("bench", "main"), "ods.events"
TARGET = Target(TABLE, Role.MAIN, "", (), "id BIGINT, text STRING", "parquet")
RULE = CompactRule(128_000_000, 10)
FILES, ROWS = 1_000, 2_000
TEXT_BYTES = 512
GROWTH_MB_MAX = 600.0


def make_file(random: np.random.Generator, number: int) -> bytes:
    """Return a file whose bytes are mostly noise, which no compression shortens."""
    data = random.integers(0, 256, ROWS * TEXT_BYTES, np.uint8).tobytes()
    texts = [data[at : at + TEXT_BYTES].hex() for at in range(0, len(data), TEXT_BYTES)]
    ids = pa.array(range(number * ROWS, (number + 1) * ROWS), pa.int64())
    buffer = io.BytesIO()
    pq.write_table(pa.table({"id": ids, "text": texts}), buffer, compression="zstd")
    return buffer.getvalue()


def fill(storage: Storage) -> Iterator[ListedFile]:
    random, commit = np.random.default_rng(7), TableCommit(TABLE, "uuid", 0, 0, 1)
    for number in range(FILES):
        data = make_file(random, number)
        checksum = hashlib.blake2b(data, digest_size=8).hexdigest()
        file = DataFile(0, 0, f"{number:016x}", ROWS, len(data), checksum, (), None, None)
        place = BatchPlace(NAME, 1, number).place(file, TARGET)
        storage.create(place.final, data)
        yield ListedFile(place.final, TARGET, file, (), commit)


def compact(directory: str) -> dict[str, float]:
    """Fill a table and write it anew, in this process."""
    storage = open_storage(f"file://{directory}")
    listed = list(fill(storage))
    before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    order = Order(LakeAddress(f"file://{directory}"), NAME, 1, FILES, BatchTime(0))
    seconds = []
    for task, group in enumerate(plan_groups(listed, RULE)):
        began_s = time.perf_counter()
        rewrite_group(order, storage, task, group)
        seconds.append(time.perf_counter() - began_s)
    after_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "seconds": sum(seconds),
        "longest": max(seconds),
        "files": len(seconds),
        "bytes": sum(each.file.size_bytes for each in listed),
        "highest_mb": after_kb / 1024,
        "grown_mb": (after_kb - before_kb) / 1024,
    }


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        command = [sys.executable, "-m", "bench.compaction", directory]
        root = Path(__file__).parents[1]
        done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    megabytes = found["bytes"] / 1e6
    return [
        Row(f"{FILES:,} files of {megabytes / FILES:.1f} MB", found["seconds"], "s"),
        Row("of it, the longest file of 128 MB", found["longest"], "s"),
        Row("memory, highest", found["highest_mb"], "MB"),
        Row("memory, grown by", found["grown_mb"], "MB", at_most=GROWTH_MB_MAX),
    ]


if __name__ == "__main__":
    if len(sys.argv) > 1:
        print(json.dumps(compact(sys.argv[1])))
    else:
        for row in main():
            print(row.question, f"{row.figure:.3g}", row.unit, row.aim)
