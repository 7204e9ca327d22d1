"""A table proposed from a topic's records: what `ashore init` looks at.

What it is: `sample_topic`, the newest records of a topic; `propose_table`, what an item of `tables`
may say of it.
What it promises: what is proposed has decoded the sample.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from ashore.base.time_format import ISO
from ashore.jobs.file.tables import PROVENANCE_COLUMNS
from ashore.log.positions import OffsetRange, StreamShard
from ashore.tables.ddl import Atom, Schema, parse_ddl, to_ddl
from ashore.topics.decode.infer import Inferred, Seen, infer_json
from ashore.topics.decode.registry import make_decoder
from ashore.topics.read.kafka import stream_missing
from ashore.topics.read.source import Record, Source
from ashore.topics.use.proposed_file import EventTimeGuess, TableProposal

SAMPLES_MAX = 10_000  # of a topic, whatever its partitions
SURE_RECORDS = 20  # fewer say little of a topic
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
        notes.append(
            "the topic has no records to sample: it lands as bytes until you set `decode` and "
            "`schema`"
        )
    schema = _without_provenance(inferred.schema, notes)
    if not schema.fields or inferred.objects * 2 < inferred.texts + inferred.others:
        is_text = inferred.objects + inferred.texts > 0 and not inferred.others
        decode = "text" if is_text else "bytes"
        plain = TableProposal(sample.topic, table, decode, "", (), (), 0, 0, ())
        return _finish(plain, sample, notes)
    names = {name.casefold() for name in schema.names}
    times = _find_times(inferred, now_ms)
    kept = set(schema.names)  # a name may have a dot of its own
    times = tuple(each for each in times if {each.column, each.column.split(".")[0]} & kept)
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
    notes += [f"{name} is left out: provenance adds a column of this name" for name in taken]
    return Schema(tuple(each for each in fields if each.name not in taken))


def _finish(proposal: TableProposal, sample: TopicSample, notes: list[str]) -> TableProposal:
    """Decode the sample, choose partitions by its rate."""
    values = [record.value for record in sample.records]
    ddl = {"json": proposal.schema, "text": "value STRING", "bytes": "value BINARY"}
    decoder = make_decoder(proposal.decode, parse_ddl(ddl[proposal.decode]))
    decoded = decoder.decode(pa.array(values, pa.binary())).table.num_rows if values else 0
    if decoded < len(values):
        notes.append(
            f"{decoded} of {len(values)} records of the sample match; the others go to "
            f"{proposal.table}__dead"
        )
    if 0 < len(values) < SURE_RECORDS:
        notes.append(f"only {len(values)} records were available to sample")
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


def _find_times(inferred: Inferred, now_ms: int) -> tuple[EventTimeGuess, ...]:
    """Return columns that may be the event time: those of records come before fields below them.

    One is sure by its name, where all records have it: values that are no records are dead letters.
    """
    ranked: list[tuple[bool, bool, bool, int, int, EventTimeGuess]] = []
    for column in inferred.columns:
        ways = _ways_of(column, now_ms)
        for unit, form in ways:
            guess = EventTimeGuess(column.path, unit, is_sure=False, format=form)
            name = guess.leaf.casefold()
            rank = _NAMES.index(name) if name in _NAMES else len(_NAMES)
            is_named = rank < len(_NAMES) or _LIKE_TIME.search(guess.leaf) is not None
            is_whole = column.count == inferred.objects >= SURE_RECORDS
            guess = replace(guess, is_sure=is_named and is_whole and len(ways) == 1)
            is_below = column.path not in inferred.names
            ranked.append((not guess.is_sure, not is_named, is_below, rank, len(ranked), guess))
    found = [each[-1] for each in sorted(ranked, key=lambda each: each[:-1])]
    named = [each for each in found if each.is_sure]
    if len(named) > 1 and named[0].leaf.casefold() not in _NAMES:  # which of them only you know
        found = [replace(each, is_sure=False) for each in found]
    return tuple(found)


def _ways_of(column: Seen, now_ms: int) -> list[tuple[str, str]]:
    """Return the units and formats in which a column may be a time; more than one: not decided."""
    if column.is_iso:
        return [("", ISO if "." in column.path else "")]
    unit = _unit_of(column, now_ms)
    return [("", form) for form in column.formats] if unit is None else [(unit, "")]


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
    is_text = bool(times) and times[0].is_sure and not times[0].unit and not times[0].format
    sure = times[0] if is_text else None
    return Schema(
        tuple(
            replace(each, type=Atom.TIMESTAMP) if sure and each.name == sure.column else each
            for each in schema.fields
        )
    )
