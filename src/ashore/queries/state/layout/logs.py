"""The text files of a query: its id, what batches were planned with, and which are done.

What it promises: any bytes give a value or CheckpointUnfit, whose field `why` is one of `Wrong`.
What is written parses to the same value. Keys that Ashore does not know are kept; a line that has
no place is refused.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Self

from ashore.errors import CheckpointUnfit, check
from ashore.queries.state.layout.paths import is_number
from ashore.topics.read.stream_ends import StreamEnd, is_stream_end

HINT = "restore the checkpoint; was it written by another release of Spark?"
PARTITIONS = "spark.sql.shuffle.partitions"  # of `conf`: how many the state has
PROVIDER = "spark.sql.streaming.stateStore.providerClass"  # of `conf`: what keeps the state
UNSAFE_ROW = "unsaferow"  # the encoding of the state's rows, where `conf` does not say another
_ENCODING = "spark.sql.streaming.stateStore.encodingFormat"
_NO_END = "-"
_VERSION = re.compile(r"v([1-9][0-9]{0,8})")
_LINE_END = re.compile(r"\r\n|\n|\r")  # what Spark's reader takes for one

Document = Mapping[str, object]
KafkaEnd = Mapping[str, Mapping[str, int]]  # topic, topic partition: the offset that comes next
Ends = Mapping[int, KafkaEnd]  # by the place of the source in the plan


class Wrong(StrEnum):
    """What is wrong with a file."""

    NOT_TEXT = "not_text"
    OTHER_VERSION = "other_version"
    NOT_JSON = "not_json"
    OTHER_CONTENT = "other_content"
    OTHER_SOURCE = "other_source"  # an end that is not of topics of Kafka


def unfit(why: Wrong, text: str) -> CheckpointUnfit:
    """Return the error of a file that Spark did not write so."""
    return CheckpointUnfit(text, hint=HINT, why=why.value)


# ---- metadata


@dataclass(frozen=True, slots=True)
class QueryFile:
    """The id of a query, which it has as long as its checkpoint."""

    query_id: str
    other: Document = field(default_factory=dict)

    @classmethod
    def parse(cls, data: bytes, place: str) -> Self:
        """Return what the bytes say. Raises CheckpointUnfit."""
        other = _object(_text(data, place), place)
        query_id = other.pop("id", None)
        if type(query_id) is not str:
            raise unfit(Wrong.OTHER_CONTENT, f"{place} has no query id")
        return cls(query_id, other)

    def write(self) -> bytes:
        """Return the file."""
        return _dump({"id": self.query_id, **self.other}).encode()


# ---- offsets


@dataclass(frozen=True, slots=True)
class Settings:
    """What a batch is planned with. Where a file leaves something out, it means what stands here.

    Arguments:
        watermark_ms: what came before it is late.
        timestamp_ms: the batch's own time.
        conf: settings of Spark, which override those of the session that continues the query.
        other: what Ashore does not know.

    """

    watermark_ms: int = 0
    timestamp_ms: int = 0
    conf: Mapping[str, str] = field(default_factory=dict)
    other: Document = field(default_factory=dict)

    @property
    def partitions(self) -> int | None:
        """Into how many partitions the state is cut; None where the batch does not say."""
        found = self.conf.get(PARTITIONS, "")
        return int(found) if is_number(found) else None

    @property
    def provider(self) -> str:
        """Name what keeps the state: the last part of its class; empty: the batch does not say."""
        return self.conf.get(PROVIDER, "").rpartition(".")[2]

    @property
    def encoding(self) -> str:
        """Name the encoding of the state's rows."""
        return self.conf.get(_ENCODING, UNSAFE_ROW)

    @classmethod
    def parse(cls, line: str, place: str) -> Self:
        """Return what a line says. Raises CheckpointUnfit."""
        other = _object(line, place)
        watermark_ms = _integer(other.pop("batchWatermarkMs", 0), place)
        timestamp_ms = _integer(other.pop("batchTimestampMs", 0), place)
        conf = other.pop("conf", {})
        if not isinstance(conf, dict) or not all(type(each) is str for each in conf.values()):
            raise unfit(Wrong.OTHER_CONTENT, f"{place} has settings that are not strings")
        return cls(watermark_ms, timestamp_ms, conf, other)

    def write(self) -> str:
        """Return the line."""
        times = {"batchWatermarkMs": self.watermark_ms, "batchTimestampMs": self.timestamp_ms}
        return _dump({**times, "conf": self.conf, **self.other})


