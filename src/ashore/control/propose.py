"""A job file for topics that are there: what `ashore init` writes.

What it is: `sample_topic`, the newest records of a topic; `propose_table`, what an item of `tables`
may say of it; `job_text`, the file; `write_new`, which puts it where nothing is.
What it promises: what is proposed has decoded the sample; what is unsure is a comment. A file that
is there is never touched, and nothing is written unless the loader takes it.
What it must not know: terminals.
"""

import contextlib
import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from ashore.base.unique import unique
from ashore.config import parse_job
from ashore.config.tables import PROVENANCE_COLUMNS
from ashore.errors import JobFileInvalid
from ashore.formats import Schema, make_decoder, parse_ddl, to_ddl
from ashore.formats.ddl import Atom
from ashore.formats.infer import Inferred, Seen, infer_json
from ashore.landing.job import columns_of
from ashore.protocol.positions import OffsetRange
from ashore.sources.base import Record, Source, StreamShard
from ashore.sources.kafka import stream_missing

SAMPLES_MAX = 10_000  # of a topic, whatever its partitions
SURE_RECORDS = 20  # fewer tell little of a topic
HOURLY_RECORDS = 10_000_000  # a day: then each hour is a partition
_DAY_MS = 86_400_000
_OLDEST_MS = 946_684_800_000  # 2000-01-01: an older number is hardly a time of today's records
_PER_MS = {"s": 0.001, "ms": 1, "us": 1_000, "ns": 1_000_000}
_NAMES = (
    *("event_time", "event_ts", "event_timestamp", "eventtime", "ts", "timestamp", "time"),
    *("occurred_at", "happened_at", "created_at", "createdat", "datetime", "date_time"),
)
_LIKE_TIME = re.compile(r"(^|_)(ts|time|timestamp|at)(_?(s|ms|us|ns|millis|utc))?$|(Time|At|Ts)$")


@dataclass(frozen=True, slots=True)
class TopicSample:
    """The newest records of a topic."""

    topic: str
    records: tuple[Record, ...]
    there: int  # offsets that the topic has now


@dataclass(frozen=True, slots=True)
class EventTimeGuess:
    """A column that may say when a record happened. `unit`: of a number; empty for a text."""

    column: str
    unit: str
    is_sure: bool

    def __str__(self) -> str:
        unit = f", unit: {self.unit}" if self.unit else ""
        return f"{{column: {json.dumps(self.column)}{unit}}}"


