"""The manifest of a savepoint: which files it has, and that they are what was copied.

What it promises: pure. Any bytes give a manifest or CheckpointUnfit, which names the file; what is
written parses to the same value. A manifest that was cut short or edited is refused.
What it must not know: storages.

One line of JSON without spaces, and a line feed; `docs/formats/savepoint.md` describes it.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from ashore.checkpoints.layout import HiddenPath, parse_path
from ashore.errors import CheckpointUnfit

FORMAT_VERSION = 1
_HINT = "choose another savepoint: `ashore checkpoint list DIR` shows them"
_KEYS = {
    *("format_version", "query_id", "batch", "planned", "made_ms"),
    *("source", "release", "files", "checksum"),
}


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a savepoint."""

    path: str  # below its `checkpoint`
    size_bytes: int
    checksum: str  # BLAKE2b-64, hexadecimal


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a savepoint is.

    Arguments:
        query_id: of the query that the checkpoint is of.
        batch: the last one that is done in it.
        planned: the last one that has offsets: the batch, or the one after.
        made_ms: when it was taken, in milliseconds since 1970 UTC.
        source: where the checkpoint was, as an address.
        release: of Ashore, that took it.
        files: all of them, sorted by path.

    """

    query_id: str
    batch: int
    planned: int
    made_ms: int
    source: str
    release: str
    files: tuple[SavedFile, ...]

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(each.size_bytes for each in self.files)


def write_manifest(manifest: Manifest) -> bytes:
    """Return the file."""
    document: dict[str, object] = {
        "format_version": FORMAT_VERSION,
        "query_id": manifest.query_id,
        "batch": manifest.batch,
        "planned": manifest.planned,
        "made_ms": manifest.made_ms,
        "source": manifest.source,
        "release": manifest.release,
        "files": [[each.path, each.size_bytes, each.checksum] for each in manifest.files],
    }
    return _dump({**document, "checksum": _digest(document)}) + b"\n"


def parse_manifest(data: bytes, place: str) -> Manifest:
    """Return what the bytes say. Raises CheckpointUnfit; `place` is for its message."""
    document = _parse_object(data, place)
    version = document.get("format_version")
    if version != FORMAT_VERSION:
        raise CheckpointUnfit(
            f"{place} has the format version {version!r}, this release reads {FORMAT_VERSION}",
            hint="restore it with the release that took it",
            why="other_version",
        )
    content = {key: value for key, value in document.items() if key != "checksum"}
    if document.keys() != _KEYS or document["checksum"] != _digest(content):
        raise _damaged(place, "its content does not match its checksum")
    match content:
        case {
            "query_id": str(query_id),
            "batch": int(batch),
            "planned": int(planned),
            "made_ms": int(made_ms),
            "source": str(source),
            "release": str(release),
            "files": list(files),
        }:
            found = tuple(_parse_file(each, place) for each in files)
            return Manifest(query_id, batch, planned, made_ms, source, release, found)
        case _:
            raise _damaged(place, "a value has another type")


def _parse_object(data: bytes, place: str) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise _damaged(place, "it is not JSON") from None
    if not isinstance(document, dict):
        raise _damaged(place, "it is no object")
    return document


def _parse_file(value: object, place: str) -> SavedFile:
    match value:
        case [str(path), int(size), str(checksum)] if size >= 0 and _is_plain(path):
            return SavedFile(path, size, checksum)
        case _:
            raise _damaged(place, f"it lists {value!r}")


def _is_plain(path: str) -> bool:
    """Return whether a path stays below the savepoint, and is of a file that one has."""
    is_below = not any(part in {"", ".", ".."} for part in path.split("/"))
    return is_below and not isinstance(parse_path(path), HiddenPath)


def _damaged(place: str, what: str) -> CheckpointUnfit:
    return CheckpointUnfit(f"{place} is damaged: {what}", hint=_HINT, why="damaged")


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.blake2b(_dump(document), digest_size=8).hexdigest()


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
