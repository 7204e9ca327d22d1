"""What a worker process does: one split of a batch, or the probe.

What it promises: what it returns and raises can be pickled. It imports no Spark, and nothing of the
driver's side.
"""

import gc
from collections.abc import Callable, Mapping

from ashore.log.positions import ShardRange, StreamShard
from ashore.storage.open import LakeAddress
from ashore.topics.read.reading import KafkaAddress, ReadReport
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_probes, write_task

Task = Callable[[], TaskResult | None]  # a `partial` of one of the functions below


def work(task: Task) -> TaskResult | None:
    """Do it. Raises what reading, decoding and writing raise.

    If interrupted: in-progress files remain; no entry names them.
    """
    return task()


def probe(lake: LakeAddress, files: Mapping[str, bytes]) -> None:
    """Write files as tasks do: content by path."""
    write_probes(lake.open(), files)


def land_split(
    order: BatchOrder, kafka: KafkaAddress, task: int, split: tuple[ShardRange, ...]
) -> TaskResult:
    """Land some ranges of a batch."""
    ranges = {StreamShard(each.key.stream, each.key.shard): each.offsets for each in split}
    gc.disable()  # it would look at every message again and again, and find nothing
    try:
        report = ReadReport()
        records = kafka.read(ranges, order.with_headers, order.ids, report)
        result = write_task(order, order.lake.open(), task, records)
        return result.having_read(split, report.counts, report.by_id)
    finally:
        gc.enable()