@dataclass(frozen=True, slots=True)
class TableProposal:
    """What an item of `tables` may say of a topic.

    Arguments:
        topic: its name.
        table: as database.table.
        decode: json, text or bytes.
        schema: DDL; empty where `decode` needs none.
        times: columns that may be the event time, the likeliest first.
        partition_by: directories.
        sampled: how many records were looked at.
        decoded: how many of them are rows under this proposal.
        notes: what is unsure, as sentences.

    """

    topic: str
    table: str
    decode: str
    schema: str
    times: tuple[EventTimeGuess, ...]
    partition_by: tuple[str, ...]
    sampled: int
    decoded: int
    notes: tuple[str, ...]

    @property
    def event_time(self) -> EventTimeGuess | None:
        """The event time, if one is sure."""
        return self.times[0] if self.times and self.times[0].is_sure else None

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints."""
        sure = self.event_time
        return {
            "topic": self.topic,
            "table": self.table,
            "decode": self.decode,
            "schema": self.schema or None,
            "event_time": {"column": sure.column, "unit": sure.unit or None} if sure else None,
            "event_time_candidates": [each.column for each in self.times],
            "partition_by": list(self.partition_by),
            "sampled": self.sampled,
            "decoded": self.decoded,
            "notes": list(self.notes),
        }


def sample_topic(source: Source, topic: str, each_max: int) -> TopicSample:
    """Return the newest records of each partition of a topic, at most `each_max`.

    Raises StreamMissing, SourceError.
    """
    found = source.describe_streams([topic])
    if topic not in found:
        raise stream_missing(topic, source.list_streams())
    shards = [StreamShard(topic, shard) for shard in found[topic].shards]
    count = max(1, min(each_max, SAMPLES_MAX // max(1, len(shards))))
    offsets = source.read_offsets(shards)
    records: list[Record] = []
    for shard in shards:
        there = offsets[shard]
        newest = OffsetRange(max(there.earliest, there.end - count), there.end)
        records += source.read_plain(shard, newest) if newest.size else ()
    total = sum(each.end - each.earliest for each in offsets.values())
    return TopicSample(topic, tuple(records), total)


def propose_table(sample: TopicSample, table: str, now_ms: int) -> TableProposal:
    """Return what an item of `tables` may say of a topic. `now_ms`: no time is after it."""
    values = [record.value for record in sample.records]
    inferred = infer_json(values)
    notes = list(inferred.notes)
    if not any(value is not None for value in values):
        notes.append("the topic has no records to look at: they land as bytes until you say more")
    schema = _without_provenance(inferred.schema, notes)
    if not schema.fields or inferred.objects * 2 < inferred.texts + inferred.others:
        is_text = inferred.objects + inferred.texts > 0 and not inferred.others
        decode = "text" if is_text else "bytes"
        plain = TableProposal(sample.topic, table, decode, "", (), (), 0, 0, ())
        return _finish(plain, sample, notes)
    names = {name.casefold() for name in schema.names}
    times = _find_times(inferred, now_ms, len(values) - values.count(None))
    times = tuple(each for each in times if each.column in schema.names)
    partition_by = () if "date" in names else ("date",)
    if not partition_by:
        notes.append("the records have a column `date`: rename it to partition by date")
    ddl = to_ddl(_with_time(schema, times))
    proposal = TableProposal(sample.topic, table, "json", ddl, times, partition_by, 0, 0, ())
    return _finish(proposal, sample, notes)


def _without_provenance(schema: Schema | None, notes: list[str]) -> Schema:
    """Return the schema without the columns that provenance adds; none where there is none."""
    fields = schema.fields if schema else ()
    taken = [each.name for each in fields if each.name.casefold() in PROVENANCE_COLUMNS]
    notes += [f"{name} stays out: provenance adds a column of this name" for name in taken]
    return Schema(tuple(each for each in fields if each.name not in taken))


def _finish(proposal: TableProposal, sample: TopicSample, notes: list[str]) -> TableProposal:
    """Decode the sample, choose partitions by its rate."""
    values = [record.value for record in sample.records]
    ddl = {"json": proposal.schema, "text": "value STRING", "bytes": "value BINARY"}
    decoder = make_decoder(proposal.decode, parse_ddl(ddl[proposal.decode]))
    decoded = decoder.decode(pa.array(values, pa.binary())).table.num_rows if values else 0
    if decoded < len(values):
        bad = f"{len(values) - decoded} of {len(values)} records"
        notes.append(f"{bad} of the sample cannot be decoded: they go to {proposal.table}__dead")
    if 0 < len(values) < SURE_RECORDS:
        notes.append(f"only {len(values)} records were there to look at")
    partitions = ("date",) if proposal.decode != "json" else proposal.partition_by
    if partitions and _per_day(sample) >= HOURLY_RECORDS:
        partitions = ("date", "hour")
    return replace(
        proposal,
        partition_by=partitions,
        sampled=len(values),
        decoded=decoded,
        notes=tuple(notes),
    )


def _per_day(sample: TopicSample) -> float:
    """Return about how many records a day bring, by the times of the sample; 0: unknown."""
    times = [each.timestamp_ms for each in sample.records if each.timestamp_ms is not None]
    if len(times) < SURE_RECORDS:
        return 0
    span_ms = max(1_000, max(times) - min(times))
    return len(times) * _DAY_MS / span_ms


def _find_times(inferred: Inferred, now_ms: int, count: int) -> tuple[EventTimeGuess, ...]:
    """Return columns that may be the event time. One is sure by its name and all its values."""
    ranked: list[tuple[bool, bool, int, int, EventTimeGuess]] = []
    for column in inferred.columns:
        unit = "" if column.is_iso else _unit_of(column, now_ms)
        if unit is None:
            continue
        name = column.name.casefold()
        rank = _NAMES.index(name) if name in _NAMES else len(_NAMES)
        is_named = rank < len(_NAMES) or _LIKE_TIME.search(column.name) is not None
        is_whole = column.count == count >= SURE_RECORDS
        guess = EventTimeGuess(column.name, unit, is_named and is_whole)
        ranked.append((not guess.is_sure, not is_named, rank, len(ranked), guess))
    found = [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])]
    named = [each for each in found if each.is_sure]
    if len(named) > 1 and named[0].column.casefold() not in _NAMES:  # which of them only you know
        found = [replace(each, is_sure=False) for each in found]
    return tuple(found)


def _unit_of(column: Seen, now_ms: int) -> str | None:
    if column.type is not Atom.BIGINT or column.least is None or column.most is None:
        return None
    for unit, per_ms in _PER_MS.items():
        least, most = _OLDEST_MS * per_ms, (now_ms + _DAY_MS) * per_ms
        if least <= column.least and column.most <= most:
            return unit
    return None


def _with_time(schema: Schema, times: Sequence[EventTimeGuess]) -> Schema:
    """Return the schema in which an event time that is a text is a TIMESTAMP."""
    sure = times[0] if times and times[0].is_sure and not times[0].unit else None
    return Schema(
        tuple(
            replace(each, type=Atom.TIMESTAMP) if sure and each.name == sure.column else each
            for each in schema.fields
        )
    )


# --- the file --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobProposal:
    """A whole job file."""

    job: str
    lake: str
    servers: str
    options: Mapping[str, str]  # as they are written, `${NAME}` and all
    tables: tuple[TableProposal, ...]

    def to_dict(self) -> dict[str, object]:
        """Return what `--json` prints, options left out."""
        tables = [each.to_dict() for each in self.tables]
        return {"job": self.job, "lake": self.lake, "servers": self.servers, "tables": tables}


def table_names(topics: Iterable[str], database: str) -> dict[str, str]:
    """Return a table for each topic, no two alike."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for topic in topics:
        plain = re.sub(r"[^A-Za-z0-9_]", "_", topic).lstrip("_")[:90] or "topic"
        name, number = plain, 2
        while name.casefold() in taken:
            name, number = f"{plain}_{number}", number + 1
        taken.add(name.casefold())
        found[topic] = f"{database}.{name}"
    return found


