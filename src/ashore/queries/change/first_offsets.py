"""Where topics begin that a query has never read, as a person says it.

What it is: `read_begins`, from what is typed, and `find_firsts`, the offset of each topic
partition.
What it promises: a topic of which nothing is said begins with the earliest record that Kafka has.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from ashore.errors import JobFileInvalid, StreamMissing
from ashore.log.positions import StreamShard
from ashore.queries.state.source_changes import Firsts
from ashore.topics.read.base import FirstOffset, Source

_BEGIN = re.compile(
    r"(?P<topic>[\w.-]+)(?:=(?P<policy>earliest|latest)|/(?P<partition>\d+)=(?P<offset>\d+))"
)
_ALL = ""  # of a policy: it is that of each partition
_HINT = "write clicks=latest, or clicks/0=1200 for each partition that begins elsewhere"

Begins = Mapping[str, Mapping[str, str]]
"""By topic, then by partition, or by `_ALL`: an offset, or a policy."""


def read_begins(typed: Sequence[str]) -> Begins:
    """Return what `clicks=latest` or `clicks/0=1200` say. Raises JobFileInvalid."""
    found: dict[str, dict[str, str]] = {}
    for text in typed:
        read = _BEGIN.fullmatch(text)
        if read is None:
            raise JobFileInvalid(f"--begin {text} names no offset of a topic", hint=_HINT)
        partition = _ALL if read["policy"] else str(int(read["partition"]))
        of_topic = found.setdefault(read["topic"], {})
        if partition in of_topic:
            raise JobFileInvalid(f"--begin {text}: it is said twice where it begins", hint=_HINT)
        of_topic[partition] = read["policy"] or read["offset"]
    return found


def find_firsts(source: Source, topics: Sequence[str], begins: Begins) -> Firsts:
    """Return the first offset of each partition of some topics.

    Raises StreamMissing, SourceError; JobFileInvalid where Kafka does not have such an offset.
    """
    streams = source.describe_streams(topics)
    missing = [each for each in topics if each not in streams]
    if missing:
        raise StreamMissing(f"topic {missing[0]} does not exist", hint="create it first")
    return {
        topic: _find_topic(source, topic, streams[topic].shards, begins.get(topic, {}))
        for topic in topics
    }


def require_used(begins: Begins, topics: Iterable[str]) -> None:
    """Raise JobFileInvalid where something is said of a topic that begins nowhere."""
    unused = sorted(set(begins) - set(topics))
    if unused:
        raise JobFileInvalid(
            f"--begin names {unused[0]}, and no query that is migrated reads it for the first time",
            hint="a topic that a query has read before continues where its log ends",
        )


def _find_topic(
    source: Source, topic: str, shards: Sequence[str], begins: Mapping[str, str]
) -> dict[str, int]:
    strange = sorted(set(begins) - {_ALL, *shards})
    if strange:
        raise JobFileInvalid(f"topic {topic} has no partition {strange[0]}", hint=_HINT)
    policy = FirstOffset(begins.get(_ALL, "earliest"))
    found = {each: source.resolve_first(StreamShard(topic, each), policy) for each in shards}
    wanted = {each: int(offset) for each, offset in begins.items() if each != _ALL}
    there = source.read_offsets([StreamShard(topic, each) for each in wanted])
    for shard, offsets in there.items():
        if not offsets.earliest <= wanted[shard.shard] <= offsets.end:
            raise JobFileInvalid(
                f"{shard} is to begin at offset {wanted[shard.shard]}; Kafka has the offsets "
                f"[{offsets.earliest}, {offsets.end})",
                hint=_HINT,
            )
    return {**found, **wanted}
