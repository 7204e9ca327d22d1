"""The landing log as a timeline that one can walk, and an entry of it.

What it promises: pure.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from ashore.base import codec
from ashore.fleet.server.pages.entry_words import describe, describe_closing
from ashore.log.entries import Entry, Prepare, Reland
from ashore.log.files import BatchPlace
from ashore.log.names import SliceName

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