def job_text(proposal: JobProposal) -> str:
    """Return the job file. Raises JobFileInvalid where the loader would refuse it."""
    kafka = f"{{bootstrap_servers: {json.dumps(proposal.servers)}}}"
    lines = [
        "# Written by `ashore init` from the newest records of each topic. Comments are what it is",
        "# not sure of: look at them, then try it with: ashore validate",
        f"job: {proposal.job}",
        f"lake: {json.dumps(proposal.lake)}",
        "source:",
    ]
    if proposal.options:
        lines += [
            "  kafka:",
            f"    bootstrap_servers: {json.dumps(proposal.servers)}",
            "    options:",
        ]
        lines += [f"      {name}: {json.dumps(value)}" for name, value in proposal.options.items()]
    else:
        lines.append(f"  kafka: {kafka}")
    lines += ["  first_start: {default: earliest}  # from the first record that Kafka still has"]
    lines.append("tables:")
    for table in proposal.tables:
        lines += _item_lines(table)
    lines.append("spark: none  # without Java; remove this line to read and write in Spark")
    text = "\n".join(lines) + "\n"
    parse_job(text, path="the proposed job file", check_schema=columns_of)
    return text


def _item_lines(table: TableProposal) -> list[str]:
    lines = [f"  # {note}" for note in table.notes]
    lines += [f"  - topic: {json.dumps(table.topic)}", f"    table: {table.table}"]
    lines.append(f"    decode: {table.decode}")
    if table.schema:
        lines.append(f"    schema: {json.dumps(table.schema, ensure_ascii=False)}")
    elif not table.sampled:
        lines.append('    # decode: json, and schema: "id BIGINT, ts BIGINT"')
    guesses = list(table.times)
    if table.event_time is not None:
        lines.append(f"    event_time: {guesses.pop(0)}")
    elif not guesses:
        lines.append("    # event_time: none was found; the timestamp of Kafka counts")
    lines += [f"    # event_time: {each}" for each in guesses[:5]]
    lines.append(f"    partition_by: [{', '.join(table.partition_by)}]")
    return lines


def write_new(path: Path, text: str) -> None:
    """Write a file where none is, whole or not at all. Raises JobFileInvalid.

    If interrupted: a file beside it, whose name begins with a dot, may be left.
    """
    beside = path.with_name(f".{path.name}.{unique()}")
    try:
        with beside.open("x", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.link(beside, path)  # fails where something is, unlike a rename
    except FileExistsError:
        raise exists_already(path) from None
    except OSError as error:
        raise JobFileInvalid(
            f"{path} cannot be written: {error.strerror}",
            hint="name another file with --out",
        ) from error
    finally:
        with contextlib.suppress(OSError):
            beside.unlink()


def exists_already(path: Path) -> JobFileInvalid:
    """Return the error for a job file that is there: it is somebody's."""
    return JobFileInvalid(
        f"{path} is there already, and is left as it is", hint="name another file with --out"
    )
