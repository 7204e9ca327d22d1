"""The manifest of a savepoint: which files it has, and that they are what was copied.

What it promises: pure. Any bytes give a manifest or CheckpointUnfit, which names the file; what is
written parses to the same value. A manifest that was cut short or edited is refused.

One line of JSON without spaces, and a line feed; `docs/formats/savepoint.md` describes it.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from ashore.queries.state.layout import HiddenPath, parse_path
from ashore.queries.state.savepoints.seals import damaged, seal, unseal

FORMAT_VERSION = 1  # of a full savepoint
SHARED_VERSION = 2  # of a shared one
_UNIQUE = re.compile(r"[0-9a-f]{16}")
_KEYS = {
    *("format_version", "query_id", "batch", "planned", "made_ms"),
    *("source", "release", "files", "checksum"),
}


class SavepointKind(StrEnum):
    """What a savepoint needs to be restored."""

    FULL = "full"  # its own directory
    SHARED = "shared"  # and the pool beside it, in which other savepoints have files too


@dataclass(frozen=True, slots=True)
class SavedFile:
    """A file of a savepoint."""

    path: str  # below its `checkpoint`, or below the directory of `pool`
    size_bytes: int
    checksum: str  # BLAKE2b-64, hexadecimal
    pool: str = ""  # the directory of the pool that holds it; empty: the savepoint has it itself


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
        kind: whether it has its files itself, or in the pool.

    """

    query_id: str
    batch: int
    planned: int
    made_ms: int
    source: str
    release: str
    files: tuple[SavedFile, ...]
    kind: SavepointKind = SavepointKind.FULL

    @property
    def size_bytes(self) -> int:
        """Of all files together."""
        return sum(each.size_bytes for each in self.files)


def write_manifest(manifest: Manifest) -> bytes:
    """Return the file."""
    is_shared = manifest.kind is SavepointKind.SHARED
    document: dict[str, object] = {
        "format_version": SHARED_VERSION if is_shared else FORMAT_VERSION,
        **({"kind": manifest.kind} if is_shared else {}),
        "query_id": manifest.query_id,
        "batch": manifest.batch,
        "planned": manifest.planned,
        "made_ms": manifest.made_ms,
        "source": manifest.source,
        "release": manifest.release,
        "files": [
            [each.path, each.size_bytes, each.checksum, *([each.pool] if is_shared else [])]
            for each in manifest.files
        ],
    }
    return seal(document)


def parse_manifest(data: bytes, place: str) -> Manifest:
    """Return what the bytes say. Raises CheckpointUnfit; `place` is for its message."""
    kinds = {FORMAT_VERSION: SavepointKind.FULL, SHARED_VERSION: SavepointKind.SHARED}
    document = unseal(data, place, {FORMAT_VERSION: _KEYS, SHARED_VERSION: {*_KEYS, "kind"}})
    kind = kinds[int(str(document["format_version"]))]
    if document.get("kind", kind) != kind:
        raise damaged(place, "a value has another type")
    match document:
        case {
            "query_id": str(query_id),
            "batch": int(batch),
            "planned": int(planned),
            "made_ms": int(made_ms),
            "source": str(source),
            "release": str(release),
            "files": list(files),
        }:
            found = tuple(_parse_file(each, place, kind) for each in files)
            return Manifest(query_id, batch, planned, made_ms, source, release, found, kind)
        case _:
            raise damaged(place, "a value has another type")


def is_plain(path: str) -> bool:
    """Return whether a path stays below its root, and is of a file that a savepoint has."""
    is_below = not any(part in {"", ".", ".."} for part in path.split("/"))
    return is_below and not isinstance(parse_path(path), HiddenPath)


def is_unique(name: object) -> bool:
    """Return whether a name is one that savepoints get, and directories of the pool."""
    return isinstance(name, str) and _UNIQUE.fullmatch(name) is not None


def _parse_file(value: object, place: str, kind: SavepointKind) -> SavedFile:
    match value:
        case [str(path), int(size), str(checksum)] if kind is SavepointKind.FULL:
            found = SavedFile(path, size, checksum)
        case [str(path), int(size), str(checksum), str(pool)] if kind is SavepointKind.SHARED:
            found = SavedFile(path, size, checksum, pool)
        case _:
            raise damaged(place, f"it lists {value!r}")
    if found.size_bytes < 0 or not is_plain(found.path):
        raise damaged(place, f"it lists {value!r}")
    if kind is SavepointKind.SHARED and not is_unique(found.pool):
        raise damaged(place, f"it lists {value!r}")
    return found
