"""Files of a Kafka Connect sink, by names such as `clicks+3+0000000100+0000000199.parquet`.

What it promises: the files of a topic partition must be without holes, and have as many rows as
their names have offsets. Where rows cannot be counted, files must not overlap and must be in one
directory: a sink that fills several renames files one by one. Anything else is Unclear.
"""

import re
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.log import names
from ashore.log.positions import StreamShard
from ashore.proof.doctor.observation import ConnectSeen, TableSeen
from ashore.proof.doctor.steps import Former, Unclear

_FINAL = re.compile(r"([A-Za-z0-9._-]+)\+([0-9]+)\+([0-9]+)\+([0-9]+)\.([A-Za-z0-9.]+)")
_NO_END = re.compile(r"([A-Za-z0-9._-]+)\+([0-9]+)\+([0-9]+)(\.[A-Za-z0-9.]+)?")
_NOTE = (
    "delete the connector before the job starts, or both would write the same records into the "
    "table; records that are only in its temporary files are landed again"
)
_BY_HAND = "set in `first_start` where landing starts, and land in a table of its own"


@dataclass(frozen=True, slots=True)
class ConnectName:
    """What the name of a file says. `last` belongs to it."""

    shard: StreamShard
    first: int
    last: int


def parse_connect(file_name: str) -> ConnectName | None:
    """Return what a file's name says, or None where Connect made no such name."""
    match = _FINAL.fullmatch(file_name)
    if match is None or int(match[3]) > int(match[4]):
        return None
    return ConnectName(StreamShard(match[1], str(int(match[2]))), int(match[3]), int(match[4]))


def looks_like_connect(file_name: str) -> bool:
    """Return whether Connect may have made the name, with or without a last offset."""
    return bool(_FINAL.fullmatch(file_name) or _NO_END.fullmatch(file_name))


def judge_connect(seen: ConnectSeen, table: TableSeen) -> Former:
    """Say how far the sink came. Raises Unclear."""
    of_shard: dict[StreamShard, dict[str, ConnectName]] = defaultdict(dict)
    here = {each.path for each in table.orphans} | table.adopted
    for each in table.visible:
        leaf = names.leaf(each.path)
        if each.path not in here or names.parse_final(leaf):
            continue
        name = parse_connect(leaf)
        if name is None:
            raise _strange(each.path)
        of_shard[name.shard][each.path] = name
    if not of_shard:
        raise Unclear(f"{table.table} has no file of a Kafka Connect sink", _BY_HAND)
    next_of = {
        shard: _judge_shard(shard, files, seen.rows) for shard, files in sorted(of_shard.items())
    }
    files = tuple(sorted(path for found in of_shard.values() for path in found))
    return Former("Connect sink", table.table, next_of, files, notes=(_NOTE,))


def _strange(path: str) -> Unclear:
    if _NO_END.fullmatch(names.leaf(path)):
        return Unclear(
            f"{path} has no last offset in its name, as with the S3 sink: where it ended is "
            "unknown",
            _BY_HAND,
        )
    return Unclear(
        f"{path} is not a file of a Kafka Connect sink", "move it out of the table by hand"
    )


def _judge_shard(
    shard: StreamShard, files: Mapping[str, ConnectName], rows_of: Mapping[str, int | None]
) -> int:
    """Return the offset after the last one that is in a file. Raises Unclear."""
    place = f"{shard.stream}/{shard.shard}"
    ordered = sorted(files.items(), key=lambda item: (item[1].first, item[1].last))
    first = expected = ordered[0][1].first
    overlap: str | None = None
    for path, name in ordered:
        if name.first > expected:
            raise Unclear(
                f"{place}: no file holds offsets {expected} to {name.first - 1}, before {path}",
                "were they deleted, or were they never records (compaction, transactions)? "
                + _BY_HAND,
            )
        if name.first < expected and overlap is None:
            overlap = path
        expected = max(expected, name.last + 1)
    counts = [rows_of.get(path) for path in files]
    counted = [count for count in counts if count is not None]
    if len(counted) == len(counts):
        if sum(counted) != expected - first:
            raise Unclear(
                f"{place}: the files hold {sum(counted)} rows, their names {expected - first} "
                f"offsets, {first} to {expected - 1}",
                "some records are in no file, or in two: " + _BY_HAND,
            )
        return expected
    if overlap is not None:
        raise Unclear(
            f"{place}: {overlap} begins before the file before it ends, and its rows cannot be "
            "counted",
            _BY_HAND,
        )
    if len({names.parent(path) for path in files}) > 1:
        raise Unclear(
            f"{place}: files lie in several directories and their rows cannot be counted: whether "
            "the last ones were all renamed is not known",
            _BY_HAND,
        )
    return expected