@dataclass(frozen=True, slots=True)
class SourceEnd:
    """Where a batch ends in a source: the source's own JSON; None where it has no offset yet."""

    source: str  # its place in the plan from 0, or from version 2 on its name
    end: str | None


@dataclass(frozen=True, slots=True)
class OffsetsFile:
    """What a batch is planned with, and where it ends. Old checkpoints have no settings."""

    settings: Settings | None
    sources: tuple[SourceEnd, ...]
    version: int = 1

    @property
    def partitions(self) -> int | None:
        """As of its settings; None where it has none."""
        return self.settings.partitions if self.settings else None

    @property
    def provider(self) -> str:
        """As of its settings; empty where it has none."""
        return self.settings.provider if self.settings else ""

    @classmethod
    def parse(cls, data: bytes, place: str, versions: Collection[int] = (1, 2)) -> Self:
        """Return what the bytes say. `versions`: which are welcome. Raises CheckpointUnfit."""
        version, lines = _lines(data, place, versions)
        if not lines:
            raise unfit(Wrong.OTHER_CONTENT, f"{place} ends before its settings")
        settings = Settings.parse(lines[0], place) if lines[0].strip() else None
        named = lines[1:] if version > 1 else [f"{at}:{end}" for at, end in enumerate(lines[1:])]
        return cls(settings, tuple(_source(each, place) for each in named), version)

    def kafka_ends(self, place: str) -> dict[int, KafkaEnd]:
        """Return where the batch ends in each source that has offsets, if all are Kafka's.

        Raises CheckpointUnfit.
        """
        return {
            index: parse_kafka(each.end, place)
            for index, each in enumerate(self.sources)
            if each.end is not None
        }

    def write(self) -> bytes:
        """Return the file."""
        names = [each.source for each in self.sources]
        ends = [_NO_END if each.end is None else each.end for each in self.sources]
        if self.version == 1:
            check(names == [str(at) for at in range(len(names))], "sources of v1 have no names")
        else:
            ends = [f"{name}:{end}" for name, end in zip(names, ends, strict=True)]
        settings = self.settings.write() if self.settings else ""
        check(bool(settings or ends), "a file that ends before its settings")
        return "\n".join([f"v{self.version}", settings, *ends]).encode()


def _source(line: str, place: str) -> SourceEnd:
    name, colon, end = line.partition(":")
    if not colon:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has a line without a source")
    if not end:
        raise unfit(Wrong.NOT_JSON, f"{place} has a line that is not JSON")
    return SourceEnd(name, None if end == _NO_END else end)


def parse_kafka(end: str, place: str) -> dict[str, dict[str, int]]:
    """Return the offsets of an end, if it is Kafka's: of the source `ashore`, or of Spark's own.

    Raises CheckpointUnfit.
    """
    found: dict[str, dict[str, int]] = {}
    written = _object(end, place, Wrong.OTHER_SOURCE)
    if is_stream_end(written):
        try:
            topics = StreamEnd.parse(written).topics.items()
        except ValueError as error:
            raise unfit(Wrong.OTHER_CONTENT, f"{place}: {error}") from None
        return {topic: dict(each.next) for topic, each in topics}
    for topic, partitions in written.items():
        if not isinstance(partitions, dict):
            raise unfit(Wrong.OTHER_SOURCE, f"{place} has no Kafka offsets")
        for partition, offset in partitions.items():
            if type(offset) is not int or offset < 0 or not is_number(partition):
                text = f"{place} has {offset!r} for {topic}/{partition}"
                raise unfit(Wrong.OTHER_CONTENT, text)
        found[topic] = dict(partitions)
    return found


def write_kafka(end: KafkaEnd) -> str:
    """Return an end as Spark's own source writes it, which the source `ashore` reads too."""
    return _dump(end)


# ---- commits


