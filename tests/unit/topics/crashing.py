"""Tasks whose decoder ends their process at some records. Workers import this module."""

import os
import signal
from dataclasses import dataclass

from ashore.log.positions import ShardRange, StreamShard
from ashore.topics.read.source import Record
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.write_task import write_task
from ashore_lab.testing import fetched_batch


@dataclass(frozen=True)
class Split:
    order: BatchOrder
    ranges: tuple[ShardRange, ...]
    records: dict[tuple[str, int], bytes]  # what is not there is a hole
    dies_anyway: bool = False


def work(split: Split) -> TaskResult:
    found = []
    for each in split.ranges:
        offsets = range(each.offsets.start, each.offsets.end)
        places = [(each.key.shard, offset) for offset in offsets]
        records = [
            Record(offset, split.order.time.now_ms, None, split.records[shard, offset])
            for shard, offset in places
            if (shard, offset) in split.records
        ]
        is_fatal = any(record.value == b"die" for record in records)
        if split.dies_anyway or (is_fatal and split.order.is_decoded):
            os.kill(os.getpid(), signal.SIGSEGV)
        if records:
            found.append(fetched_batch(StreamShard(each.key.stream, each.key.shard), records))
    result = write_task(split.order, split.order.lake.open(), 0, found)
    return result.having_read(split.ranges)
