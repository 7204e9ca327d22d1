"""Records that servers share: `Records`, and `LocalRecords`, which keeps them as files.

What it promises: a reader sees the old content or the new one, never a part; after a power cut
likewise. A record that is missing or damaged is None: its reader decides what that means. The
functions on paths below promise the same of files that only one machine uses.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.base.unique import unique

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
BYTES_MAX = 8 << 20  # of a file that is read
FileMark = tuple[int, int, int]


class Records(Protocol):
    """Records by name, such as `desired/clicks.json`. Calls that write raise OSError."""

    def mark(self, name: str) -> FileMark:
        """Return what differs once a record was replaced; all 0: there is none."""
        ...

    def read(self, kind: type[T], name: str) -> T | None:
        """Return a record; None: there is none, or something else."""
        ...

    def replace(self, name: str, record: "DataclassInstance") -> None:
        """Write a record in place of the one before, if any."""
        ...

    def remove(self, name: str) -> None:
        """Remove a record, if there is one."""
        ...

    def list(self, folder: str) -> list[str]:
        """Return the names of the records in a folder, below it; none where it cannot be read."""
        ...

    def append(self, name: str, line: Mapping[str, object], bytes_max: int, kept: int) -> None:
        """Append a line to a record of lines: of older ones, `kept` times `bytes_max` are kept."""
        ...

    def lines(self, name: str, bytes_max: int, *, older: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the newest lines of a record, the oldest first, with `older` those moved aside."""
        ...


class LocalRecords:
    """Records as files below a directory. May be used by many threads."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def mark(self, name: str) -> FileMark:
        """Return what differs once a record was replaced."""
        return mark_of(self._root / name)

    def read(self, kind: type[T], name: str) -> T | None:
        """Return a record; None: there is none, or something else."""
        return read_record(kind, self._root / name)

    def replace(self, name: str, record: "DataclassInstance") -> None:
        """Write a record in place of the one before, if any."""
        write_record(self._root / name, record)

    def remove(self, name: str) -> None:
        """Remove a record, if there is one."""
        (self._root / name).unlink(missing_ok=True)

    def list(self, folder: str) -> list[str]:
        """Return the names of the records in a folder."""
        try:
            found = [each.name for each in (self._root / folder).iterdir()]
        except OSError:
            return []
        return [each for each in found if not each.startswith(".")]

    def append(self, name: str, line: Mapping[str, object], bytes_max: int, kept: int) -> None:
        """Append a line to a record of lines."""
        append_line(self._root / name, line, bytes_max, kept)

    def lines(self, name: str, bytes_max: int, *, older: bool = False) -> Iterator[dict[str, Any]]:
        """Yield the newest lines of a record."""
        path = self._root / name
        aside = [path.with_name(f"{path.name}.{number}") for number in range(9, 0, -1)]
        for each in (*(aside if older else ()), path):
            yield from read_lines(each, bytes_max)


def mark_of(path: Path) -> FileMark:
    """Return what differs once a file was replaced or written: its time, size and number.

    Of a file that cannot be looked at all three are 0.
    """
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_mtime_ns, found.st_size, found.st_ino)


def write_text(
    path: Path, text: str, mode: int = 0o644, owner: tuple[int, int] | None = None
) -> None:
    """Replace a file. Raises OSError; the old content is there still.

    `owner`: user and group that it is to belong to, if this process may say so; with it the mode
    is exact, else the process's mask applies.
    """
    made = path.with_name(f".{path.name}.{unique()}")
    try:
        handle = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            if owner is not None:
                with contextlib.suppress(PermissionError):
                    os.fchown(handle, *owner)
                os.fchmod(handle, mode)
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        made.replace(path)
    except BaseException:
        made.unlink(missing_ok=True)
        raise
    _sync_directory(path.parent)


def replace_text(path: Path, text: str) -> None:
    """Replace a file that a person wrote, and keep who may read it; a new one is for its owner.

    Raises OSError; the old content is there still.
    """
    try:
        found = path.stat()
    except FileNotFoundError:
        write_text(path, text, 0o600)
        return
    write_text(path, text, stat.S_IMODE(found.st_mode), (found.st_uid, found.st_gid))


def write_record(path: Path, record: "DataclassInstance", mode: int = 0o644) -> None:
    """Replace a file with a record. Raises OSError."""
    write_text(path, json.dumps(codec.encode_object(record), indent=1) + "\n", mode)


def write_hint(path: Path, text: str) -> None:
    """Replace a file that may be lost in a power cut: nothing is synced. An error is no error."""
    made = path.with_name(f".{path.name}.{os.getpid()}")
    with contextlib.suppress(OSError):
        made.write_text(text, "utf-8")
        made.replace(path)


def read_record(kind: type[T], path: Path) -> T | None:
    """Return the record in a file; None: there is none, or something else."""
    try:
        with path.open("rb") as file:
            return codec.decode(kind, json.loads(file.read(BYTES_MAX)))
    except (OSError, ValueError, RecursionError, Malformed):
        return None


def append_line(path: Path, document: Mapping[str, object], bytes_max: int, kept: int) -> None:
    """Append an object as a line, in one call. Raises OSError.

    A file that has grown to `bytes_max` is moved aside before: `NAME.1` is the newest of the `kept`
    ones.
    """
    _rotate(path, bytes_max, kept)
    line = json.dumps(document, default=str) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(handle, line.encode())
    finally:
        os.close(handle)


def read_lines(path: Path, bytes_max: int = BYTES_MAX) -> Iterator[dict[str, object]]:
    """Yield the objects of the newest lines, the oldest first. A damaged line is passed over."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(0, size - bytes_max))
            if size > bytes_max:
                file.readline()  # a part of a line
            content = file.read()
    except OSError:
        return
    for line in content.splitlines():
        with contextlib.suppress(ValueError):
            found = json.loads(line)
            if isinstance(found, dict):
                yield found


def _rotate(path: Path, bytes_max: int, kept: int) -> None:
    try:
        if path.stat().st_size < bytes_max:
            return
    except OSError:
        return
    for number in range(kept - 1, 0, -1):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(f"{path.name}.{number}").replace(
                path.with_name(f"{path.name}.{number + 1}")
            )
    with contextlib.suppress(FileNotFoundError):
        path.replace(path.with_name(f"{path.name}.1"))


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
