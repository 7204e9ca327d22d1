"""Whether, and where, Ashore continues after a former writer.

What it promises: pure. Every partition of an adopted topic joins in one entry, at the offset where
the former writer durably stopped; a partition that it never wrote begins at its beginning. One
doubt about any of them refuses the whole.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import assert_never

from ashore.log import names
from ashore.log.entries import Joined
from ashore.log.fold import Fold
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import ShardKey, StreamShard
from ashore.proof.doctor.connect_sink import judge_connect
from ashore.proof.doctor.observation import (
    ConnectSeen,
    Observations,
    SparkSeen,
    TableSeen,
    TopicSeen,
    path_below,
)
from ashore.proof.doctor.spark_sink import judge_spark
from ashore.proof.doctor.steps import DoctorRefusal, Former, Unclear, refuse_repair
from ashore.topics.read.source import StreamInfo

ADOPTED = "adopted"
_EXTENSIONS = {"parquet": ("parquet",), "orc": ("orc",), "jsonl": ("json", "jsonl")}


@dataclass(frozen=True, slots=True)
class Adoption:
    """What comes of a former writer."""

    former: Former | None = None
    table: str | None = None  # whose orphaned files the former writer accounts for
    tables: tuple[str, ...] = ()  # to claim
    joined: tuple[Joined, ...] = ()  # empty: the log has them already
    refusals: tuple[DoctorRefusal, ...] = ()
    notes: tuple[str, ...] = ()


def plan_adoption(seen: Observations) -> Adoption:
    """Return where landing begins, or why it cannot be said."""
    if seen.former is None:
        return Adoption()
    try:
        former = _judge(seen.former, seen.tables)
    except Unclear as unclear:
        refusal = refuse_repair(unclear.reason, unclear.hint)
        return Adoption(table=seen.former.table, refusals=(refusal,))
    fold = seen.log.fold
    if fold is None:
        refusal = refuse_repair("the job's log cannot be read", "repair the log first")
        return Adoption(former, former.table, refusals=(refusal,))
    streams = sorted({shard.stream for shard in former.next_of})
    topics = {stream: seen.topics[stream] for stream in streams if stream in seen.topics}
    refusals = [*_refuse_topics(former, seen, streams)]
    for stream in streams if not refusals else ():
        refusals += _refuse_stream(former, seen, fold, seen.source.streams[stream])
    if refusals:
        return Adoption(former, former.table, refusals=tuple(refusals))
    joined = tuple(
        joined
        for stream in streams
        if fold.generation(seen.source.name, stream) is None
        for joined in _join(former, seen, seen.source.streams[stream])
    )
    tables = {former.table} | {side for topic in topics.values() for side in topic.side_tables}
    return Adoption(
        former,
        former.table,
        tuple(sorted(tables)),
        joined,
        notes=(*former.notes, *_note_others(seen, fold, streams)),
    )


def _judge(seen: SparkSeen | ConnectSeen, tables: tuple[TableSeen, ...]) -> Former:
    match seen:
        case SparkSeen():
            return judge_spark(seen, tables)
        case ConnectSeen():
            table = next((each for each in tables if each.table == seen.table), None)
            if table is None:
                raise Unclear(f"the job has no table {seen.table}", "name one of the job file")
            return judge_connect(seen, table)
        case _:
            assert_never(seen)


def _refuse_topics(
    former: Former, seen: Observations, streams: list[str]
) -> Iterator[DoctorRefusal]:
    """Refuse what does not fit the job file, or cannot be asked of the source."""
    topics = [seen.topics[stream] for stream in streams if stream in seen.topics]
    claimed = {former.table, *(side for topic in topics for side in topic.side_tables)}
    for table in seen.tables:
        if table.table in claimed and table.owner not in {None, seen.job}:
            text = f"table {table.table} belongs to job {table.owner}"
            yield refuse_repair(text, f"give this job another table, or run {table.owner}")
    if seen.source.error:
        text = f"Kafka does not answer: {seen.source.error}"
        yield refuse_repair(text, "check `bootstrap_servers` and the brokers")
        return
    for stream in streams:
        topic = seen.topics.get(stream)
        if topic is None or topic.table != former.table:
            into = f"lands it in {topic.table}" if topic else "does not land it"
            text = f"the {former.kind} wrote topic {stream} into {former.table}, the job {into}"
            yield refuse_repair(text, "correct `tables` in the job file")
        elif stream not in seen.source.streams:
            yield refuse_repair(f"topic {stream} does not exist", "was it renamed?")
        else:
            yield from _refuse_layout(former, seen, topic)


def _refuse_layout(former: Former, seen: Observations, topic: TopicSeen) -> Iterator[DoctorRefusal]:
    """Refuse files that one table cannot have beside those that Ashore will land."""
    path = next(each.path for each in seen.tables if each.table == former.table)
    expected = list(topic.partition_by)
    for file in former.files:
        below = path_below(file, path)
        columns = [part.partition("=")[0] for part in below.split("/")[:-1]]
        if columns != expected:
            text = f"{file} lies in partitions of {columns}, the job writes {expected}"
            hint = "correct `partition_by`, or give the job a table of its own"
            yield refuse_repair(text, hint)
            return
        if names.leaf(file).rpartition(".")[2] not in _EXTENSIONS.get(topic.format, ()):
            text = f"{file} is not in {topic.format}, the format that the job writes"
            yield refuse_repair(text, "correct `format`, or give the job a table of its own")
            return


def _refuse_stream(
    former: Former, seen: Observations, fold: Fold, info: StreamInfo
) -> Iterator[DoctorRefusal]:
    known = fold.generation(seen.source.name, info.stream)
    if known is not None:
        yield from _refuse_known(former, seen, fold, info, known)
        return
    for shard, offset in sorted(former.next_of.items()):
        if shard.stream != info.stream:
            continue
        place, there = f"{shard.stream}/{shard.shard}", seen.source.offsets.get(shard)
        if shard.shard not in info.shards or there is None:
            text = f"the {former.kind} wrote {place}, which the topic does not have"
            hint = "was the topic created again? If so, its offsets belong to other records"
            yield refuse_repair(text, hint)
        else:
            yield from _refuse_offset(former, place, offset, there, seen.skips_gaps)


def _refuse_offset(
    former: Former, place: str, offset: int, there: ShardOffsets, skips_gaps: bool
) -> Iterator[DoctorRefusal]:
    if offset > there.end:
        text = f"the {former.kind} reached offset {offset} in {place}, which ends at {there.end}"
        hint = "was the topic created again or restored, or is a transaction still open?"
        yield refuse_repair(text, hint)
    elif offset < there.earliest and not skips_gaps:
        text = (
            f"the {former.kind} reached offset {offset} in {place}, but Kafka starts at "
            f"{there.earliest}"
        )
        hint = "to continue without the gap, write `gap: skip` under `source`: it is recorded"
        yield refuse_repair(text, hint)


def _refuse_known(
    former: Former, seen: Observations, fold: Fold, info: StreamInfo, known: tuple[int, str]
) -> Iterator[DoctorRefusal]:
    """Refuse a topic that the log has joined elsewhere. Joined here: an adoption was cut short."""
    for shard, reached in sorted(former.next_of.items()):
        if shard.stream != info.stream:
            continue
        state = fold.shards.get(ShardKey(seen.source.name, info.stream, known[0], shard.shard))
        if known != (1, info.stream_id) or state is None or state.first != reached:
            place = f"{shard.stream}/{shard.shard}"
            begins = f"begins {place} at {state.first}" if state else f"knows {shard.stream}"
            text = f"the job's log {begins} already; the {former.kind} reached offset {reached}"
            hint = (
                "landing started without it: ashore verify cannot show what is duplicated or "
                "missing"
            )
            yield refuse_repair(text, hint)
            return


def _join(former: Former, seen: Observations, info: StreamInfo) -> Iterator[Joined]:
    for shard in info.shards:
        key = ShardKey(seen.source.name, info.stream, 1, shard)
        offset = _first(former, seen, StreamShard(info.stream, shard))
        yield Joined(key, info.stream_id, offset, ADOPTED)


def _first(former: Former, seen: Observations, shard: StreamShard) -> int:
    """Return where a partition begins: one that the former writer never wrote, at its beginning."""
    if shard in former.next_of:
        return former.next_of[shard]
    there = seen.source.offsets.get(shard)
    return there.earliest if there else 0


def _note_others(seen: Observations, fold: Fold, streams: list[str]) -> Iterator[str]:
    others = sorted(seen.topics.keys() - set(streams) - {key.stream for key in fold.shards})
    if others:
        yield (
            f"nothing was adopted of {', '.join(others)}: topics that `tables` names start as "
            "`first_start` says, topics that an expression matches start at `earliest`"
        )
