"""Small files that are replaced whole, and lines that are appended whole.

What it promises: a reader sees the old content or the new one, never a part; after a power cut
likewise. A file that is missing or damaged is None: who reads it decides what that means.
What it must not know: what is in them.
"""

import contextlib
import json
import os
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ashore.base import codec
from ashore.base.codec import Malformed
from ashore.base.unique import unique

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

T = TypeVar("T")
BYTES_MAX = 8 << 20  # of a file that is read
FileMark = tuple[int, int, int]


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
    """Replace a file that somebody wrote, and keep who may read it; a new one is for its owner.

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


def append_line(path: Path, document: Mapping[str, object], mode: int = 0o600) -> None:
    """Append an object as a line, in one call. Raises OSError."""
    line = json.dumps(document, default=str) + "\n"
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, mode)
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


def rotate(path: Path, bytes_max: int, kept: int) -> None:
    """Move a file that has grown too large aside: `NAME.1` is the newest of the `kept` ones."""
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
