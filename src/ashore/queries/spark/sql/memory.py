"""A batch of a query for which Spark ran out of memory: what it was reading.

What it is: `out_of_memory`, which reads the batch again by the reader of landing jobs: unlike
Spark's source it has limits.
What it promises: names offsets only where a record, or a batch of Kafka, exceeds the job's limits.
"""

import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from subprocess import Popen, TimeoutExpired

from ashore.errors import AshoreError, BatchFailed, QueryRefused, RecordsTooLarge
from ashore.log.names import SliceName
from ashore.log.positions import ShardRange, StreamShard
from ashore.topics.read.limits import refused_range
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.causes import JVM_ENDED, JVM_GONE, text_of
from ashore.topics.run.spark.internals.jvm import process_of_jvm

# What has no room for a record says this, and not what lacks threads, classes or mapped files:
# that may pass, and no batch is refused for it.
SIGN = re.compile(
    r"java\.lang\.OutOfMemoryError(?!: (?:unable to create|Metaspace|Compressed class|Map failed))"
)
EXIT_CODE = 52  # of a JVM in which a task has found no memory: Spark's SparkExitCode.OOM
ENDS_WITHIN_S = 10.0


def out_of_memory(
    error: BaseException,
    name: SliceName,
    kafka: KafkaAddress,
    ranges: Iterable[ShardRange],
    find_jvm: Callable[[], Popen[bytes] | None] = process_of_jvm,
) -> AshoreError | None:
    """Return why a batch has failed whose error is that memory ran out; None: it is another one.

    `ranges`: of the batch. `find_jvm`: returns the process of Spark; None: another one started it.
    """
    if not _is_of_memory(error, find_jvm()):
        return None
    read = list(ranges)
    with suppress(AshoreError):  # it is about memory, whatever else there is
        for each in read:
            try:
                _read(kafka, each)
            except RecordsTooLarge as found:
                shard, offsets = refused_range(found)
                return RecordsTooLarge(
                    f"{name}: Spark ran out of memory while it read {shard.stream}/{shard.shard}: "
                    f"offsets {offsets.start} to {offsets.end - 1} exceed the limits of the job",
                    hint="raise spark.driver.memory, with a cluster spark.executor.memory, in "
                    "`spark.conf`; or write to another table from later offsets: a query cannot "
                    "skip any",
                    **found.fields,
                )
    places = ", ".join(f"{each.key.stream}/{each.key.shard} {each.offsets}" for each in read)
    return QueryRefused(
        f"{name}: Spark ran out of memory while it read {places}",
        hint="raise spark.driver.memory, with a cluster spark.executor.memory, in `spark.conf`; or "
        "lower `batch.max_records`",
    )


def _is_of_memory(error: BaseException, process: Popen[bytes] | None) -> bool:
    """Return whether memory ran out: by what Spark says, or by how its JVM has ended since then.

    A JVM that was killed, or has crashed, ends with another code: its batch is tried again.
    """
    chain: list[BaseException] = [error]
    while (before := chain[-1].__cause__ or chain[-1].__context__) is not None:
        chain.append(before)
    texts = [text_of(each) for each in chain]
    if any(SIGN.search(text) for text in texts):
        return True
    is_gone = JVM_ENDED in texts or any(isinstance(each, JVM_GONE) for each in chain)
    if process is None or not is_gone:
        return False
    with suppress(TimeoutExpired):
        return bool(process.wait(ENDS_WITHIN_S) == EXIT_CODE)
    return False


def no_answer(name: SliceName, error: Exception, batch: BaseException | None) -> AshoreError:
    """Return why Spark answers no more: what its batch has found out, where it has.

    A JVM ends where memory runs out. `error`: of the connection; `batch`: of the batch under way.
    """
    if isinstance(batch, AshoreError):
        return batch
    return BatchFailed(f"{name}: Spark is not responding: {error}")


def _read(kafka: KafkaAddress, what: ShardRange) -> None:
    for _ in kafka.read({StreamShard(what.key.stream, what.key.shard): what.offsets}):
        pass
