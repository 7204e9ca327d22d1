"""An entry in the log of a source of files, compared with the files.

What it is: `compare_with_files`, and `list_named`, the files that a log names.
What it promises: a path counts as proven only where a file is there with the time that the line
says. A file that is gone proves nothing: sources delete and archive what they have read.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from urllib.parse import unquote

# Returns the files in a directory: when each was modified, by name; None: it cannot be listed.
ListFiles = Callable[[str], Mapping[str, int] | None]
Named = frozenset[tuple[str, str]]  # directory and name of each file


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
    """A file that a source has seen: its directory, its name, and when it was modified."""

    directory: str
    name: str
    modified_ms: int


def list_named(log: Iterable[bytes]) -> Named:
    """Return the files that the entries of a log name."""
    return frozenset((each.directory, each.name) for data in log for each in _parse(data))


def compare_with_files(entry: bytes, named: Named, list_files: ListFiles) -> Compared:
    """Compare an entry, which can be parsed, with the files that it names.

    Arguments:
        entry: its bytes.
        named: by all entries of the same log: these files have been seen as well.
        list_files: of a directory.

    """
    is_proven = True
    for each in _parse(entry):
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


def _parse(entry: bytes) -> Iterator[_Seen]:
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
            case _:
                pass
