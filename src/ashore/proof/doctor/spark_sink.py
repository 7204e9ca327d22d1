"""A Spark query with a file sink: its checkpoint, and `_spark_metadata`.

What it promises: the sink's own log decides. A batch in `_spark_metadata` is readable, even where
`commits` lacks it; any other is not, whatever files it left. Contradictions are Unclear.

A query writes, in this order: `offsets/N`, the data files, `_spark_metadata/N`, `commits/N`.
"""

import json
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from ashore.errors import CheckpointUnfit
from ashore.log import names
from ashore.log.positions import StreamShard
from ashore.proof.doctor.observation import SparkSeen, TableSeen
from ashore.proof.doctor.steps import Former, Unclear
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.layout import BatchLog, OffsetsFile, Wrong, parse_kafka
from ashore.storage.base import FileStat, Storage

SINK_LOG = "_spark_metadata"
_VERSION = "v1"
_BATCH = re.compile(r"0|[1-9][0-9]*")  # of the sink's log
_COMPACT = re.compile(r"(0|[1-9][0-9]*)\.compact")
_PART = re.compile(r"part-[0-9]+-[0-9a-f-]{36}[-.].*")
_SAME_TIME_MS = 2_000  # some storages keep whole seconds
_NOTE = "do not start the query again, or both would write the same records into the table"
_NOT_ITS = "is this the checkpoint of the query that wrote the table?"
# What to do about a file of the checkpoint; of others the query may be another one.
_HINTS: dict[str, str] = {
    Wrong.NOT_TEXT: "restore it",
    Wrong.NOT_JSON: "restore it",
    Wrong.OTHER_SOURCE: "the query reads something else",
}


class _SinkFile(NamedTuple):
    modified_ms: int
    batch: int


def read_checkpoint(checkpoint: Checkpoint) -> tuple[dict[int, bytes], frozenset[int], int, bool]:
    """Return offsets by batch, committed batches, the number of sources, whether it has state."""
    planned = checkpoint.list_batches(BatchLog.OFFSETS)
    offsets = {batch: checkpoint.read(found.path) for batch, found in planned.items()}
    commits = frozenset(checkpoint.list_batches(BatchLog.COMMITS))
    return offsets, commits, checkpoint.count_sources(), checkpoint.has_state()


def read_sink_log(storage: Storage, table_path: str) -> dict[str, bytes]:
    """Return the files of a table's `_spark_metadata` that count: the newest whole one, and on."""
    directory = names.join(table_path, SINK_LOG)
    found = [names.leaf(each.path) for each in storage.list(directory)]
    compacts = [int(match[1]) for name in found if (match := _COMPACT.fullmatch(name))]
    newest = max(compacts, default=-1)
    chosen = [name for name in found if _BATCH.fullmatch(name) and int(name) > newest]
    if compacts:
        chosen.append(f"{newest}.compact")
    return {name: storage.read(names.join(directory, name)) for name in chosen}


def topics_of(offsets: Mapping[int, bytes]) -> frozenset[str]:
    """Return the topics that the newest offsets name; none where they cannot be read."""
    if not offsets:
        return frozenset()
    try:
        newest = _parse_offsets(offsets[max(offsets)], "offsets")
    except Unclear:
        return frozenset()
    return frozenset(shard.stream for shard in newest)


def judge_spark(seen: SparkSeen, tables: Sequence[TableSeen]) -> Former:
    """Say how far the query came. Raises Unclear."""
    if not seen.offsets:
        raise Unclear(f"{seen.checkpoint} has no offsets", "name the checkpoint of the query")
    newest = max(seen.offsets)
    _parse_offsets(seen.offsets[newest], f"offsets/{newest}")  # the topics come from here
    table = next((each for each in tables if each.table == seen.table), None)
    if table is None:
        raise Unclear(
            f"no table of the job that the query's topics fill has a {SINK_LOG}",
            "the query's directory must be <lake>/<database>.db/<table> of the job file; if it was "
            "adopted already, there is nothing left to do",
        )
    if seen.has_state:
        raise Unclear(
            "the query is stateful: its state may hold rows that are in no file yet",
            "write its result with a query in `sql`; only stateless queries can be adopted",
        )
    if seen.sources > 1:
        raise Unclear(
            f"the query reads {seen.sources} sources", "only queries of one Kafka source are known"
        )
    last = _last_batch(seen)
    named = _named_files(seen, table)
    next_of = _parse_offsets(seen.offsets[last], f"offsets/{last}")
    _require_last_files(table, named, last)
    strays = _find_strays(table, named)
    here = {each.path for each in table.visible}
    files = tuple(sorted(path for path in named if path in here))
    missing = len(named) - len(files)
    notes = [f"the query's last readable batch is {last}", _NOTE]
    if last not in seen.commits:
        notes.append(f"batch {last} is in {SINK_LOG}, though the query was stopped before its end")
    if newest > last:
        notes.append(f"batch {newest} was started but never became readable: it is landed again")
    if missing:
        notes.append(f"{missing} files that {SINK_LOG} names no longer exist")
    hides = names.join(table.path, SINK_LOG)
    return Former("Spark query", table.table, next_of, files, strays, hides, tuple(notes))


