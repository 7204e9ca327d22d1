"""A checkpoint that is older than its table: its next batches, cut as the log says.

What it is: what the landing log knows of batches that Spark has forgotten, and the offsets of such
a batch, written for Spark as it would have written them.
What it promises: a batch that runs again reads what it read then, so that the state is what it was;
its rows are in the table. Nothing in the checkpoint is changed or removed, only added.
What it must not know: how a query is run.
"""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.landing.log_reader import read_history
from ashore.protocol import names
from ashore.protocol.entries import Prepare
from ashore.protocol.names import SliceName
from ashore.protocol.positions import ShardRange
from ashore.spark.sql.checkpoint import Checkpoint
from ashore.spark.sql.ranges import source_of
from ashore.storage.base import Storage

_HINT = "bring a newer checkpoint back"


@dataclass(frozen=True, slots=True)
class PastBatch:
    """A batch of a query, as the log tells of it."""

    batch_id: int
    lineage: str
    now_ms: int
    ranges: tuple[ShardRange, ...]


def read_past(storage: Storage, name: SliceName, first: int) -> dict[int, PastBatch]:
    """Return the batches from `first` on that the log of a query holds. Reads the whole log."""
    found = {}
    for entry in read_history(storage, name):
        body = entry.body
        if isinstance(body, Prepare) and body.query and body.query.batch_id >= first:
            ranges = tuple(ShardRange(read.key, read.offsets) for read in body.shards)
            past = PastBatch(body.query.batch_id, body.query.lineage, body.now_ms, ranges)
            found[past.batch_id] = past
    return found


def write_offsets(checkpoint: Checkpoint, name: SliceName, batch: PastBatch) -> None:
    """Plan a batch in a checkpoint whose last batch is the one before, and done.

    Raises CheckpointUnfit, StorageError. If interrupted: the batch is planned, or it is not.
    """
    before = batch.batch_id - 1
    try:
        settings, lines = _read_offsets(checkpoint, before)
        settings["batchWatermarkMs"] = _read_watermark(checkpoint, before)
    except (PathMissing, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"batch {batch.batch_id} cannot follow batch {before} of {checkpoint.uri}: {error}"
        raise CheckpointUnfit(text, hint=_HINT) from None
    settings["batchTimestampMs"] = batch.now_ms
    planned = [json.dumps(each, separators=(",", ":")) for each in _advance(lines, name, batch)]
    text = "\n".join(["v1", json.dumps(settings, separators=(",", ":")), *planned])
    checkpoint.storage.create(_path(checkpoint, "offsets", batch.batch_id), text.encode())


def _read_offsets(checkpoint: Checkpoint, batch_id: int) -> tuple[dict[str, object], list[object]]:
    text = checkpoint.storage.read(_path(checkpoint, "offsets", batch_id)).decode()
    version, settings, *lines = text.splitlines()
    if version != "v1":
        raise ValueError(f"version {version} is not known")
    return json.loads(settings), [json.loads(line) for line in lines]


def _read_watermark(checkpoint: Checkpoint, batch_id: int) -> int:
    """Return the watermark that a finished batch leaves to the next one."""
    text = checkpoint.storage.read(_path(checkpoint, "commits", batch_id)).decode()
    return int(json.loads(text.splitlines()[1])["nextBatchWatermarkMs"])


def _advance(lines: Sequence[object], name: SliceName, batch: PastBatch) -> list[object]:
    """Return the offsets of all sources after the batch. `lines`: those before it."""
    ends = {(each.key.source, each.key.stream, each.key.shard): each for each in batch.ranges}
    readings: Counter[str] = Counter()
    advanced: list[object] = []
    for line in lines:
        if not isinstance(line, dict):
            raise TypeError("a source has no offsets")
        topics: dict[str, dict[str, int]] = {}
        for topic, shards in line.items():
            readings[topic] += 1
            source, after = source_of(name, readings[topic]), dict(shards)
            for place in [each for each in ends if each[:2] == (source, topic)]:
                after[place[2]] = ends.pop(place).offsets.end
            topics[topic] = after
        advanced.append(topics)
    if ends:
        raise CheckpointUnfit(
            f"batch {batch.batch_id} read {next(iter(ends.values()))}, a topic that the batch "
            "before did not read",
            hint=_HINT,
        )
    return advanced


def _path(checkpoint: Checkpoint, kind: str, batch_id: int) -> str:
    return names.join(checkpoint.path, kind, str(batch_id))
