"""Step 2 in this process: what Spark's tasks do, without Spark.

What it is: a BatchRunner that hands records of a source to `write_task`, the very function that
executors run.
What it promises: real decoding, real files, through the storage that it is given.
"""

from collections.abc import Iterable, Iterator, Mapping

import pyarrow as pa

from ashore.base.unique import Entropy
from ashore.errors import BatchFailed, StorageError, SyncFailed
from ashore.lab.testing import fetched_batch
from ashore.log.plan_batch import BatchPlan
from ashore.log.positions import ShardRange, StreamShard
from ashore.storage.base import Storage
from ashore.topics.loop.splits import plan_splits
from ashore.topics.read.base import Source
from ashore.topics.write.batch import BatchOrder, TaskResult
from ashore.topics.write.probe import write_probes
from ashore.topics.write.task import write_task


class TaskRunner:
    """The BatchRunner of one slice."""

    def __init__(self, source: Source, storage: Storage, entropy: Entropy) -> None:
        self._source = source
        self._storage = storage
        self._entropy = entropy

    def run(self, order: BatchOrder, plan: BatchPlan) -> list[TaskResult]:
        """See BatchRunner. Task after task, so that calls have the same number in every run."""
        try:
            return [
                write_task(
                    order, self._storage, number, self._fetch(ranges), self._entropy
                ).having_read(ranges)
                for number, ranges in enumerate(plan_splits(plan, dict(order.tables)))
            ]
        except SyncFailed:
            raise
        except StorageError as error:
            raise BatchFailed(f"batch {order.batch} failed: {error.message}") from error

    def probe(self, files: Mapping[str, bytes]) -> None:
        """See BatchRunner."""
        write_probes(self._storage, files)

    def cancel(self) -> None:
        """See BatchRunner. A batch in memory is over soon."""

    def _fetch(self, ranges: Iterable[ShardRange]) -> Iterator[pa.RecordBatch]:
        for asked in ranges:
            shard = StreamShard(asked.key.stream, asked.key.shard)
            found = list(self._source.read_again(shard, asked.offsets))
            if found:
                yield fetched_batch(shard, found)