def _last_batch(seen: SparkSeen) -> int:
    compacts = [int(match[1]) for name in seen.sink if (match := _COMPACT.fullmatch(name))]
    first = max(compacts, default=-1)
    batches = sorted(int(name) for name in seen.sink if _BATCH.fullmatch(name))
    if batches != list(range(first + 1, first + 1 + len(batches))):
        missing = sorted(set(range(first + 1, max(batches))) - set(batches))
        raise Unclear(
            f"{SINK_LOG} has no batch {missing[0]}, and later ones",
            "restore it from a backup: without it, which files are readable is unknown",
        )
    last = max(batches, default=first)
    committed = max(seen.commits, default=-1)
    if last < 0:
        raise Unclear(
            "the query never finished a batch",
            "there is nothing to adopt: set in `first_start` where landing starts",
        )
    if committed > last:
        raise Unclear(
            f"batch {committed} is committed in the checkpoint, {SINK_LOG} ends at {last}", _NOT_ITS
        )
    if last > committed + 1 or max(seen.offsets) > last + 1 or last not in seen.offsets:
        raise Unclear(
            f"{SINK_LOG} ends at batch {last}; the checkpoint has commits up to {committed}, "
            f"offsets up to {max(seen.offsets)}",
            _NOT_ITS,
        )
    return last


def _parse_offsets(data: bytes, place: str) -> dict[StreamShard, int]:
    """Return the end of a batch. Raises Unclear."""
    try:
        sources = OffsetsFile.parse(data, place, versions=(1,)).sources
        if len(sources) != 1:
            raise Unclear(
                f"{place} names {len(sources)} sources", "only one Kafka source is supported"
            )
        ends = parse_kafka(sources[0].end or "", place)  # without an end: no JSON
    except CheckpointUnfit as error:
        raise Unclear(error.message, _HINTS.get(str(error.fields.get("why")), _NOT_ITS)) from None
    if not ends:
        raise Unclear(f"{place} has no Kafka offsets", _HINTS[Wrong.OTHER_SOURCE])
    return {
        StreamShard(topic, partition): offset
        for topic, partitions in ends.items()
        for partition, offset in partitions.items()
    }


def _named_files(seen: SparkSeen, table: TableSeen) -> dict[str, _SinkFile]:
    root = f"{seen.lake_path.rstrip('/')}/"
    found: dict[str, _SinkFile] = {}
    for name in sorted(seen.sink, key=lambda each: int(each.removesuffix(".compact"))):
        place = f"{SINK_LOG}/{name}"
        for line in _lines(seen.sink[name], place)[1:]:
            document = _parse_json(line, place)
            if not isinstance(document, dict):
                raise Unclear(f"{place} has a line without a file name", "restore it")
            path = unquote(urlsplit(str(document.get("path"))).path)
            inside = path.removeprefix(root)
            if inside == path or not inside.startswith(f"{table.path}/"):
                raise Unclear(
                    f"{place} names {path}, which is not in {root}{table.path}",
                    "was the table copied or moved since? Adopt it where the query wrote it",
                )
            modified = document.get("modificationTime")
            batch = int(name.removesuffix(".compact"))
            if document.get("action", "add") == "delete":
                found.pop(inside, None)
            else:
                time_ms = modified if isinstance(modified, int) else 0
                found[inside] = _SinkFile(time_ms, batch)
    return found


def _require_last_files(table: TableSeen, named: Mapping[str, _SinkFile], last: int) -> None:
    """Raise Unclear where a file of the last batch is gone: the newest is never removed on purpose.

    The last batch may stand in a compact file; then all files that it names are asked for.
    """
    here = {each.path for each in table.visible}
    missing = sorted(path for path, each in named.items() if each.batch == last)
    missing = [path for path in missing if path not in here]
    if missing:
        raise Unclear(
            f"{len(missing)} files of the query's last batch do not exist: {missing[0]}",
            "restore them, or land into a table of its own, from a time before (`first_start`)",
        )


def _find_strays(table: TableSeen, named: Mapping[str, _SinkFile]) -> tuple[str, ...]:
    """Return the files of failed attempts. Raises Unclear where that is not certain.

    A sink with a `retention` forgets its oldest files, which hold rows: a file that it does not
    name was a failed attempt only if it is younger than one that it does name.
    """
    unnamed = [
        each
        for each in table.orphans
        if each.path not in named and names.parse_final(names.leaf(each.path)) is None
    ]
    if not unnamed:
        return ()
    here = [each for each in table.visible if each.path in named]
    was_copied = any(
        abs(each.modified_ms - named[each.path].modified_ms) > _SAME_TIME_MS for each in here
    )
    oldest_ms = min((each.modified_ms for each in here), default=None)
    for each in unnamed:
        if not _is_failed_attempt(each, None if was_copied else oldest_ms):
            raise Unclear(
                f"{SINK_LOG} does not name {each.path}, and nothing shows that a failed attempt "
                "left it: the sink may have dropped it (`retention`), or another writer wrote it",
                "move it out of the table, or into a table of its own, by hand",
            )
    return tuple(each.path for each in unnamed)


def _is_failed_attempt(found: FileStat, oldest_ms: int | None) -> bool:
    is_part = _PART.fullmatch(names.leaf(found.path)) is not None
    return is_part and oldest_ms is not None and found.modified_ms >= oldest_ms


def _lines(data: bytes, place: str) -> list[str]:
    try:
        lines = data.decode().splitlines()
    except UnicodeDecodeError:
        raise Unclear(f"{place} is not text", "restore it") from None
    if not lines or lines[0] != _VERSION:
        found = lines[0][:20] if lines else "nothing"
        raise Unclear(f"{place} starts with {found!r}, only {_VERSION} is supported", _NOT_ITS)
    return lines


def _parse_json(line: str, place: str) -> object:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        raise Unclear(f"{place} has a line that is not JSON", "restore it") from None
