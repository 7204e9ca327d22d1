"""The landing log as a timeline that one can walk, and an entry of it, in words.

What it promises: pure; every kind of entry has its words; what an entry closed is shown with the
entry that closes it.
"""

import json
from collections.abc import Sequence

from ashore.base import codec
from ashore.base.units import format_size
from ashore.log.entries import (
    Begin,
    Body,
    Commit,
    Compact,
    Define,
    Entry,
    Join,
    LeaveOut,
    Migrate,
    Open,
    Plan,
    Prepare,
    Reland,
    ResetClock,
    Retire,
    Rollback,
    Seal,
    Skip,
    Version,
)
from ashore.log.files import BatchPlace, DataFile
from ashore.log.names import SliceName
from ashore.log.tables import TableDefinition

PAGE = 40
FILES_SHOWN = 200
DOCUMENT_MAX = 20_000


def page_of(end: int, to: int | None) -> tuple[int, int]:
    """Return first and end of the numbers that a page shows. `to`: the newest; None: the end."""
    newest = end if to is None else max(0, min(to, end))
    return max(0, newest + 1 - PAGE), newest + 1


def view_log(name: SliceName, entries: Sequence[Entry], end: int) -> dict[str, object]:
    """Return what a page of a log shows, by the names of its template.

    `entries`: in order, those that are shown and the one before; `end`: the last of the log.
    """
    epochs = {each.number: each.epoch for each in entries}
    shown = [
        (each, epochs.get(each.number - 1, each.epoch) != each.epoch) for each in entries[-PAGE:]
    ]
    first, last = (shown[0][0].number, shown[-1][0].number) if shown else (0, end)
    return {
        "slice": name.slice,
        "entries": shown[::-1],  # with whether the one before is another writer's
        "end": end,
        "older": first - 1 if first > 0 else None,  # the `to` of the next page
        "newer": min(end, last + PAGE) if last < end else None,
    }


def view_entry(name: SliceName, entry: Entry) -> dict[str, object]:
    """Return what the page of an entry shows, by the names of its template."""
    files = _files_of(name, entry)
    document = json.dumps(codec.encode(entry.body), indent=1, ensure_ascii=False)
    cut = "\n... cut: the file of the entry has all" if len(document) > DOCUMENT_MAX else ""
    return {
        "slice": name.slice,
        "entry": entry,
        "files": files[:FILES_SHOWN],
        "hidden": max(0, len(files) - FILES_SHOWN),
        "document": document[:DOCUMENT_MAX] + cut,
    }


def _files_of(name: SliceName, entry: Entry) -> list[tuple[str, str, DataFile]]:
    """Return the files that an entry lists, each with its path and its table."""
    body = entry.body
    if not isinstance(body, Prepare | Reland | Compact):
        return []
    place, targets = BatchPlace(name, entry.epoch, body.batch), body.targets
    return [
        (place.place(each, targets[each.target]).final, targets[each.target].table, each)
        for each in body.files
    ]


NAMED_MAX = 3


def describe_entry(body: Body) -> str:
    """Return what an entry says."""
    match body:
        case Open():
            return f"a writer begins: process {body.process} on {body.host}, release {body.version}"
        case Join():
            return "begins to read " + _some(
                [f"{each.key} at {each.first_offset} ({each.policy})" for each in body.shards]
            )
        case Prepare():
            return _describe_prepare(body)
        case Commit():
            return f"the log is closed: {body.reason}"
        case Seal():
            return "sealed " + _some(
                [f"{each.table} {each.partition} ({each.rows:,} rows)" for each in body.partitions]
            )
        case _:
            return _describe_rare(body)


def _describe_rare(body: Body) -> str:
    match body:
        case Compact():
            table, new = body.commit.table, len(body.files)
            return f"{table}: {len(body.replaced):,} files are put together, as {new:,}"
        case Reland():
            return f"batch {body.batch}: {len(body.lost)} lost files were written again"
        case Skip():
            skipped = _some([f"{each.key} {each.offsets}" for each in body.ranges])
            lost = f"; {len(body.lost)} files given up" if body.lost else ""
            return f"{body.by} skipped {skipped or 'nothing'}{lost}: {body.why}"
        case Retire():
            dropped = _some([f"{each.table} {each.partition}" for each in body.partitions])
            return f"{body.by} dropped {dropped}: {body.why}"
        case Rollback():
            target = f"back to entry {body.entry}: {len(body.files)} files set aside"
            return f"{body.by} rolled {target}: {body.why}"
        case Migrate():
            return f"{body.by} rewrote the state of batch {body.batch} for other SQL: {body.why}"
        case Begin():
            return f"{body.by} continues from a savepoint, {body.savepoint}: {body.why}"
        case ResetClock():
            return f"{body.by} set the clock of the log back: {body.why}"
        case _:
            return _describe_query(body)


def _describe_query(body: Body) -> str:
    match body:
        case Version():
            return f"version {body.version} of the job, from batch {body.batch} on"
        case LeaveOut():
            return f"{len(body.records)} records are left out as dead letters"
        case Plan():
            return "another plan of the query"
        case Define() if body.changes or body.accepted:
            changes = "; ".join([*body.changes, *body.accepted])
            return changes + (f"; accepted by {body.by}" if body.by else "")
        case Define():
            tables = _some([_describe_table(each) for each in body.tables])
            return f"columns of {tables}" + (f", accepted by {body.by}" if body.by else "")
        case _:
            return ""


def _describe_table(table: TableDefinition) -> str:
    topics = ", ".join(table.topics)
    return f"{table.table} (topic {topics})" if topics else table.table


def _describe_prepare(body: Prepare) -> str:
    rows = sum(each.rows for each in body.files)
    size = format_size(sum(each.size_bytes for each in body.files))
    fetched = sum(each.fetched for each in body.shards)
    dead = sum(each.dead for each in body.shards)
    text = f"batch {body.batch} counts: {rows:,} rows in {len(body.files)} files, {size}"
    text += f"; {fetched:,} records fetched" if body.query is None else ""
    return text + (f", {dead:,} dead" if dead else "")


def describe_closing(entry: Entry) -> str:
    """Return what an entry says of the one that it closes; empty: it closes none."""
    closing = entry.closing
    if closing is None:
        return ""
    parts = []
    if closing.entry is not None:
        parts.append(f"closes entry {closing.entry}")
    if closing.moved or closing.already_moved:
        parts.append(f"{closing.moved + closing.already_moved} files are in their tables")
    if closing.deferred:
        parts.append(f"{len(closing.deferred)} actions deferred")
    if closing.done:
        parts.append(f"{len(closing.done)} deferred actions done")
    parts += [f"{each.action} failed {each.times} times: {each.error}" for each in closing.failed]
    return ", ".join(parts)


def _some(texts: list[str]) -> str:
    more = len(texts) - NAMED_MAX
    return ", ".join(texts[:NAMED_MAX]) + (f" and {more} more" if more > 0 else "")
