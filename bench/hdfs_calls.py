"""What each storage call on HDFS costs, and how fast files are written and read.

    python -m bench.hdfs_calls

A small real HDFS on this machine: two NameNodes behind proxies, two DataNodes, two replicas, all
on one disk. The local disk stands beside it for comparison.
"""

import statistics
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ashore.base.unique import unique
from ashore.storage import Storage, open_storage
from ashore.storage.base import Staged
from ashore_lab.services.hdfs import Hdfs
from bench.table import Row

ROUNDS = 60
THREADS = 32
SMALL_FILES = 64
LARGE_BYTES = 256_000_000
PIECE = bytes(4_000_000)


def write(storage: Storage, path: str, pieces: list[bytes]) -> None:
    writer = storage.open_write(path)
    for piece in pieces:
        writer.write(piece)
    writer.close()


def measure_ms(call: Callable[[int], object]) -> tuple[float, float]:
    """Return the median and the highest of some calls."""
    passed = []
    for number in range(ROUNDS):
        began_s = time.perf_counter()
        call(number)
        passed.append((time.perf_counter() - began_s) * 1000)
    return statistics.median(passed), max(passed)


def measure_calls(storage: Storage) -> dict[str, tuple[float, float]]:
    found = {"create of 2 KB": measure_ms(lambda n: storage.create(f"log/{n}", bytes(2_000)))}
    found["write of 100 KB"] = measure_ms(lambda n: write(storage, f"s/{n}", [bytes(100_000)]))
    found["stat"] = measure_ms(lambda n: storage.stat(f"s/{n}"))
    found["move, new directory"] = measure_ms(
        lambda n: storage.publish(Staged(f"s/{n}"), f"t/{n}/a")
    )
    found["move, known directory"] = measure_ms(
        lambda n: storage.publish(Staged(f"t/{n}/a"), f"s/{n}")
    )
    found["read of 100 KB"] = measure_ms(lambda n: storage.read(f"s/{n}"))
    found["list of 60"] = measure_ms(lambda _: storage.list("s"))
    found["delete"] = measure_ms(lambda n: storage.delete(f"s/{n}"))
    return found


def measure_files(storage: Storage) -> dict[str, float]:
    began_s = time.perf_counter()
    with ThreadPoolExecutor(THREADS) as pool:
        list(pool.map(lambda n: write(storage, f"p/{n}", [bytes(100_000)]), range(SMALL_FILES)))
    small_s = time.perf_counter() - began_s
    pieces = [PIECE] * (LARGE_BYTES // len(PIECE))
    began_s = time.perf_counter()
    write(storage, "large", pieces)
    write_s = time.perf_counter() - began_s
    began_s = time.perf_counter()
    for start in range(0, LARGE_BYTES, 16_000_000):
        storage.read("large", start, 16_000_000)
    read_s = time.perf_counter() - began_s
    return {
        f"{SMALL_FILES} files of 100 KB, {THREADS} threads, s": small_s,
        "write of one large file, MB/s": LARGE_BYTES / 1e6 / write_s,
        "read of it by 16 MB, MB/s": LARGE_BYTES / 1e6 / read_s,
    }


def report(name: str, open_lake: Callable[[], Storage]) -> dict[str, float]:
    """Show the figures of a storage. Return the median of each call in ms."""
    print(f"\n{name}")
    storage = open_lake()
    storage.create("warm", b"")
    calls = measure_calls(storage)
    for call, (median, highest) in calls.items():
        print(f"  {call:42} {median:8.1f} ms, at most {highest:6.1f}")
    first = measure_ms(lambda _: open_lake().stat("warm"))
    print(f"  {'open, and the first call':42} {first[0]:8.1f} ms, at most {first[1]:6.1f}")
    for what, number in measure_files(storage).items():
        print(f"  {what:42} {number:8.1f}")
    return {call: median for call, (median, _) in calls.items()}


def main() -> list[Row]:
    with tempfile.TemporaryDirectory() as directory:
        local = f"file://{directory}/lake"
        report("local disk", lambda: open_storage(local))
        with Hdfs(Path(directory) / "hdfs") as cluster:
            found = {}
            for durability in ("close", "disk"):
                options = {**cluster.client_options(), "durability": durability}
                uri = f"{cluster.uri}/{unique()}"
                found[durability] = report(
                    f"HDFS, durability {durability}",
                    lambda uri=uri, options=options: open_storage(uri, options=options),
                )
    close, disk = found["close"], found["disk"]
    create, write_, move = "create of 2 KB", "write of 100 KB", "move, known directory"
    return [
        Row("HDFS, create of a log entry v. a stat", close[create] / close["stat"]),
        Row("HDFS, a file of 100 KB v. a stat", close[write_] / close["stat"]),
        Row("HDFS, a move v. a stat", close[move] / close["stat"]),
        Row("HDFS, a file of 100 KB, durability disk v. close", disk[write_] / close[write_]),
    ]


if __name__ == "__main__":
    main()
