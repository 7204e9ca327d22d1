"""Measures of the batches of a query, from the files of its checkpoint.

What it is: sizes and times out of a few listings, and what the newest file of `offsets` says.
What it promises: reads only; at most SAMPLED partitions of each operator are looked at, so that a
start does not take longer for a large state.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ashore.errors import CheckpointUnfit
from ashore.queries.spark.sql.tuning import Batches
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointFile, list_partitions, list_stores
from ashore.queries.state.layout import BatchLog, StateKind, StatePath, TablePath

SAMPLED = 4
NEWEST = 20  # gaps between batches: what follows a backlog, or a new interval, soon counts


@dataclass(frozen=True, slots=True)
class _Store:
    """What is known of one store."""

    changelog_bytes: float  # the median: a first batch is often unlike the others
    snapshot_bytes: float


def read_batches(checkpoint: Checkpoint) -> Batches | None:
    """Return measures of the last batches; None if files do not show them. Raises StorageError."""
    begun = checkpoint.list_batches(BatchLog.OFFSETS).values()
    begun_ms = sorted(each.modified_ms for each in begun)[-NEWEST - 1 :]
    gaps_ms = [after - before for before, after in pairwise(begun_ms)]
    found = list(_read_stores(checkpoint))
    if not found or not gaps_ms or median(gaps_ms) <= 0:
        return None
    return Batches(
        interval_s=median(gaps_ms) / 1000,
        changelog_bytes=sum(each.changelog_bytes * count for each, count in found),
        snapshot_bytes=sum(each.snapshot_bytes * count for each, count in found),
        stores=round(sum(count for _, count in found)),
    )


def read_partitions(checkpoint: Checkpoint) -> int | None:
    """Return into how many partitions the state is cut. Raises StorageError.

    None where nothing was begun, and where the file is not as Spark writes it: what is wrong with
    the checkpoint its query reports when it starts.
    """
    begun = checkpoint.list_batches(BatchLog.OFFSETS)
    if not begun:
        return None
    try:
        settings = checkpoint.read_offsets(max(begun)).settings
    except CheckpointUnfit:
        return None
    return settings.partitions if settings else None


def _read_stores(checkpoint: Checkpoint) -> Iterator[tuple[_Store, float]]:
    """Yield the stores that were looked at, and how many each stands for."""
    for operator, partitions in list_partitions(checkpoint).items():
        sampled = partitions[:: max(1, len(partitions) // SAMPLED)]
        for partition in sampled:
            for files in list_stores(checkpoint, operator, partition).values():
                yield _measure(files), len(partitions) / len(sampled)


def _measure(files: Sequence[CheckpointFile]) -> _Store:
    changelogs = [each.size_bytes for each in files if _is(each, StateKind.CHANGELOG)]
    snapshots_ms = sorted(
        each.modified_ms for each in files if _is(each, StateKind.ROCKSDB_SNAPSHOT)
    )
    tables = [each for each in files if isinstance(each.of, TablePath)]
    rounds = len(snapshots_ms) - 1
    if rounds > 0:
        # Tables that came with the oldest snapshot hold what was there before it.
        tables = [each for each in tables if each.modified_ms > snapshots_ms[0]]
    added = sum(each.size_bytes for each in tables)
    return _Store(median(changelogs or [0]), added / max(rounds, 1))


def _is(file: CheckpointFile, kind: StateKind) -> bool:
    return isinstance(file.of, StatePath) and file.of.kind is kind
