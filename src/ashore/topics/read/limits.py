"""What a record, and a batch of Kafka when decompressed, may have.

What it is: the limits of a reading, and the error for what exceeds them.
What it promises: the defaults hold wherever a job file says nothing. The error names offsets.
"""

from dataclasses import dataclass

from ashore.errors import RecordsTooLarge
from ashore.log.positions import OffsetRange, StreamShard

MOST_BYTES = 1 << 30  # what Arrow and Kafka count in 31 bits is not reached


@dataclass(frozen=True, slots=True)
class ReadLimits:
    """What a reader refuses to hand out."""

    record_bytes: int = 64 << 20  # of key, value and headers of a record
    batch_bytes: int = 256 << 20  # that a batch of Kafka becomes when it is decompressed


DEFAULT_LIMITS = ReadLimits()
HARD_LIMITS = ReadLimits(MOST_BYTES, MOST_BYTES)


def records_too_large(
    shard: StreamShard, offsets: OffsetRange, limits: ReadLimits
) -> RecordsTooLarge:
    """Return the error for offsets that exceed `limits`."""
    place = f"{shard.stream}/{shard.shard}"
    what = (
        f"the record at offset {offsets.start} of {place}, or its batch when decompressed,"
        if offsets.size == 1
        else f"the batch of offsets {offsets.start} to {offsets.end - 1} of {place}"
    )
    return RecordsTooLarge(
        f"{what} exceeds the limits: a record may have {limits.record_bytes:,} bytes, a batch "
        f"{limits.batch_bytes:,} bytes when decompressed",
        hint="raise `limits` in the job file if the tasks have the memory; to continue without "
        f'them: ashore skip JOB.yaml {place} --to {offsets.end} --why "..."; to skip whatever '
        "is too large: `limits: {on_too_large: skip}`, each is recorded",
        stream=shard.stream,
        shard=shard.shard,
        start=offsets.start,
        end=offsets.end,
    )


def refused_range(error: RecordsTooLarge) -> tuple[StreamShard, OffsetRange]:
    """Return which offsets of which shard an error of `records_too_large` is about."""
    place, (start, end) = error.fields, (int(str(error.fields[each])) for each in ("start", "end"))
    return StreamShard(str(place["stream"]), str(place["shard"])), OffsetRange(start, end)
