"""The log of the files that a source of files has seen: `sources/<source>/<entry>`.

What it is: `check_entry`, for the bytes of an entry; `find_wrong_ends`, for the offsets that name
entries; `list_last_entries`; `compare_with_files`, for the files that entries name.
What it promises: pure. An entry that lacks whole lines at its end is noticed only in a compacted
one: nothing else says how many files a batch has found. A path counts as proven only where a file
is there with the time that the line says; a file that is gone proves nothing: sources delete and
archive what they have read.

    sources/0/5             v1
                            {"path":"file:///data/in/5.json","timestamp":1795431432209,"batchId":5}
    sources/0/9.compact     the same of all entries up to 9, in their order
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

from ashore.queries.state.files import CheckpointFile
from ashore.queries.state.layout import OffsetsFile, SourcePath, is_number
from ashore.queries.state.required_files import COMPACTED, have_shared_logs, parse_log_offset

# Returns the files in a directory: when each was modified, by name; None: it cannot be listed.
ListFiles = Callable[[str], Mapping[str, int] | None]
Named = frozenset[tuple[str, str]]  # directory and name of each file


def check_entry(path: SourcePath, data: bytes) -> str | None:
    """Return what is wrong with an entry of the log of a source of files."""
    number = _number(path)
    if number is None:
        return None
    try:
        version, *lines = data.decode().split("\n")
    except UnicodeDecodeError:
        return "it is not text"
    if version != "v1":
        return f"it starts with {version[:20]!r}, only v1 is supported"
    batches = []
    for line in lines:
        batch = _batch_of(line)
        if batch is None:
            return "a line is not that of a file: it has no path, timestamp and batchId"
        batches.append(batch)
    if not batches or batches[-1] != number:
        return f"it does not end with a file of entry {number}"
    is_compacted = path.rest.endswith(COMPACTED)
    if is_compacted and batches != sorted(batches):
        return "its entries are not in order"
    wrong = next((each for each in batches if each != number), None)
    return None if is_compacted or wrong is None else f"a line says entry {wrong}"


def _batch_of(line: str) -> int | None:
    """Return the entry that a line is of; None: the line is none."""
    try:
        match json.loads(line):
            case {"path": str(path), "timestamp": int(), "batchId": int(batch)} if path:
                return batch
            case _:
                return None
    except (ValueError, RecursionError):
        return None


def list_last_entries(files: Iterable[CheckpointFile]) -> dict[str, int]:
    """Return the last entry of each source's log."""
    found: dict[str, int] = {}
    for each in files:
        match each.of:
            case SourcePath(source) as path if (number := _number(path)) is not None:
                found[source] = max(number, found.get(source, number))
    return found


def find_wrong_ends(offsets: Mapping[int, OffsetsFile], last: Mapping[str, int]) -> dict[int, str]:
    """Return what is wrong with the `logOffset` of batches: it is past the log, or goes back.

    `last`: the last entry of each source's log.
    """
    wrong: dict[int, str] = {}
    ends: dict[str, list[tuple[int, int]]] = {}
    for batch in sorted(offsets):
        lines = {each.source: parse_log_offset(each.end) for each in offsets[batch].sources}
        is_shared = have_shared_logs(lines, last)
        for source, end in lines.items():
            if end is None:
                continue
            entry = max(last.values()) if is_shared else last.get(source, end)
            if end > entry:
                wrong[batch] = (
                    f"source {source} ends at logOffset {end}, and its log at entry {entry}"
                )
            else:
                ends.setdefault(source, []).append((batch, end))
    for source, found in ends.items():
        before = -1
        for at, (batch, end) in enumerate(found):
            after = found[at + 1][1] if at + 1 < len(found) else end
            if before <= after < end:  # the next one follows the one before, this one does not
                wrong[batch] = f"source {source} ends at logOffset {end}, after it at {after}"
            elif end < before:
                wrong[batch] = f"source {source} ends at logOffset {end}, before it at {before}"
            else:
                before = end
    return wrong


def _number(path: SourcePath) -> int | None:
    name = path.rest.removesuffix(COMPACTED)
    return int(name) if is_number(name) else None


# ---- the files that entries name


@dataclass(frozen=True, slots=True)
class Compared:
    """How an entry compares with the files.

    Arguments:
        wrong: what is wrong with it; None where nothing was found.
        is_proven: whether each file is there, with the time that the entry says.

    """

    wrong: str | None
    is_proven: bool


@dataclass(frozen=True, slots=True)
class _Seen:
    directory: str
    name: str
    modified_ms: int


def list_named(log: Iterable[bytes]) -> Named:
    """Return the files that the entries of a log name."""
    return frozenset((each.directory, each.name) for data in log for each in _parse_files(data))


def compare_with_files(entry: bytes, named: Named, list_files: ListFiles) -> Compared:
    """Compare an entry, which can be parsed, with the files that it names.

    Arguments:
        entry: its bytes.
        named: by all entries of the same log: these files have been seen as well.
        list_files: of a directory.

    """
    is_proven = True
    for each in _parse_files(entry):
        there = list_files(each.directory)
        if there is not None and there.get(each.name) == each.modified_ms:
            continue
        is_proven = False
        if there is None or each.name in there:
            continue
        alike = (
            name
            for name, modified_ms in sorted(there.items())
            if modified_ms == each.modified_ms and (each.directory, name) not in named
        )
        other = next(alike, None)
        if other is not None:
            text = f"it names {each.directory}/{each.name}, which does not exist; {other} has its"
            return Compared(f"{text} time, and no entry names it", is_proven=False)
    return Compared(None, is_proven)


def _parse_files(entry: bytes) -> Iterator[_Seen]:
    """Yield the files of an entry. Lines that are none are left out: they are judged elsewhere."""
    for line in entry.decode(errors="replace").split("\n")[1:]:
        try:
            found = json.loads(line)
        except (ValueError, RecursionError):
            continue
        match found:
            case {"path": str(path), "timestamp": int(modified_ms)}:
                directory, _, name = unquote(path).rpartition("/")
                yield _Seen(directory, name, modified_ms)
