"""Small JSON files that services leave for the next process.

What it promises: a reader sees a whole note or none; a damaged note is named, never guessed at.
What it must not know: what is noted.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from ashore.errors import ServiceError

Value = str | int


def write_note(path: Path, note: Mapping[str, Value]) -> None:
    """Write `note`, replacing what was there. Missing parent directories are made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(f".{path.name}")
    fresh.write_text(json.dumps(note), "utf-8")
    fresh.replace(path)


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
            hint="see whether processes of this service still run, then remove its directory",
            path=str(path),
        )
    return note
