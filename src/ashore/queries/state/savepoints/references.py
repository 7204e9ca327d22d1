"""Lists of files in the pool: what a savepoint may rely on, and what a sweep is about to delete.

What it promises: pure. Any bytes give a list or CheckpointUnfit, which names the file; what is
written parses to the same value. A list that was cut short or edited is refused.

One line of JSON without spaces, and a line feed; `docs/formats/savepoint.md` describes it.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from ashore.queries.state.savepoints.manifest import is_unique
from ashore.queries.state.savepoints.seals import damaged, seal, unseal

FORMAT_VERSION = 1


class PoolFile(NamedTuple):
    """A file of the pool."""

    pool: str  # the directory of the pool: the digits of the savepoint that has copied the file
    path: str  # below it


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