@dataclass(frozen=True, slots=True)
class CommitFile:
    """What a batch that is done leaves to the next one.

    Arguments:
        watermark_ms: of the next batch; None where the file does not say.
        store_ids: in format 2 the ids in the names of the batch's state: by operator, then by
            partition, then by store.
        version: of the file.
        other: what Ashore does not know.

    """

    watermark_ms: int | None
    store_ids: Mapping[int, tuple[tuple[str, ...], ...]] | None = None
    version: int = 1
    other: Document = field(default_factory=dict)

    @property
    def state_format(self) -> int:
        """Of the state that the batch wrote: Spark's `checkpointFormatVersion`, noted nowhere."""
        return 1 if self.store_ids is None else 2

    @classmethod
    def parse(cls, data: bytes, place: str) -> Self:
        """Return what the bytes say. Raises CheckpointUnfit."""
        version, other = parse_document(data, place, (1, 2, 3))
        watermark_ms = None
        if "nextBatchWatermarkMs" in other:
            watermark_ms = _integer(other.pop("nextBatchWatermarkMs"), place)
        store_ids = None
        if "stateUniqueIds" in other:
            store_ids = _store_ids(other.pop("stateUniqueIds"), place)
        return cls(watermark_ms, store_ids, version, other)

    def write(self) -> bytes:
        """Return the file."""
        document: dict[str, object] = {}
        if self.watermark_ms is not None:
            document["nextBatchWatermarkMs"] = self.watermark_ms
        if self.store_ids is not None:
            document["stateUniqueIds"] = {str(key): ids for key, ids in self.store_ids.items()}
        return f"v{self.version}\n{_dump({**document, **self.other})}".encode()


def _store_ids(value: object, place: str) -> dict[int, tuple[tuple[str, ...], ...]]:
    wrong = unfit(Wrong.OTHER_CONTENT, f"{place} has ids of stores that are not strings")
    if not isinstance(value, dict) or not all(is_number(operator) for operator in value):
        raise wrong
    return {int(operator): _partitions(ids, wrong) for operator, ids in value.items()}


def _partitions(value: object, wrong: CheckpointUnfit) -> tuple[tuple[str, ...], ...]:
    if not isinstance(value, list) or not all(isinstance(each, list) for each in value):
        raise wrong
    if not all(type(unique) is str for stores in value for unique in stores):
        raise wrong
    return tuple(tuple(stores) for stores in value)


# ---- lines and JSON


def parse_document(
    data: bytes, place: str, versions: Collection[int]
) -> tuple[int, dict[str, object]]:
    """Return version and content of a file of two lines; empty where it has but one.

    Raises CheckpointUnfit.
    """
    version, lines = _lines(data, place, versions)
    if len(lines) > 1:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} continues after its end")
    return version, _object(lines[0], place) if lines else {}


def _lines(data: bytes, place: str, versions: Collection[int]) -> tuple[int, list[str]]:
    """Return the version that a file begins with, and the other lines."""
    lines = _LINE_END.split(_text(data, place))
    if not lines[-1]:
        lines.pop()
    first = lines[0] if lines else "nothing"
    found = _VERSION.fullmatch(first)
    if found is None or int(found[1]) not in versions:
        known = ", ".join(f"v{each}" for each in versions)
        text = f"{place} starts with {first[:20]!r}, only {known} is supported"
        raise unfit(Wrong.OTHER_VERSION, text)
    return int(found[1]), lines[1:]


def _text(data: bytes, place: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise unfit(Wrong.NOT_TEXT, f"{place} is not text") from None


def _object(line: str, place: str, why: Wrong = Wrong.OTHER_CONTENT) -> dict[str, object]:
    """Return a JSON object. What could not be written again is none, as halves of characters."""
    try:
        value = json.loads(line)
        _dump(value).encode()
    except (ValueError, RecursionError):
        raise unfit(Wrong.NOT_JSON, f"{place} has a line that is not JSON") from None
    if not isinstance(value, dict):
        what = "no Kafka offsets" if why is Wrong.OTHER_SOURCE else "a line that is not an object"
        raise unfit(why, f"{place} has {what}")
    return value


def _integer(value: object, place: str) -> int:
    if type(value) is not int:
        raise unfit(Wrong.OTHER_CONTENT, f"{place} has {value!r}, which is not an integer")
    return value


def _dump(value: object) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
