"""A checkpoint that is older than its table: its next batches, cut as the log says.

What it is: the offsets of a batch that the landing log knows and Spark has forgotten, written for
Spark as it would have written them.
What it promises: a batch that runs again reads what it read then, so that the state is what it was;
its rows are in the table. Nothing in the checkpoint is changed or removed, only added.
What it must not know: how a query is run.
"""

import json
from collections import Counter
from collections.abc import Sequence

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.errors import CheckpointUnfit, PathMissing
from ashore.protocol import names
from ashore.protocol.names import SliceName, query_source
from ashore.protocol.query_history import LandedBatch

_HINT = "bring a newer checkpoint back"


def write_offsets(checkpoint: Checkpoint, name: SliceName, batch: LandedBatch) -> None:
    """Plan a batch in a checkpoint whose last batch is the one before, and done.

    Raises CheckpointUnfit, StorageError. If interrupted: the batch is planned, or it is not.
    """
    number = batch.query.batch_id
    before = number - 1
    try:
        settings, lines = _read_offsets(checkpoint, before)
        settings["batchWatermarkMs"] = _read_watermark(checkpoint, before)
    except (PathMissing, ValueError, KeyError, TypeError, AttributeError) as error:
        text = f"batch {number} cannot follow batch {before} of {checkpoint.uri}: {error}"
        raise CheckpointUnfit(text, hint=_HINT) from None
    settings["batchTimestampMs"] = batch.body.now_ms
    planned = [json.dumps(each, separators=(",", ":")) for each in _advance(lines, name, batch)]
    text = "\n".join(["v1", json.dumps(settings, separators=(",", ":")), *planned])
    checkpoint.storage.create(_path(checkpoint, "offsets", number), text.encode())


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


def _advance(lines: Sequence[object], name: SliceName, batch: LandedBatch) -> list[object]:
    """Return the offsets of all sources after the batch. `lines`: those before it."""
    reads = batch.body.shards
    ends = {(read.key.source, read.key.stream, read.key.shard): read for read in reads}
    readings: Counter[str] = Counter()
    advanced: list[object] = []
    for line in lines:
        if not isinstance(line, dict):
            raise TypeError("a source has no offsets")
        topics: dict[str, dict[str, int]] = {}
        for topic, shards in line.items():
            readings[topic] += 1
            source, after = query_source(name, readings[topic]), dict(shards)
            for place in [each for each in ends if each[:2] == (source, topic)]:
                after[place[2]] = ends.pop(place).offsets.end
            topics[topic] = after
        advanced.append(topics)
    if ends:
        raise CheckpointUnfit(
            f"batch {batch.query.batch_id} read {next(iter(ends.values())).key}, a topic that the "
            "batch before did not read",
            hint=_HINT,
        )
    return advanced


def _path(checkpoint: Checkpoint, kind: str, batch_id: int) -> str:
    return names.join(checkpoint.path, kind, str(batch_id))
