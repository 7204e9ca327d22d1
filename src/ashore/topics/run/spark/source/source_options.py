"""The options of the source `ashore`.

What it is: `SourceOptions`, from the options of `spark.readStream.format("ashore")`. What Spark's
own Kafka source has too has its name: a query moves by another `format` and a `schema`.
What it promises: an option that is unknown or has no such value is refused with all problems at
once; none is ignored. Spark does not keep the case of names. No value that may be secret is in a
message.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ashore.base.suggest import suggest
from ashore.base.units import parse_duration_ms
from ashore.errors import JobFileInvalid
from ashore.log.positions import StreamShard
from ashore.tables.ddl import parse_ddl
from ashore.tables.masks import check_mask
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.read.limits import DEFAULT_LIMITS, ReadLimits
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.source import FirstOffset
from ashore.topics.route.event_columns import EventColumn
from ashore.topics.route.placement import PER_SECOND, check_event_column
from ashore.topics.run.spark.source.record_schema import (
    COLUMNS,
    DECODED,
    DEFAULT_COLUMNS,
    RowShape,
)

T = TypeVar("T")

FORMAT = "ashore"
SERVERS = "kafka.bootstrap.servers"
CLIENT = "kafka."  # begins the options of the Kafka client
EARLIEST, LATEST = "earliest", "latest"
NAMED = {EARLIEST: -2, LATEST: -1}  # what Spark's Kafka source writes for them within JSON
OPTIONS = (
    "assign",
    "columns",
    "decode",
    "endingOffsets",
    "eventTime",
    "eventTimeFormat",
    "eventTimeUnit",
    "failOnDataLoss",
    "fields",
    "futureMax",
    "idleAfter",
    "lateAfter",
    "leaderEpochs",
    "mask",
    "maxBatchBytes",
    "maxBytesPerTrigger",
    "maxOffsetsPerTrigger",
    "maxRecordBytes",
    "minPartitions",
    "reader",
    "schema",
    "startingOffsets",
    "startingTimestamp",
    "subscribe",
    "subscribePattern",
    "timeout",
    "triggerInterval",
    "values",
)

STEPS = ("eventTimeFormat", "eventTimeUnit", "futureMax", "idleAfter", "lateAfter")
UNITS = ("ms", *(unit for unit in PER_SECOND if unit != "ms"))
FUTURE_MAX_MS = 3_600_000  # as job files have it: `late.future_max`

Offsets = Mapping[str, Mapping[str, int]]  # by topic and topic partition
Epochs = Mapping[StreamShard, Mapping[int, int]]  # leader epochs by offset


@dataclass(frozen=True, slots=True)
class ReadBound:
    """Where reading begins or ends: at given offsets, elsewhere by a policy."""

    policy: FirstOffset
    offsets: Offsets = field(default_factory=dict)

    @property
    def is_repeatable(self) -> bool:
        """Whether the same offsets come out of it at another time: retention aside."""
        named = {offset for shards in self.offsets.values() for offset in shards.values()}
        return self.policy.policy == EARLIEST and NAMED[LATEST] not in named


@dataclass(frozen=True, slots=True)
class StepRule:
    """How partitions are read in step.

    Arguments:
        event: where in `decoded` the event time is; None: the timestamp of the record.
        after_ms: how much older than the newest event time a record may be.
        idle_after_ms: how long a partition holds others back once it has no unread records.
        future_max_ms: further ahead of the clock an event time is not believed.

    """

    event: EventColumn | None
    after_ms: int
    idle_after_ms: int
    future_max_ms: int


@dataclass(frozen=True, slots=True)
class SourceOptions:
    """What a stream reads, and how.

    Arguments:
        kafka: how Kafka is reached, and who reads.
        topics: by name.
        pattern: of Spark's `subscribePattern`: a regular expression of names; empty: `topics`.
        shards: the partitions of topics of which not all are read.
        shape: of the rows.
        start: where reading begins.
        end: where a batch read ends; the policy is `latest` elsewhere.
        records: of a batch of a stream, as offsets; None: no limit.
        size_bytes: of a batch of a stream, estimated; None: no limit.
        stops_at_gaps: whether offsets that Kafka no longer has stop the query; else it skips them.
        parallelism: tasks that a large batch is divided into; None: as many as there are cores.
        steps: how partitions are read in step; None: each as fast as the others.
        epochs: leader epochs that a log has confirmed at offsets since a checkpoint was written:
            an operator has accepted that a topic was truncated there.
        interval_ms: between the batches of a stream; None: not known.

    """

    kafka: KafkaAddress
    topics: tuple[str, ...]
    pattern: str
    shards: Mapping[str, frozenset[str]]
    shape: RowShape
    start: ReadBound
    end: ReadBound
    records: int | None
    size_bytes: int | None
    stops_at_gaps: bool
    parallelism: int | None
    steps: StepRule | None
    epochs: Epochs
    interval_ms: int | None

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "SourceOptions":
        """Return what options say. Raises JobFileInvalid with all problems."""
        return _Parser(options).parse()


def write_options(kafka: KafkaAddress) -> dict[str, str]:
    """Return the options of the source that say how Kafka is reached, and who reads."""
    return {
        **{f"{CLIENT}{name}": value for name, value in kafka.options.items()},
        SERVERS: kafka.bootstrap_servers,
        "timeout": f"{kafka.timeout_s:g}",
        "reader": kafka.reader,
        "maxRecordBytes": str(kafka.limits.record_bytes),
        "maxBatchBytes": str(kafka.limits.batch_bytes),
    }


class _Parser:
    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = {name.lower(): value for name, value in options.items()}
        self._problems: list[str] = []

    def parse(self) -> SourceOptions:
        known = {name.lower() for name in OPTIONS}
        for name in self._options:
            if name not in known and not name.startswith(CLIENT):
                hint = suggest(name, OPTIONS, f"the options are {', '.join(OPTIONS)} and kafka.*")
                self._problems.append(f"{name}: unknown option: {hint}")
        topics = tuple(each.strip() for each in self._text("subscribe").split(",") if each.strip())
        pattern = self._text("subscribePattern")
        assigned = self._read("assign", _parse_shards, 'write {"topic": [0, 1]}') or {}
        if [bool(topics), bool(pattern), bool(assigned)].count(True) != 1:
            self._problems.append("write one of subscribe, subscribePattern and assign")
        shape = self._shape()
        found = SourceOptions(
            kafka=self._kafka(),
            topics=topics or tuple(assigned),
            pattern=pattern,
            shards=assigned,
            shape=shape,
            start=self._start("startingOffsets", EARLIEST),
            end=self._start("endingOffsets", LATEST),
            records=self._number("maxOffsetsPerTrigger"),
            size_bytes=self._number("maxBytesPerTrigger"),
            stops_at_gaps=self._choice("failOnDataLoss", ("true", "false")) == "true",
            parallelism=self._number("minPartitions"),
            steps=self._steps(shape),
            epochs=self._read("leaderEpochs", _parse_epochs, 'write {"topic": {"0": {"17": 3}}}')
            or {},
            interval_ms=self._duration("triggerInterval"),
        )
        if self._problems:
            raise JobFileInvalid(
                "\n".join(["the source `ashore` cannot use these options:", *self._problems]),
                hint="correct the options of readStream",
            )
        return found

    def _text(self, name: str, default: str = "") -> str:
        return self._options.get(name.lower(), default).strip()

    def _choice(self, name: str, choices: tuple[str, ...]) -> str:
        """Return one of `choices`; the first where the option is missing."""
        found = self._text(name, choices[0]).lower()
        if found not in choices:
            self._problems.append(f"{name}: write one of {', '.join(choices)}")
        return found

    def _number(self, name: str) -> int | None:
        return self._read(name, _parse_positive, "write a whole number above 0")

    def _read(self, name: str, read: Callable[[str], T], instead: str) -> T | None:
        text = self._text(name)
        try:
            return read(text) if text else None
        except ValueError:
            self._problems.append(f"{name}: {instead}")
            return None

    def _kafka(self) -> KafkaAddress:
        servers = self._text(SERVERS)
        if not servers:
            self._problems.append(f"{SERVERS}: write the brokers, HOST:PORT with commas between")
        client = {
            name.removeprefix(CLIENT): value
            for name, value in self._options.items()
            if name.startswith(CLIENT) and name != SERVERS
        }
        timeout_s = self._read("timeout", _parse_seconds, "write seconds, such as 30") or 30.0
        limits = ReadLimits(
            self._number("maxRecordBytes") or DEFAULT_LIMITS.record_bytes,
            self._number("maxBatchBytes") or DEFAULT_LIMITS.batch_bytes,
        )
        reader = self._choice("reader", ("auto", "native", "python"))
        return KafkaAddress(servers, client, timeout_s, reader, limits)

    def _shape(self) -> RowShape:
        decode = self._choice("decode", ("json", "json_whole", "text", "bytes"))
        default = {"text": "value STRING", "bytes": "value BINARY"}.get(decode, "")
        schema = self._read("schema", parse_ddl, "write columns as DDL: id BIGINT, name STRING")
        if schema is None:
            if not default and not self._text("schema"):
                self._problems.append("schema: write the columns of the records as DDL")
            schema = parse_ddl(default or "value STRING")
        fields = self._read("fields", _parse_names, "write names of the schema as a JSON array")
        columns = tuple(each for each in self._text("columns").replace(",", " ").split())
        if unknown := sorted({*columns} - {*COLUMNS}):
            instead = suggest(unknown[0], COLUMNS, f"the columns are {', '.join(COLUMNS)}")
            self._problems.append(f"columns: there is no {unknown[0]}: {instead}")
        if fields is not None and (missing := sorted({*fields} - {*schema.names})):
            self._problems.append(f"fields: the schema has no {missing[0]}")
        masks = self._read("mask", _parse_mask, 'write {"email": "sha256"}') or {}
        mask = tuple(sorted(masks.items()))
        try:
            check_mask(schema, mask)
        except ValueError as error:
            self._problems.append(f"mask: {error}")
        return RowShape(
            decode=decode,
            schema=schema,
            fields=None if fields is None else tuple(fields),
            columns=columns or DEFAULT_COLUMNS,
            keeps_values=self._choice("values", ("invalid", "all")) == "all",
            mask=mask,
        )

    def _steps(self, shape: RowShape) -> StepRule | None:
        path = self._text("eventTime")
        if not path:
            needless = [name for name in STEPS if self._text(name)]
            self._problems.extend(f"{name}: it needs eventTime" for name in needless)
            return None
        after_ms, future_max_ms = self._duration("lateAfter"), self._duration("futureMax")
        if after_ms is None and not self._text("lateAfter"):
            self._problems.append("lateAfter: write the delay of the watermark, such as 10s")
        return StepRule(
            event=None if path == "timestamp" else self._event(path, shape),
            after_ms=after_ms or 0,
            idle_after_ms=self._duration("idleAfter") or 0,
            future_max_ms=FUTURE_MAX_MS if future_max_ms is None else future_max_ms,
        )

    def _event(self, path: str, shape: RowShape) -> EventColumn:
        unit, form = self._choice("eventTimeUnit", UNITS), self._text("eventTimeFormat")
        event = EventColumn(path.removeprefix(f"{DECODED}."), unit, form)
        if event.path == path:
            self._problems.append(f"eventTime: write timestamp or {DECODED}.NAME")
            return event
        try:
            check_event_column(event, to_arrow(shape.schema))
        except ValueError as error:
            self._problems.append(f"eventTime: {error}")
        return event

    def _duration(self, name: str) -> int | None:
        return self._read(name, parse_duration_ms, "write a duration, such as 10s or 5m")

    def _start(self, name: str, default: str) -> ReadBound:
        text = self._text(name, default)
        if name == "startingOffsets" and self._text("startingTimestamp"):
            at_ms = self._number("startingTimestamp")
            return ReadBound(FirstOffset("timestamp", at_ms))
        if text.lower() in NAMED:
            return ReadBound(FirstOffset(text.lower()))
        offsets = self._read(name, _parse_offsets, 'write earliest, latest or {"topic": {"0": 17}}')
        return ReadBound(FirstOffset(EARLIEST if default == EARLIEST else LATEST), offsets or {})


def _parse_offsets(text: str) -> dict[str, dict[str, int]]:
    """Return offsets by topic and topic partition. Raises ValueError."""
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, dict) for each in found.values()):
        raise ValueError("expected an object for each topic")
    for shards in found.values():
        for shard, offset in shards.items():
            if type(offset) is not int or offset < min(NAMED.values()) or not shard.isdecimal():
                raise ValueError("expected an offset for each partition")
    return found


def write_epochs(epochs: Epochs) -> str:
    """Return the value of the option `leaderEpochs`."""
    written: dict[str, dict[str, Mapping[int, int]]] = {}
    for shard in sorted(epochs):
        written.setdefault(shard.stream, {})[shard.shard] = epochs[shard]
    return json.dumps(written)


def _parse_epochs(text: str) -> dict[StreamShard, dict[int, int]]:
    """Return what `write_epochs` has written. Raises ValueError."""
    found = json.loads(text)
    try:
        return {
            StreamShard(topic, str(int(shard))): {int(at): int(epoch) for at, epoch in each.items()}
            for topic, shards in found.items()
            for shard, each in shards.items()
        }
    except (AttributeError, TypeError) as error:
        raise ValueError("expected an object for each partition of each topic") from error


def _parse_shards(text: str) -> dict[str, frozenset[str]]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, list) for each in found.values()):
        raise ValueError("expected an array for each topic")
    return {topic: frozenset(str(int(each)) for each in shards) for topic, shards in found.items()}


def _parse_positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError("expected a number above 0")
    return number


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < 1e6:
        raise ValueError("expected seconds above 0")
    return seconds


def _parse_mask(text: str) -> dict[str, str]:
    found = json.loads(text)
    if not isinstance(found, dict) or not all(isinstance(each, str) for each in found.values()):
        raise ValueError("expected an object of columns")
    return found


def _parse_names(text: str) -> list[str]:
    found = json.loads(text)
    if not isinstance(found, list) or not all(isinstance(each, str) for each in found):
        raise ValueError("expected an array of names")
    return found
