"""Where batches end in topics, and whether they follow each other.

What it promises: pure. Sources that are not Kafka have no ends here.
"""

from collections.abc import Mapping
from itertools import pairwise

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import KafkaEnd, OffsetsFile, parse_kafka


def find_break(offsets: Mapping[int, OffsetsFile]) -> int | None:
    """Return the first batch whose time and offsets both go back; None: there is none."""
    for before, after in pairwise(sorted(offsets)):
        first, second = offsets[before], offsets[after]
        is_earlier = (
            first.settings is not None
            and second.settings is not None
            and second.settings.timestamp_ms < first.settings.timestamp_ms
        )
        if after == before + 1 and is_earlier and _goes_back(first, second):
            return after
    return None


def _goes_back(first: OffsetsFile, second: OffsetsFile) -> bool:
    ends = {each.source: kafka_end(each.end) for each in second.sources}
    for each in first.sources:
        then, now = kafka_end(each.end), ends.get(each.source)
        for topic, partitions in (then or {}).items():
            later = (now or {}).get(topic, {})
            if any(later.get(name, end) < end for name, end in partitions.items()):
                return True
    return False


def topic_ends(offsets: OffsetsFile) -> dict[str, Mapping[str, int]]:
    """Return where a batch ends in topics, by topic and partition. Other sources have none."""
    found: dict[str, Mapping[str, int]] = {}
    for each in offsets.sources:
        found.update(kafka_end(each.end) or {})
    return found


def kafka_end(end: str | None) -> KafkaEnd | None:
    """Return what the end of a source says, if it is Kafka's."""
    if end is None:
        return None
    try:
        return parse_kafka(end, "")
    except CheckpointUnfit:
        return None
