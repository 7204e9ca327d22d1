"""Sinks that keep how far they came in the table: Iceberg's for Kafka Connect, kafka-delta-ingest.

What it promises: what the current snapshot or version has is followed, and nothing else: records
whose files the sink had written and not committed are landed again. Anything else is Unclear.
"""

from collections import defaultdict
from collections.abc import Mapping

from ashore.log.positions import StreamShard
from ashore.proof.doctor.observation import LakehouseSinkSeen
from ashore.proof.doctor.steps import Former, Unclear

_BY_HAND = "set in `first_start` where landing starts, and land in a table of its own"
_NOTE = (
    "delete the connector before the job starts, or both would write the same records into the "
    "table; records that it has read and not committed are landed again"
)
_OWN = "ashore."


def judge_iceberg_sink(seen: LakehouseSinkSeen) -> Former:
    """Say how far Iceberg's sink for Kafka Connect came. Raises Unclear."""
    if len(seen.marks) != 1:
        count = f"the marks of {len(seen.marks)} connectors" if seen.marks else "no mark"
        raise Unclear(f"{seen.table} has {count} of Iceberg's sink for Kafka Connect", _BY_HAND)
    (mark,) = seen.marks
    if seen.control is None:
        raise Unclear(f"the control topic of {mark} does not exist, or cannot be read", _BY_HAND)
    next_of: dict[StreamShard, int] = {}
    known: set[StreamShard] = set()
    for event in seen.control.events:
        known |= event.keys()
        for shard, offset in event.items():
            if offset is not None:
                next_of[shard] = max(offset, next_of.get(shard, 0))
    if not next_of:
        raise Unclear(f"the control topic of {mark} has no event of what is in the table", _BY_HAND)
    silent = sorted(known - next_of.keys())
    if silent and not seen.control.is_whole:
        raise Unclear(
            f"the control topic of {mark} no longer says how far {silent[0].stream}/"
            f"{silent[0].shard} was read",
            _BY_HAND,
        )
    return Former("Iceberg sink of Kafka Connect", seen.table, next_of, seen.files, notes=(_NOTE,))


def judge_delta_sink(seen: LakehouseSinkSeen) -> Former:
    """Say how far kafka-delta-ingest came, by its transactions. Raises Unclear."""
    offsets: dict[str, dict[str, int]] = defaultdict(dict)
    for mark, value in seen.marks.items():
        app, _, partition = mark.rpartition("-")
        if app and partition.isdecimal() and not app.startswith(_OWN):
            offsets[app][partition] = int(value)
    if len(offsets) != 1:
        found = ", ".join(sorted(offsets)) or "none"
        raise Unclear(
            f"{seen.table} must have the transactions of one kafka-delta-ingest, and has {found}",
            _BY_HAND,
        )
    if len(seen.topics) != 1:
        raise Unclear(
            f"the transactions of {seen.table} name no topic, and the job lands "
            f"{len(seen.topics)} topics in it",
            _BY_HAND,
        )
    (topic,), (last,) = seen.topics, offsets.values()
    return Former("kafka-delta-ingest", seen.table, _after(topic, last), seen.files, notes=(_NOTE,))


def _after(topic: str, last: Mapping[str, int]) -> dict[StreamShard, int]:
    return {StreamShard(topic, each): offset + 1 for each, offset in sorted(last.items())}
