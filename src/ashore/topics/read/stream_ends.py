"""Where a batch of the streaming source `ashore` ends: the JSON that Spark keeps in a checkpoint.

What it is: `StreamEnd`, for each topic its id, and for each topic partition the next offset, the
leader epoch that reported it, and where reading began if the end before does not say so.
What it promises: pure. What is written parses to the same value, and equal values are equal texts:
by the text Spark decides whether there is anything new. An end of Spark's own Kafka source is read
too, so that its checkpoints continue; any other text raises ValueError.

    {"ashore": 1, "topics": {"clicks": {"id": "OpF...", "next": {"0": 3}, "epochs": {"0": 7}}}}
    {"clicks": {"0": 3}}
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from ashore.log.positions import StreamShard

FORM = 1  # of the JSON
_FORM, _TOPICS = "ashore", "topics"
_ID, _NEXT, _EPOCHS, _FIRST = "id", "next", "epochs", "first"

Offsets = Mapping[str, int]  # by topic partition


WAITS_FOR = "waitsFor"  # beside an end in the progress of a query; no end has it


@dataclass(frozen=True, slots=True)
class TopicEnd:
    """Where a batch ends in one topic.

    Arguments:
        topic_id: changes when the topic is created again; empty: not known.
        next: the offset that comes next.
        epochs: of the leaders that reported these offsets, where they say it.
        first: where reading began, of partitions of which the end before does not say it.

    """

    topic_id: str
    next: Offsets
    epochs: Offsets = field(default_factory=dict)
    first: Offsets = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StreamEnd:
    """Where a batch ends, by topic."""

    topics: Mapping[str, TopicEnd] = field(default_factory=dict)

    @classmethod
    def parse(cls, value: object) -> "StreamEnd":
        """Return what a JSON value says. Raises ValueError."""
        if not isinstance(value, dict):
            raise ValueError("expected the end of a stream")  # noqa: TRY004 - of a document
        if not is_stream_end(value):
            return cls(
                {topic: TopicEnd("", _parse_offsets(topic, value[topic])) for topic in value}
            )
        if value.keys() != {_FORM, _TOPICS}:
            raise ValueError("the end of a stream has other keys")
        if value[_FORM] != FORM:
            raise ValueError(f"form {value[_FORM]!r} of an end is not supported, only {FORM}")
        topics = value[_TOPICS]
        if not isinstance(topics, dict):
            raise ValueError("expected an end for each topic")  # noqa: TRY004 - of a document
        return cls({topic: _parse_topic(topic, found) for topic, found in topics.items()})

    def to_json(self) -> dict[str, object]:
        """Return the JSON value, its keys sorted."""
        topics = {topic: _write_topic(self.topics[topic]) for topic in sorted(self.topics)}
        return {_FORM: FORM, _TOPICS: topics}

    def shards(self) -> Iterator[tuple[StreamShard, int]]:
        """Yield each topic partition with the offset that comes next."""
        for topic, end in self.topics.items():
            for shard, offset in end.next.items():
                yield StreamShard(topic, shard), offset

    def next_of(self, shard: StreamShard) -> int | None:
        """Return the offset that comes next; None: nothing of the partition was read."""
        end = self.topics.get(shard.stream)
        return None if end is None else end.next.get(shard.shard)

    def epoch_of(self, shard: StreamShard) -> int | None:
        """Return the leader epoch that reported the offset; None: not known."""
        end = self.topics.get(shard.stream)
        return None if end is None else end.epochs.get(shard.shard)

    def first_of(self, shard: StreamShard) -> int | None:
        """Return where reading began; None: where the end before says."""
        end = self.topics.get(shard.stream)
        return None if end is None else end.first.get(shard.shard)


def is_stream_end(value: Mapping[str, object]) -> bool:
    """Return whether a JSON object is an end of this source, of whatever form, or of another."""
    return type(value.get(_FORM)) is int


def _write_topic(end: TopicEnd) -> dict[str, object]:
    parts = {_NEXT: end.next, _EPOCHS: end.epochs, _FIRST: end.first}
    written = {name: _sorted(part) for name, part in parts.items() if part or name == _NEXT}
    return {_ID: end.topic_id, **written}


def _sorted(offsets: Offsets) -> dict[str, int]:
    return {shard: offsets[shard] for shard in sorted(offsets, key=lambda each: (len(each), each))}


def _parse_topic(topic: str, value: object) -> TopicEnd:
    known = {_ID, _NEXT, _EPOCHS, _FIRST}
    if not isinstance(value, dict) or not {_ID, _NEXT} <= value.keys() <= known:
        raise ValueError(f"the end of {topic} has other keys")
    if type(value[_ID]) is not str:
        raise ValueError(f"the id of {topic} is not a string")
    parts = [_parse_offsets(topic, value.get(name, {})) for name in (_NEXT, _EPOCHS, _FIRST)]
    if not (parts[1].keys() <= parts[0].keys() and parts[2].keys() <= parts[0].keys()):
        raise ValueError(f"{topic} has an epoch or a first offset of a partition without an end")
    return TopicEnd(value[_ID], *parts)


def _parse_offsets(topic: str, value: object) -> dict[str, int]:
    if not isinstance(value, dict):
        raise ValueError(f"the end of {topic} has no offsets")  # noqa: TRY004 - of a document
    for shard, offset in value.items():
        if type(offset) is not int or offset < 0 or not (shard.isascii() and shard.isdecimal()):
            raise ValueError(f"the end of {topic} has {offset!r} for {topic}/{shard}")
    return dict(value)
