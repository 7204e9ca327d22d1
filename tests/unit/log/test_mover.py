"""Moves side by side: many at once, and never more than so many."""

import hashlib
import threading

import pytest

from ashore.errors import FileConflict
from ashore.log.files import DataFile, FilePlace
from ashore.log.store.committer import PARALLEL_MOVES, Moved, move_files
from ashore.storage.base import Staged
from ashore.storage.memory import MemoryStorage
from ashore_lab.testing.clock import FakeClock

FILES = 4 * PARALLEL_MOVES


class Crowded(MemoryStorage):
    """A storage whose moves wait until as many are under way as are ever to be."""

    def __init__(self) -> None:
        super().__init__()
        self._gate = threading.Barrier(PARALLEL_MOVES)
        self._count = threading.Lock()
        self._under_way = 0
        self.most = 0

    def publish(self, staged: Staged, final: str) -> None:
        with self._count:
            self._under_way += 1
            self.most = max(self.most, self._under_way)
        self._gate.wait(timeout=10)
        super().publish(staged, final)
        with self._count:
            self._under_way -= 1


def places(storage: MemoryStorage) -> list[FilePlace]:
    found = []
    for number in range(FILES):
        file = DataFile(0, 0, f"{number:016x}", 1, 1, "0", (), None, None)
        place = FilePlace(file, f"t/.ashore/{number}", f"t/hour={number % 3}/{number}")
        storage.create(place.pending, b"x")
        found.append(place)
    return found


def test_moves_are_side_by_side_and_bounded() -> None:
    storage = Crowded()
    wanted = places(storage)
    moved = move_files(storage, wanted, FakeClock(), lambda: None)
    assert moved == Moved(FILES, 0)
    assert storage.most == PARALLEL_MOVES
    assert all(storage.stat(each.final) for each in wanted)


@pytest.mark.parametrize(("is_same", "has_source"), [(True, True), (False, True), (False, False)])
def test_where_both_ends_are_there_the_bytes_of_the_target_are_compared(
    is_same: bool, has_source: bool
) -> None:
    storage = MemoryStorage()
    checksum = hashlib.blake2b(b"x", digest_size=8).hexdigest()
    file = DataFile(0, 0, "00000000c0ffee00", 1, 1, checksum, (), None, None)
    place = FilePlace(file, "t/.ashore/1", "t/1")
    if has_source:
        storage.create(place.pending, b"x")
    storage.create(place.final, b"x" if is_same else b"y")
    if not is_same and has_source:
        with pytest.raises(FileConflict):
            move_files(storage, [place], FakeClock(), lambda: None)
        assert storage.read(place.pending) == b"x"
    else:  # one end alone: content under a name that is used once is the file
        assert move_files(storage, [place], FakeClock(), lambda: None) == Moved(0, 1)
