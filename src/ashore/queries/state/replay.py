"""How long a restart takes to load state, as was measured or estimated.

What it is: rates, and the formulas over them.
What it promises: pure. The rates of changelogs of RocksDB, and what a file of changes costs, were
measured by `bench/checkpoints` on HDFS, on two cores beside one DataNode, with 0.1 to 5 million
keys. The others were measured by `bench/snapshot_load` with a thousand to a million keys on a local
disk whose files were in its cache, two stores at a time. There a file of changes costs nearly
nothing, and a load of many small ones is expected too slow. A network is slower.
"""

from collections.abc import Mapping
from dataclasses import dataclass

REPLAY_BYTES_PER_S = 2.5e6  # of changelogs, a core; with each record looked up to be counted
REPLAY_FILE_S = 0.02  # for each of them besides, on a core


@dataclass(frozen=True, slots=True)
class LoadRate:
    """What one core takes to load stores of a provider."""

    store_s: float  # for each store that begins with a snapshot
    snapshot_bytes_per_s: float
    change_bytes_per_s: float
    change_file_s: float


LOAD_RATES: Mapping[str, LoadRate] = {
    "RocksDBStateStoreProvider": LoadRate(0.17, 50e6, REPLAY_BYTES_PER_S, REPLAY_FILE_S),
    "HDFSBackedStateStoreProvider": LoadRate(0.01, 5e6, 3.2e6, REPLAY_FILE_S),
}


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """What a restore of one store reads."""

    snapshot_bytes: int | None  # with its tables; None: it begins empty
    change_bytes: int
    changes: int


def replay_s(size_bytes: float, files: int) -> float:
    """Return how many seconds one core takes for changelogs of RocksDB."""
    return size_bytes / REPLAY_BYTES_PER_S + files * REPLAY_FILE_S


def restore_s(provider: str, files: StoreFiles) -> float | None:
    """Return how many seconds one core takes for a store; None for an unknown provider."""
    rate = LOAD_RATES.get(provider)
    if rate is None:
        return None
    spent_s = files.change_bytes / rate.change_bytes_per_s + files.changes * rate.change_file_s
    if files.snapshot_bytes is not None:
        spent_s += rate.store_s + files.snapshot_bytes / rate.snapshot_bytes_per_s
    return spent_s
