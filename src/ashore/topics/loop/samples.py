"""Some of the newest records of a topic that have been read, to explain what a table shows of them.

What it is: `read_samples`; `find_respelled`, fields that are named nearly as columns are; and
`explain_times`, what the event times of records would be in another unit.
What it promises: one request for each topic, and no error: a source that does not answer gives no
samples. What is found is an explanation, never a decision.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from ashore.errors import OffsetsGone, OffsetsWentBack, SourceError
from ashore.log.fold import Fold, ShardState
from ashore.log.names import plain_source
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.source import Record, Source
from ashore.topics.route.event_columns import EventColumn

RECORDS = 20
VALUE_CHARS = 60
YEARS_MS = 5 * 365 * 86_400_000  # a time as near as this to its record is a likely one
NUMBER_MAX = 1e20
PER_MS = {"s": 0.001, "ms": 1.0, "us": 1_000.0, "ns": 1_000_000.0}

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SampledRecord:
    """A record, as JSON. `timestamp_ms`: of Kafka."""

    place: str
    timestamp_ms: int | None
    fields: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Respelled:
    """A field that is named as a column is, but for case, `_` or `-`."""

    column: Path
    field: str
    place: str  # of a record that has it


def read_samples(
    source: Source, fold: Fold, topic: str, count: int = RECORDS
) -> list[SampledRecord]:
    """Return the newest JSON objects of a topic that the log has as read; none: not known."""
    states = [
        state
        for key, state in fold.current().items()
        if key.stream == topic and plain_source(key.source) == source.name
    ]
    if not states:
        return []
    most = max(states, key=lambda each: each.next - each.first)
    try:
        return list(_parse(most, _read(source, most, count)))
    except (SourceError, OffsetsGone, OffsetsWentBack):
        return []


def _read(source: Source, state: ShardState, count: int) -> list[Record]:
    shard = StreamShard(state.key.stream, state.key.shard)
    info = source.describe_streams([shard.stream]).get(shard.stream)
    if info is None or info.stream_id != state.stream_id:
        return []  # another topic of the same name
    there = source.read_offsets([shard])[shard]
    start = max(there.earliest, state.first, state.next - count)
    if start >= state.next:
        return []
    return list(source.read_again(shard, OffsetRange(start, state.next)))


def _parse(state: ShardState, records: Iterable[Record]) -> Iterator[SampledRecord]:
    for record in records:
        try:
            fields = json.loads(record.value or b"")
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            place = f"{state.key.stream}/{state.key.shard} offset {record.offset}"
            yield SampledRecord(place, record.timestamp_ms, fields)


def find_respelled(columns: Sequence[Path], samples: Sequence[SampledRecord]) -> list[Respelled]:
    """Return the columns that no sample has, and one has under another spelling.

    Arguments:
        columns: paths of columns and of fields below them, each after those that it is below.
        samples: of the topic.

    """
    found: dict[Path, Respelled] = {}
    names = set(columns)
    for path in columns:
        if any(path[:length] in found for length in range(1, len(path))):
            continue  # it is said of what it is below
        respelled = _respelled(path, samples, names)
        if respelled is not None:
            found[path] = respelled
    return list(found.values())


def _respelled(path: Path, samples: Sequence[SampledRecord], names: set[Path]) -> Respelled | None:
    *above, name = path
    found = None
    for sample in samples:
        fields: Any = sample.fields
        for each in above:
            fields = fields.get(each) if isinstance(fields, Mapping) else None
        if not isinstance(fields, Mapping):
            continue
        if name in fields:
            return None
        for field, value in fields.items():
            is_own = (*above, field) in names  # another column is named so
            if not is_own and value is not None and _plain(field) == _plain(name):
                found = found or Respelled(path, ".".join((*above, field)), sample.place)
    return found


def _plain(name: str) -> str:
    return name.casefold().replace("_", "").replace("-", "")


def explain_times(event: EventColumn, samples: Sequence[SampledRecord]) -> str:
    """Return what a sample has for its event time, and in which unit it would be a likely one."""
    path = tuple(event.path.split("."))
    for respelled in find_respelled([path], samples):
        return f"{respelled.place} has `{respelled.field}` and not `{event.path}`"
    for sample in samples:
        value: Any = sample.fields
        for name in path:
            value = value.get(name) if isinstance(value, Mapping) else None
        if value is None:
            continue
        shown = json.dumps(value)
        cut = shown if len(shown) <= VALUE_CHARS else f"{shown[:VALUE_CHARS]}..."
        text = f"`{event.path}` of {sample.place} is {cut}"
        likely = _likely_unit(value, sample.timestamp_ms)
        if likely is None or likely[0] == event.unit or event.format:
            return text
        unit, time_ms = likely
        time = datetime.fromtimestamp(time_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M")
        return f"{text}, which with `unit: {unit}` is {time} UTC, and not with `unit: {event.unit}`"
    return f"none of {len(samples)} records has `{event.path}`" if samples else ""


def _likely_unit(value: object, around_ms: int | None) -> tuple[str, float] | None:
    """Return the unit in which a number is a time not far from that of its record."""
    if isinstance(value, bool) or not isinstance(value, int | float) or around_ms is None:
        return None
    if abs(value) > NUMBER_MAX:
        return None
    times = [(unit, value / per_ms) for unit, per_ms in PER_MS.items()]
    near = [each for each in times if abs(each[1] - around_ms) <= YEARS_MS]
    return min(near, key=lambda each: abs(each[1] - around_ms), default=None)
