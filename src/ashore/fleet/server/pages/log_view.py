"""The landing log as a timeline that one can walk, and an entry of it, in words.

What it promises: pure; every kind of entry has its words; what an entry closed is shown with the
entry that closes it.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ashore.base import codec
from ashore.base.units import format_size
from ashore.log.entries import (
    Begin,
    Body,
    Commit,
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
from ashore.log.files import BatchPlace
from ashore.log.names import SliceName
from ashore.log.tables import TableDefinition

PAGE = 40
FILES_SHOWN = 200
DOCUMENT_MAX = 20_000


@dataclass(frozen=True, slots=True)
class LogStep:
    """An entry in the timeline."""

    number: int
    kind: str
    epoch: int
    written_ms: int
    text: str
    closes: str
    closed_entry: int | None
    is_new_epoch: bool  # another writer than that of the entry before


@dataclass(frozen=True, slots=True)
class LogView:
    """A part of a log, newest entry first."""

    slice: str
    slices: tuple[str, ...]
    steps: tuple[LogStep, ...]
    end: int
    older: int | None  # the `to` of the next page
    newer: int | None


def page_of(end: int, to: int | None) -> tuple[int, int]:
    """Return first and end of the numbers that a page shows. `to`: the newest; None: the end."""
    newest = end if to is None else max(0, min(to, end))
    return max(0, newest + 1 - PAGE), newest + 1


def view_log(
    name: SliceName, slices: Sequence[SliceName], entries: Sequence[Entry], end: int
) -> LogView:
    """Return a page of a log. `entries`: in order, those that are shown and the one before."""
    epochs = {each.number: each.epoch for each in entries}
    steps = [
        LogStep(
            each.number,
            each.kind,
            each.epoch,
            each.written_ms,
            describe(each.body),
            describe_closing(each),
            each.closing.entry if each.closing else None,
            epochs.get(each.number - 1, each.epoch) != each.epoch,
        )
        for each in entries[-PAGE:]
    ]
    first, last = (steps[0].number, steps[-1].number) if steps else (0, end)
    return LogView(
        name.slice,
        tuple(each.slice for each in slices),
        tuple(reversed(steps)),
        end,
        first - 1 if first > 0 else None,
        min(end, last + PAGE) if last < end else None,
    )


@dataclass(frozen=True, slots=True)
class ListedFile:
    """A file that an entry lists."""

    path: str
    table: str
    rows: int
    size_bytes: int


@dataclass(frozen=True, slots=True)
class EntryView:
    """An entry with all that it says."""

    slice: str
    step: LogStep
    previous: str
    checksum: str
    files: tuple[ListedFile, ...]
    hidden: int  # files that are not shown
    document: str  # its body as JSON
    end: int


def view_entry(name: SliceName, entry: Entry, end: int) -> EntryView:
    """Return the page of an entry."""
    step = view_log(name, (), (entry,), end).steps[0]
    files = _files_of(name, entry)
    document = json.dumps(codec.encode(entry.body), indent=1, ensure_ascii=False)
    is_cut = len(document) > DOCUMENT_MAX
    return EntryView(
        name.slice,
        step,
        entry.previous or "none: it is the first",
        entry.checksum,
        tuple(files[:FILES_SHOWN]),
        max(0, len(files) - FILES_SHOWN),
        document[:DOCUMENT_MAX] + ("\n... cut: the file of the entry has all" if is_cut else ""),
        end,
    )


def _files_of(name: SliceName, entry: Entry) -> list[ListedFile]:
    body = entry.body
    if not isinstance(body, Prepare | Reland):
        return []
    place = BatchPlace(name, entry.epoch, body.batch)
    return [
        ListedFile(
            place.place(each, body.targets[each.target]).final,
            body.targets[each.target].table,
            each.rows,
            each.size_bytes,
        )
        for each in body.files
    ]


NAMED_MAX = 3


def describe(body: Body) -> str:
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
