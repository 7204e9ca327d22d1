"""What a worker process does: one split of a batch, or the probe.

What it promises: what it returns and raises can be pickled. It imports no Spark, and nothing of the
driver's side.
"""

import gc
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.log.positions import ShardRange, StreamShard
from ashore.storage.open import LakeAddress
from ashore.topics.read.reading import KafkaAddress, ReadReport
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.task import write_probes, write_task


@dataclass(frozen=True, slots=True)
class LandSplit:
    """Land some ranges of a batch."""

    order: BatchOrder
    kafka: KafkaAddress
    task: int
    ranges: tuple[ShardRange, ...]


@dataclass(frozen=True, slots=True)
class Probe:
    """Write files as tasks do: content by path."""

    lake: LakeAddress
    files: Mapping[str, bytes]


Asked = LandSplit | Probe


def work(asked: Asked) -> TaskResult | None:
    """Do it. Raises what reading, decoding and writing raise.

    If interrupted: in-progress files remain; no entry names them.
    """
    match asked:
        case LandSplit():
            return _land(asked)
        case Probe():
            write_probes(asked.lake.open(), asked.files)
            return None


def _land(split: LandSplit) -> TaskResult:
    ranges = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in split.ranges}
    gc.disable()  # it would look at every message again and again, and find nothing
    try:
        order, report = split.order, ReadReport()
        records = split.kafka.read(ranges, order.with_headers, order.ids, report)
        result = write_task(order, order.lake.open(), split.task, records)
        return result.having_read(split.ranges, report.counts, report.by_id)
    finally:
        gc.enable()
