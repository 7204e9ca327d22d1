"""How long a restart takes to replay changelogs, as it was measured.

What it is: two rates, and the formula over them.
What it promises: pure. The rates were measured by `bench/checkpoints`, on two cores beside one
DataNode, with 0.1 to 5 million keys; the spread is wide, and a network is slower.
What it must not know: which changelogs there are.
"""

REPLAY_BYTES_PER_S = 2.5e6  # of changelogs, a core: each record is put, and looked up to be counted
REPLAY_FILE_S = 0.02  # for each of them besides, on a core


def replay_s(size_bytes: float, files: int) -> float:
    """Return how many seconds one core takes for changelogs of RocksDB."""
    return size_bytes / REPLAY_BYTES_PER_S + files * REPLAY_FILE_S
