"""What the batches of a query were like, as the files of its checkpoint tell.

What it is: sizes and times out of a few listings, and what the newest file of `offsets` says.
What it promises: reads only; at most SAMPLED partitions of each operator are looked at, so that a
start does not take longer for a large state.
What it must not know: what is done with it.

    offsets/<batch>                                       written when a batch begins
    state/<operator>/<partition>[/<store>]/<n>.changelog  what a batch changed
                                          /<n>.zip        a base, which names files of SSTs
                                          /SSTs/          added by bases, and kept by later ones
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.protocol import names
from ashore.spark.sql.tuning import Batches
from ashore.storage.base import FileStat, Storage

SAMPLED = 4
NEWEST = 20  # gaps between batches: what follows a backlog, or a new interval, soon counts
_TABLES = "SSTs"


@dataclass(frozen=True, slots=True)
class _Store:
    """What is known of one store."""

    changelog_bytes: float  # the median: a first batch is often unlike the others
    base_bytes: float


def read_batches(checkpoint: Checkpoint) -> Batches | None:
    """Return what the last batches were like; None where they do not tell. Raises StorageError."""
    storage, path = checkpoint.storage, checkpoint.path
    begun_ms = sorted(
        each.modified_ms
        for each in storage.list(names.join(path, "offsets"))
        if names.leaf(each.path).isdigit()
    )[-NEWEST - 1 :]
    gaps_ms = [after - before for before, after in pairwise(begun_ms)]
    operators = [each.path for each in storage.list(names.join(path, "state"))]
    found = [each for operator in operators for each in _read_operator(storage, operator)]
    if not found or not gaps_ms or median(gaps_ms) <= 0:
        return None
    return Batches(
        interval_s=median(gaps_ms) / 1000,
        changelog_bytes=sum(each.changelog_bytes * count for each, count in found),
        base_bytes=sum(each.base_bytes * count for each, count in found),
        stores=round(sum(count for _, count in found)),
    )


def read_partitions(checkpoint: Checkpoint) -> int | None:
    """Return into how many partitions the state is cut. Raises StorageError.

    None where nothing was begun, and where the file is not as Spark writes it: what is wrong with
    the checkpoint its query tells when it starts.
    """
    listed = checkpoint.storage.list(names.join(checkpoint.path, "offsets"))
    begun = [
        int(name) for name in map(names.leaf, (each.path for each in listed)) if name.isdigit()
    ]
    if not begun:
        return None
    text = checkpoint.storage.read(names.join(checkpoint.path, "offsets", str(max(begun))))
    try:
        _, settings, *_ = text.decode().splitlines()
        return int(json.loads(settings)["conf"]["spark.sql.shuffle.partitions"])
    except (ValueError, KeyError, TypeError):
        return None


def _read_operator(storage: Storage, operator: str) -> Iterator[tuple[_Store, float]]:
    """Yield the stores that were looked at, and how many each stands for."""
    partitions = sorted(
        each.path for each in storage.list(operator) if names.leaf(each.path).isdigit()
    )
    sampled = partitions[:: max(1, len(partitions) // SAMPLED)]
    for partition in sampled:
        for files in _list_stores(storage, partition):
            yield _measure(files), len(partitions) / len(sampled)


def _list_stores(storage: Storage, partition: str) -> Iterator[Sequence[FileStat]]:
    """Yield the files of each store of a partition: it has one of its own, or some with names."""
    found = storage.list(partition)
    if any(not each.is_directory for each in found):
        yield [*found, *storage.list(names.join(partition, _TABLES))]
        return
    for store in found:
        if names.is_visible(names.leaf(store.path)):
            yield [*storage.list(store.path), *storage.list(names.join(store.path, _TABLES))]


def _measure(files: Sequence[FileStat]) -> _Store:
    changelogs = [each.size for each in files if each.path.endswith(".changelog")]
    bases = sorted(each.modified_ms for each in files if each.path.endswith(".zip"))
    tables = [each for each in files if each.path.endswith(".sst")]
    rounds = len(bases) - 1
    if rounds > 0:
        # Tables that came with the oldest base hold what was there before it.
        tables = [each for each in tables if each.modified_ms > bases[0]]
    added = sum(each.size for each in tables)
    return _Store(median(changelogs or [0]), added / max(rounds, 1))
