"""Small JSON files that services leave for the next process.

What it promises: a reader sees a whole note or none; what is chosen once is chosen by one process,
however many ask at the same time; a damaged note is named, never guessed at.
"""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from uuid import uuid4

from ashore.errors import ServiceError

Value = str | int


def write_note(path: Path, note: Mapping[str, Value]) -> None:
    """Write `note`, replacing what was there. Missing parent directories are made."""
    _write_beside(path, note).replace(path)


def choose_once(
    path: Path, keys: tuple[str, ...], choose: Callable[[], Mapping[str, Value]]
) -> dict[str, Value]:
    """Return the note at `path`, which is `choose()` if there is none yet.

    Of processes that choose at the same time one is the first, and all return what it chose.
    Raises ServiceError unless the note has all `keys`.
    """
    if (known := read_note(path, keys)) is not None:
        return known
    fresh = _write_beside(path, choose())
    try:
        os.link(fresh, path)  # unlike a rename it fails where another was first
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
    chosen = read_note(path, keys)
    if chosen is None:
        raise ServiceError(f"{path} was removed while it was read", path=str(path))
    return chosen


def read_note(path: Path, keys: tuple[str, ...]) -> dict[str, Value] | None:
    """Return the note, or None if there is none. Raises ServiceError unless it has all `keys`."""
    try:
        note = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        note = None
    if not isinstance(note, dict) or not all(isinstance(note.get(k), str | int) for k in keys):
        raise ServiceError(
            f"{path} is damaged",
            hint="check whether processes of this service still run, then remove its directory",
            path=str(path),
        )
    return note


def _write_beside(path: Path, note: Mapping[str, Value]) -> Path:
    """Write the note to a new file in the directory of `path`; return the file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}.{uuid4().hex}")
    fresh.write_text(json.dumps(note), "utf-8")
    return fresh
