"""Documents beside savepoints: which files one has, and which of a pool it may rely on.

What it is: the manifest of a savepoint, and lists of files in the pool, of a savepoint or of what a
sweep is about to delete.
What it promises: pure. Any bytes give a value or CheckpointUnfit, which names the file; what is
written parses to the same value. A document has its own checksum: one that was cut short or edited
is refused.

One line of JSON without spaces, and a line feed; `docs/formats/savepoint.md` describes it.
"""

import hashlib
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import HiddenPath, parse_path

FORMAT_VERSION = 1  # of a full savepoint, and of a list of files in the pool
SHARED_VERSION = 2  # of a shared savepoint
_UNIQUE = re.compile(r"[0-9a-f]{16}")
_KEYS = {
    *("format_version", "query_id", "batch", "planned", "made_ms"),
    *("source", "release", "files", "checksum"),
}
_HINT = "choose another savepoint: `ashore checkpoint list DIR` shows them"


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

    @property
    def in_pool(self) -> "PoolFile":
        """The same as a file of the pool. Requires: it is there."""
        return PoolFile(self.pool, self.path)


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
    is_plain = _is_below(found.path) and not isinstance(parse_path(found.path), HiddenPath)
    if found.size_bytes < 0 or not is_plain:
        raise damaged(place, f"it lists {value!r}")
    if kind is SavepointKind.SHARED and not is_unique(found.pool):
        raise damaged(place, f"it lists {value!r}")
    return found


# ---- lists of files in the pool


class PoolFile(NamedTuple):
    """A file of the pool."""

    pool: str  # the directory of the pool: the digits of the savepoint that has copied the file
    path: str  # below it

    @property
    def path_in_pool(self) -> str:
        """Where it is, below the pool."""
        return f"{self.pool}/{self.path}"


def write_references(files: Collection[PoolFile]) -> bytes:
    """Return the file."""
    by_pool: dict[str, list[str]] = defaultdict(list)
    for each in sorted(files):
        by_pool[each.pool].append(each.path)
    return seal({"format_version": FORMAT_VERSION, "files": by_pool})


def parse_references(data: bytes, place: str) -> frozenset[PoolFile]:
    """Return what the bytes say. Raises CheckpointUnfit; `place` is for its message."""
    document = unseal(data, place, {FORMAT_VERSION: {"format_version", "files", "checksum"}})
    files = document["files"]
    if not isinstance(files, Mapping):
        raise damaged(place, "a value has another type")
    return frozenset(_parse_files(files, place))


def _parse_files(files: Mapping[object, object], place: str) -> Iterator[PoolFile]:
    for pool, paths in files.items():
        match pool, paths:
            case str(), list() if is_unique(pool):
                for path in paths:
                    if not isinstance(path, str) or not _is_below(path):
                        raise damaged(place, f"it lists {path!r}")
                    yield PoolFile(pool, path)
            case _:
                raise damaged(place, f"it lists {pool!r}")


def _is_below(path: str) -> bool:
    return not any(part in {"", ".", ".."} for part in path.split("/"))


# ---- documents with a checksum


def seal(document: Mapping[str, object]) -> bytes:
    """Return the file of a document, with its checksum."""
    return _dump({**document, "checksum": _digest(document)}) + b"\n"


def unseal(data: bytes, place: str, keys: Mapping[int, Collection[str]]) -> Mapping[str, object]:
    """Return what was sealed. Raises CheckpointUnfit.

    Arguments:
        data: the file.
        place: where it is, for messages.
        keys: that it has, by its format version; `checksum` is one of them.

    """
    document = _parse_object(data, place)
    version = document.get("format_version")
    if not isinstance(version, int) or isinstance(version, bool) or version not in keys:
        versions = " and ".join(map(str, keys))
        raise CheckpointUnfit(
            f"{place} has the format version {version!r}, this release reads {versions}",
            hint="restore it with the release that took it",
            why="other_version",
        )
    content = {key: value for key, value in document.items() if key != "checksum"}
    if document.keys() != set(keys[version]) or document["checksum"] != _digest(content):
        raise damaged(place, "its content does not match its checksum")
    return document


def damaged(place: str, what: str) -> CheckpointUnfit:
    """Return the error that says so."""
    return CheckpointUnfit(f"{place} is damaged: {what}", hint=_HINT, why="damaged")


def _parse_object(data: bytes, place: str) -> Mapping[str, object]:
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        raise damaged(place, "it is not JSON") from None
    if not isinstance(document, dict):
        raise damaged(place, "it is not an object")
    return document


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.blake2b(_dump(document), digest_size=8).hexdigest()


def _dump(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True).encode()
