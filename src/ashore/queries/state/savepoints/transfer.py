"""Files on their way from one checkpoint to another place, several at a time.

What it is: `transfer_files`, and `check_files`, which reads them again.
What it promises: each file that is written is read back and compared; nothing is overwritten; the
source is only read. Where a storage can, files that Spark never edits get a second name (a hard
link) instead of a copy: deleting one name leaves the other, but damage to the disk's blocks hits
both. Text files, which people edit, are always copied.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from ashore.errors import CheckpointUnfit, PathMissing
from ashore.queries.state.files import WORKERS, CheckpointStore, Link
from ashore.queries.state.layout import (
    ChecksumPath,
    OperatorFile,
    OperatorPath,
    StatePath,
    TablePath,
    parse_path,
)
from ashore.queries.state.savepoints.manifest import SavedFile

Advance = Callable[[int, int], None]  # files that are done, of how many


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """A file that is to be transferred.

    Arguments:
        path: below the root of either checkpoint.
        size_bytes: that it has to have.
        checksum: that it has to have; None: any.

    """

    path: str
    size_bytes: int
    checksum: str | None = None


@dataclass(frozen=True, slots=True)
class Transferred:
    """Files that were transferred, and what it took."""

    files: tuple[SavedFile, ...]
    linked: int  # of them, that have a second name instead of a copy


def transfer_files(
    expected: Sequence[ExpectedFile],
    source: CheckpointStore,
    target: CheckpointStore,
    link: Link | None,
    advance: Advance,
) -> Transferred:
    """Copy or link files, make them durable, and compare what is there.

    Requires: no other process uses the target.
    If interrupted: some files are there, maybe one of them in part.

    Arguments:
        expected: which; those with absolute paths in them are rewritten.
        source: where they are.
        target: where they come.
        link: gives a file a second name; None: all are copied.
        advance: called as files are done.

    Raises StorageError; PathMissing where a file is gone; CheckpointUnfit where one is not as it
    has to be.

    """
    one = _Transfer(source, target, link)
    done: list[tuple[SavedFile, bool]] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for each in pool.map(one.transfer, expected):
            done.append(each)
            advance(len(done), len(expected))
    target.sync(each.path for each in expected)
    return Transferred(
        tuple(file for file, _ in done), sum(1 for _, is_linked in done if is_linked)
    )


def shift(advance: Advance, before: int, total: int) -> Advance:
    """Return what shows the progress of a part, `before` files of `total` being done already."""
    return lambda done, _: advance(before + done, total)


def read_whole(source: CheckpointStore, expected: ExpectedFile) -> bytes:
    """Return what a small file holds, as it has to be. Raises as `transfer_files`."""
    data = source.read(expected.path)
    _require(source, expected, (len(data), _checksum(data)))
    return data


def check_files(
    files: Sequence[SavedFile], checkpoint: CheckpointStore, advance: Advance
) -> list[CheckpointUnfit]:
    """Return what is wrong with files, in their order; empty: all are as they have to be.

    Raises StorageError where a storage does not answer.
    """
    wrong: list[CheckpointUnfit] = []
    with ThreadPoolExecutor(WORKERS) as pool:
        for number, found in enumerate(pool.map(lambda each: _check(each, checkpoint), files), 1):
            wrong += [] if found is None else [found]
            advance(number, len(files))
    return wrong


def _check(file: SavedFile, checkpoint: CheckpointStore) -> CheckpointUnfit | None:
    place = f"{checkpoint.place}/{file.path}"
    try:
        size, checksum = digest_file(checkpoint, file.path)
    except PathMissing:
        return CheckpointUnfit(f"{place} is missing", hint=_OTHER, why="missing")
    return _compare(place, (size, checksum), (file.size_bytes, file.checksum))


@dataclass(frozen=True, slots=True)
class _Transfer:
    source: CheckpointStore
    target: CheckpointStore
    link: Link | None

    def transfer(self, expected: ExpectedFile) -> tuple[SavedFile, bool]:
        """Return the file as it is at the target, and whether it was linked."""
        is_never_edited = isinstance(
            parse_path(expected.path), StatePath | ChecksumPath | TablePath
        )
        if self.link is not None and is_never_edited and self.link(expected.path):
            found = digest_file(self.target, expected.path)
            _require(self.target, expected, found)
            return SavedFile(expected.path, *found), True
        found = self._copy_edited(expected) if has_paths(expected.path) else self._copy(expected)
        there = digest_file(self.target, expected.path)
        place = f"{self.target.place}/{expected.path}"
        if (wrong := _compare(place, there, found)) is not None:
            raise wrong
        return SavedFile(expected.path, *found), False

    def _copy(self, expected: ExpectedFile) -> tuple[int, str]:
        digest, size = hashlib.blake2b(digest_size=8), 0

        def pieces() -> Iterator[bytes]:
            nonlocal size
            for data in self.source.read_pieces(expected.path):
                yield data
                digest.update(data)
                size += len(data)
            _require(self.source, expected, (size, digest.hexdigest()))

        self.target.write(expected.path, pieces())
        return size, digest.hexdigest()

    def _copy_edited(self, expected: ExpectedFile) -> tuple[int, str]:
        """Copy what an operator says of itself: with the paths that its schemas now have."""
        data = read_whole(self.source, expected)
        place = f"{self.source.place}/{expected.path}"
        moved = OperatorFile.parse(data, place).move_to(self.target.uri).write()
        self.target.write(expected.path, [moved])
        return len(moved), _checksum(moved)


_OTHER = "choose another savepoint or batch; `ashore checkpoint list DIR` shows savepoints"


def _require(checkpoint: CheckpointStore, expected: ExpectedFile, found: tuple[int, str]) -> None:
    place = f"{checkpoint.place}/{expected.path}"
    checksum = expected.checksum if expected.checksum is not None else found[1]
    if (wrong := _compare(place, found, (expected.size_bytes, checksum))) is not None:
        raise wrong


def _compare(
    place: str, found: tuple[int, str], expected: tuple[int, str]
) -> CheckpointUnfit | None:
    if found[0] != expected[0]:
        text = f"{place} has {found[0]:,} bytes, expected {expected[0]:,}"
        return CheckpointUnfit(text, hint=_OTHER, why="size")
    if found[1] != expected[1]:
        text = f"{place} is damaged: its checksum is {found[1]}, expected {expected[1]}"
        return CheckpointUnfit(text, hint=_OTHER, why="damaged")
    return None


def has_paths(path: str) -> bool:
    """Return whether a file has absolute paths in it, so that its copy differs."""
    found = parse_path(path)
    return isinstance(found, OperatorPath) and found.has_paths


def digest_file(checkpoint: CheckpointStore, path: str) -> tuple[int, str]:
    """Return size and checksum of a file, as its storage gives it."""
    digest, size = hashlib.blake2b(digest_size=8), 0
    for data in checkpoint.read_pieces(path):
        digest.update(data)
        size += len(data)
    return size, digest.hexdigest()


def _checksum(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()
