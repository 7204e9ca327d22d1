"""What a sink left in a table in a table format: its marks, and events of its control topic.

What it promises: reads only. Of a control topic only the committed events below the mark are read:
the table has their files.
"""

import json
from collections.abc import Mapping, Sequence

from ashore.log import names
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.tables import ICEBERG
from ashore.proof.doctor.observation import ControlSeen, LakehouseSinkSeen
from ashore.topics.open_job import OpenJob
from ashore.topics.read.source import Source


def see_lakehouse_sink(
    opened: OpenJob, table: str, table_format: str, topics: Sequence[str]
) -> LakehouseSinkSeen:
    """Look at a table. Raises CatalogError, SourceError, NotInstalled.

    `topics`: that the job lands in it.
    """
    with opened.formats() as formats:
        found = formats.readable(table)
    marks = dict(found.marks) if found else {}
    control = None
    if table_format == ICEBERG and len(marks) == 1:
        [(mark, value)] = marks.items()
        control = see_control(opened.source, mark, value)
    files = tuple(sorted(each for each in found.files if _is_foreign(each))) if found else ()
    return LakehouseSinkSeen(table, table_format, marks, tuple(topics), files, control)


def _is_foreign(path: str) -> bool:
    return names.parse_final(names.leaf(path)) is None


def see_control(source: Source, mark: str, value: str) -> ControlSeen | None:
    """Return the events below a mark; None: its control topic does not exist, or lost its end."""
    from ashore.tables.iceberg.connect_events import OFFSETS, read_completed  # noqa: PLC0415

    address, reached = mark.removeprefix(OFFSETS), _read_offsets(value)
    # Both names may have dots.
    topics = [each for each in source.list_streams() if address.startswith(f"{each}.")]
    if not topics or not reached:
        return None
    topic = max(topics, key=len)
    group = address.removeprefix(f"{topic}.")
    offsets = source.read_offsets([StreamShard(topic, each) for each in reached])
    events: list[Mapping[StreamShard, int | None]] = []
    for shard, there in sorted(offsets.items()):
        if there.end < reached[shard.shard]:
            return None
        below = OffsetRange(there.earliest, max(there.earliest, reached[shard.shard]))
        for record in source.read_again(shard, below):
            event = read_completed(record.value)
            if event is not None and event.group == group:
                events.append(event.next_of)
    is_whole = all(each.earliest == 0 for each in offsets.values())
    return ControlSeen(tuple(events), is_whole)


def _read_offsets(value: str) -> dict[str, int]:
    """Return the offsets of a mark, by partition of the control topic; none where it has none."""
    try:
        return {str(int(shard)): int(offset) for shard, offset in json.loads(value).items()}
    except (ValueError, TypeError, AttributeError):
        return {}
