"""What of a job's last records became no row or has no usable time, from its log and its topics.

What it promises: reads only; a slice without a bad record costs nothing. A process that looks
repeatedly reads an entry once.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from ashore.base.recent import Recent
from ashore.jobs.file import match_topics
from ashore.log.entries import Prepare
from ashore.log.fold import Fold
from ashore.log.names import SliceName
from ashore.log.store.walk import read_window
from ashore.topics.loop.job import landing_spec
from ashore.topics.loop.samples import (
    FILES_MAX,
    HINT,
    TABLES_MAX,
    TOPICS_MAX,
    UNKNOWN,
    FooterLook,
    NullColumn,
    PlacedFile,
    SampledRecord,
    explain_times,
    find_null_columns,
    place_files,
    read_samples,
)
from ashore.topics.loop.shares import (
    DEAD,
    DROPPED,
    OF_QUERIES,
    OF_TOPICS,
    BadShare,
    BatchShares,
    count_filtered,
    describe_filtered,
    find_bad,
    summarize,
)
from ashore.topics.loop.sinks import UNDECODABLE
from ashore.topics.open_job import OpenJob
from ashore.topics.write.batch import LandingSpec

ENTRIES = 200  # the newest, are looked through
KNOWN_MAX = 20_000
CHARS_MAX = 200  # of a condition or a record

_known = Recent[tuple[str, SliceName, int], tuple[BatchShares | None]](KNOWN_MAX)

_HINTS = {
    DEAD: "look at the dead letters, and compare `schema` with the records; land them again from "
    "Kafka once the schema is right",
    DROPPED: "with `on_invalid: dead_letter` they are kept, with why each is invalid; compare "
    "`schema` with the records",
    UNDECODABLE: "compare `schema` of the views with the records; where their topics land too, "
    "such records are dead letters there, with why",
}
_HINT_TIMES = "compare `event_time` with the records: its column, `unit` and `format`"
_FILED = {
    "no_event_time": ", and are filed by the time of their batch",
    "far_future": ", and are filed by the time of their batch",
    "near_1970": ", as times that are read in a wrong unit, and 0",
    "records_near_1970": ", as times that are read in a wrong unit, and 0",
}


class RecordWarning(NamedTuple):
    """Records, or values of a column, that need attention.

    `kind`: one of `proof.status.health.OF_RECORDS`. `subject`: tables.
    """

    kind: str
    subject: str
    text: str
    hint: str


def find_warnings(
    opened: OpenJob,
    name: SliceName,
    fold: Fold,
    explain: Callable[[OpenJob, str], str] = lambda _opened, _table: "",
) -> Iterator[RecordWarning]:
    """Yield what needs attention. Raises LogDamaged, StorageError.

    `explain`: returns the end of a sentence about the dead letters of a table.
    """
    yield from _find_bad_shares(opened, name, fold, explain)
    yield from _find_filtered(opened, name, fold)
    # Columns that are NULL in each row, though records have a field of nearly the same name.
    for each in _look_for_nulls(opened, name, fold):
        yield RecordWarning("null_column", each.table, each.text, HINT)


def _find_bad_shares(
    opened: OpenJob, name: SliceName, fold: Fold, explain: Callable[[OpenJob, str], str]
) -> Iterator[RecordWarning]:
    health, counters = opened.job.health, fold.counters
    has_bad = any(counters.get(kind) for kind in (*OF_TOPICS, *OF_QUERIES))
    if not (has_bad or any(each.dead or each.dropped for each in fold.shards.values())):
        return
    for each in find_bad(_newest(opened, name, fold.end), health.records, health.max_share):
        if each.kind in _HINTS:
            why = explain(opened, each.tables[0]) if each.kind == DEAD else ""
        else:
            is_filed = not (each.is_of_query and each.kind == "far_future")
            why = _FILED.get(each.kind, "") if is_filed else ""
            why += _explain_times(opened, fold, each)
        hint = _HINTS.get(each.kind, _HINT_TIMES)
        yield RecordWarning("bad_records", ", ".join(each.tables), f"{each.text}{why}", hint)


_HINT_FILTER = (
    "compare `where` with the records; where it is right that no record passes, raise "
    "`health.records`"
)


def _find_filtered(opened: OpenJob, name: SliceName, fold: Fold) -> Iterator[RecordWarning]:
    if name != opened.name:
        return  # of a query, which has its conditions in its SQL
    specs, least = _specs(opened, fold), opened.job.health.records
    conditions: dict[str, set[str]] = {}
    for spec in specs.values():
        if spec.where:
            conditions.setdefault(spec.table, set()).add(spec.where)
    filtered, landed = dict.fromkeys(conditions, 0), set[str]()
    for key, state in fold.shards.items():
        table = specs[key.stream].table if key.stream in specs else None
        if table in filtered:
            filtered[table] += state.filtered
            landed |= {table} if state.landed else set()
    filtered = {table: count for table, count in filtered.items() if count >= least}
    newest = filtered.keys() & landed  # what landed may be of another `where`
    if newest:
        filtered |= count_filtered(_newest(opened, name, fold.end), newest)
    for table, count in sorted(filtered.items()):
        if count >= least:
            where = "; ".join(sorted(conditions[table]))
            text = f"{describe_filtered(table, count)}: {_clip(where)}"
            text += _show_sample(opened, fold, specs, table)
            yield RecordWarning("all_filtered", table, text, _HINT_FILTER)


def _show_sample(opened: OpenJob, fold: Fold, specs: Mapping[str, LandingSpec], table: str) -> str:
    for topic in [each for each, spec in specs.items() if spec.table == table][:TOPICS_MAX]:
        for sample in read_samples(opened.source, fold, topic, 1):
            return f"; {sample.place} is {_clip(json.dumps(sample.fields))}"
    return ""


def _clip(text: str) -> str:
    return text if len(text) <= CHARS_MAX else f"{text[:CHARS_MAX]}..."


def _newest(opened: OpenJob, name: SliceName, end: int) -> Iterator[BatchShares]:
    for number in range(end, max(-1, end - ENTRIES), -1):
        found = _summary(opened, name, number)
        if found is not None:
            yield found


def _summary(opened: OpenJob, name: SliceName, number: int) -> BatchShares | None:
    key = opened.storage.describe(), name, number
    known = _known.get(key)
    if known is not None:
        return known[0]
    found = None
    for entry in read_window(opened.storage, name, number, number + 1):
        found = summarize(entry.body, name.slice) if isinstance(entry.body, Prepare) else None
    return _known.put(key, (found,))[0]


def _explain_times(opened: OpenJob, fold: Fold, share: BadShare) -> str:
    """Return what a record has for its event time; empty: not known."""
    specs = _specs(opened, fold)
    read = [topic for topic, spec in specs.items() if spec.output.event is not None]
    if not share.is_of_query:
        read = [topic for topic in read if specs[topic].table in share.tables]
    for topic in read[:TOPICS_MAX]:
        event = specs[topic].output.event
        samples = read_samples(opened.source, fold, topic)
        text = explain_times(event, samples) if event else ""
        if text:
            return f"; {text}"
    return ""


def _specs(opened: OpenJob, fold: Fold) -> dict[str, LandingSpec]:
    topics = sorted({key.stream for key in fold.shards})
    matched = [topic for topic in topics if any(each.matches(topic) for each in opened.job.tables)]
    return {topic: landing_spec(each) for topic, each in match_topics(opened.job, matched).items()}


LOOK_MS = 600_000  # who looks again and again looks at files once in so long

_looked = Recent[tuple[str, SliceName], tuple[int, int, tuple[NullColumn, ...]]](KNOWN_MAX)


def _look_for_nulls(opened: OpenJob, name: SliceName, fold: Fold) -> tuple[NullColumn, ...]:
    key, now_ms = (opened.storage.describe(), name), opened.clock.now_ms()
    known = _looked.get(key)
    if known is not None:
        end, at_ms, found = known
        if end == fold.end or (not found and 0 <= now_ms - at_ms < LOOK_MS):
            return found
    found = tuple(_nulls(opened, name, fold))
    return _looked.put(key, (fold.end, now_ms, found))[2]


def _nulls(opened: OpenJob, name: SliceName, fold: Fold) -> Iterator[NullColumn]:
    specs, records = _specs(opened, fold), opened.job.health.records
    tables: dict[str, list[str]] = {}
    for topic, spec in specs.items():
        if name == opened.name or not _is_landed(opened, topic):
            tables.setdefault(spec.table, []).append(topic)
    files = _files(opened, name, fold.end, tables) if name == opened.name else None
    for table, topics in list(tables.items())[:TABLES_MAX]:
        own = None if files is None else files.get(table, [])
        has_unknown = UNKNOWN in fold.counters
        look = None if own is None else FooterLook(opened.storage, own, records, has_unknown)

        def read(topics: list[str] = topics[:TOPICS_MAX]) -> list[SampledRecord]:
            return [each for topic in topics for each in read_samples(opened.source, fold, topic)]

        yield from find_null_columns(specs[topics[0]], look, read)


def _is_landed(opened: OpenJob, topic: str) -> bool:
    return any(each.is_landed and each.matches(topic) for each in opened.job.tables)


def _files(
    opened: OpenJob, name: SliceName, end: int, tables: Iterable[str]
) -> dict[str, list[PlacedFile]]:
    found: dict[str, list[PlacedFile]] = {table: [] for table in tables}
    rows = dict.fromkeys(found, 0)
    for number in range(end, max(-1, end - ENTRIES), -1):
        if all(count >= opened.job.health.records for count in rows.values()):
            break
        for entry in read_window(opened.storage, name, number, number + 1):
            if isinstance(entry.body, Prepare):
                for file in place_files(name, entry.epoch, entry.body):
                    if len(found.get(file.table, [None] * FILES_MAX)) < FILES_MAX:
                        found[file.table].append(file)
                        rows[file.table] += file.rows
    return found
