"""How large records are from where reading continues.

What it is: `measure_records`, the bytes of an average record, from a few of them.
What it promises: reads at most RECORDS_MEASURED records of SHARDS_MEASURED partitions, within the
limits of landing jobs.
"""

from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from ashore.errors import RecordsTooLarge
from ashore.log.plan_batch import BYTES_UNKNOWN
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.limits import DEFAULT_LIMITS, refused_range
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.record_columns import record_sizes
from ashore.topics.read.source import Source

SHARDS_MEASURED = 4
RECORDS_MEASURED = 50  # of each shard
BYTES_MEASURED = 4_000_000  # then it is enough
LARGE_BYTES = DEFAULT_LIMITS.batch_bytes  # that something too large to be measured counts

ReadSizes = Callable[[StreamShard, OffsetRange], Iterator[int]]


def measure_records(
    source: Source, nexts: Mapping[StreamShard, int], read_sizes: ReadSizes
) -> float:
    """Return the bytes of an average record from where reading continues.

    `nexts`: the offset of each shard that is read next. `read_sizes`: yields the bytes of the
    records of a range, and raises RecordsTooLarge: what is too large counts as what it exceeds.
    Where nothing is there to be read yet, a record counts BYTES_UNKNOWN. Raises SourceError.
    """
    there = source.read_offsets(list(nexts)) if nexts else {}
    ahead = {
        shard: OffsetRange(max(nexts[shard], offsets.earliest), offsets.end)
        for shard, offsets in there.items()
        if offsets.end > max(nexts[shard], offsets.earliest)
    }
    longest = sorted(ahead, key=lambda shard: (-ahead[shard].size, shard.stream, shard.shard))
    count = size_bytes = 0
    for shard in longest[:SHARDS_MEASURED]:
        start, end = ahead[shard].start, ahead[shard].end
        some = OffsetRange(start, min(end, start + RECORDS_MEASURED))
        try:
            for each in islice(read_sizes(shard, some), RECORDS_MEASURED):
                count, size_bytes = count + 1, size_bytes + each
                if size_bytes >= BYTES_MEASURED:
                    break
        except RecordsTooLarge as error:
            records = refused_range(error)[1].size
            count += records
            size_bytes += LARGE_BYTES
        if size_bytes >= BYTES_MEASURED:
            break
    return size_bytes / count if count else BYTES_UNKNOWN


def read_sizes(kafka: KafkaAddress, shard: StreamShard, offsets: OffsetRange) -> Iterator[int]:
    """Yield the bytes of the records of a range, read within the limits of landing jobs.

    Raises RecordsTooLarge, SourceError.
    """
    for batch in kafka.read({shard: offsets}):
        yield from record_sizes(batch).tolist()
