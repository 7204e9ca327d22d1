"""What every storage promises, on every storage, bare and behind the wrappers of a job."""

import errno
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ashore.errors import InvariantBroken, PathExists, PathMissing, StorageError
from ashore.storage import (
    DeadlineStorage,
    LocalStorage,
    MemoryStorage,
    RetryingStorage,
    Storage,
)
from ashore.storage.base import Links, Staged
from ashore.storage.system import PosixSystem
from ashore_lab.testing import FakeClock, FaultyStorage, SimulatedDisk

Builder = Callable[[Path], Storage]
RACERS = 8


class LinkingSystem(PosixSystem):
    """A file system such as NFS, without rename-without-overwrite."""

    def rename_noreplace(self, source: str, target: str) -> None:
        raise OSError(errno.EINVAL, "Invalid argument", source, None, target)


STORAGES: dict[str, Builder] = {
    "memory": lambda _: MemoryStorage(FakeClock()),
    "local": lambda path: LocalStorage(str(path / "lake")),
    "local-links": lambda path: LocalStorage(str(path / "lake"), LinkingSystem()),
    "disk": lambda _: LocalStorage("/data/lake", SimulatedDisk()),
    "disk-links": lambda _: LocalStorage("/data/lake", SimulatedDisk(can_rename=False)),
}


def wrap(storage: Storage) -> Storage:
    return RetryingStorage(DeadlineStorage(FaultyStorage(storage), deadline_s=60), FakeClock())


@pytest.fixture(params=STORAGES)
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    return STORAGES[request.param](tmp_path)


@pytest.fixture(params=[False, True], ids=["bare", "wrapped"])
def storage(request: pytest.FixtureRequest, bare: Storage) -> Storage:
    return wrap(bare) if request.param else bare


def names(storage: Storage, directory: str) -> list[str]:
    return [found.path for found in storage.list(directory)]


def write(storage: Storage, path: str, data: bytes) -> None:
    writer = storage.open_write(path)
    writer.write(data)
    writer.close()


def race(action: Callable[[int], None]) -> list[BaseException | None]:
    """Run `action` on many threads at once; return what each raised."""
    barrier = threading.Barrier(RACERS)

    def run(number: int) -> BaseException | None:
        barrier.wait()
        try:
            action(number)
        except StorageError as error:
            return error
        return None

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def test_create_and_read(storage: Storage) -> None:
    storage.create("a/b/entry.json", b"content")
    assert storage.read("a/b/entry.json") == b"content"
    found = storage.stat("a/b/entry.json")
    assert found is not None
    assert (found.path, found.size, found.is_directory) == ("a/b/entry.json", 7, False)
    assert found.modified_ms > 1_600_000_000_000


def test_create_of_nothing(storage: Storage) -> None:
    storage.create("empty", b"")
    assert storage.read("empty") == b""


def test_create_never_overwrites(storage: Storage) -> None:
    storage.create("a/entry", b"first")
    with pytest.raises(PathExists):
        storage.create("a/entry", b"second")
    assert storage.read("a/entry") == b"first"
    assert names(storage, "a") == ["a/entry"], "no temporary file stays"


def test_create_over_a_directory(storage: Storage) -> None:
    storage.create("a/b", b"")
    with pytest.raises(PathExists):
        storage.create("a", b"")
    with pytest.raises(PathExists):
        storage.open_write("a")


def test_a_file_is_no_parent(storage: Storage) -> None:
    storage.create("a", b"x")
    for attempt in (
        lambda: storage.create("a/b", b""),
        lambda: storage.open_write("a/b"),
        lambda: storage.publish(Staged("a"), "a/b/c"),
    ):
        with pytest.raises(StorageError) as caught:
            attempt()
        assert not isinstance(caught.value, PathMissing | PathExists)
    assert storage.read("a") == b"x"
    assert storage.stat("a/b") is None
    assert storage.list("a/b") == []
    with pytest.raises(PathMissing):
        storage.read("a/b")


def test_create_race_has_one_winner(storage: Storage) -> None:
    outcomes = race(lambda number: storage.create("log/42", b"%d" % number * 1000))
    winners = [number for number, error in enumerate(outcomes) if error is None]
    assert len(winners) == 1
    assert all(isinstance(error, PathExists) for error in outcomes if error is not None)
    assert storage.read("log/42") == b"%d" % winners[0] * 1000
    assert names(storage, "log") == ["log/42"]


def test_a_reader_sees_all_of_a_create_or_nothing(storage: Storage) -> None:
    content = b"x" * 300_000
    seen: set[int] = set()
    done = threading.Event()

    def look() -> None:
        while not done.is_set():
            for number in range(10):
                found = storage.stat(f"log/{number}")
                seen.add(-1 if found is None else found.size)

    reader = threading.Thread(target=look)
    reader.start()
    for number in range(10):
        storage.create(f"log/{number}", content)
    done.set()
    reader.join()
    assert seen <= {-1, len(content)}


def test_write_in_pieces(storage: Storage) -> None:
    writer = storage.open_write("t/date=2026-11-21/x.in-progress")
    assert not writer.closed
    assert writer.write(b"one ") == 4
    assert writer.write(memoryview(b"two ")) == 4  # type: ignore[arg-type]  # any buffer serves
    assert writer.write(pa.py_buffer(b"three")) == 5
    writer.close()
    assert writer.closed
    writer.close()
    assert storage.read("t/date=2026-11-21/x.in-progress") == b"one two three"


def test_a_buffer_may_be_used_again_after_write(storage: Storage) -> None:
    buffer = bytearray(b"first")
    writer = storage.open_write("a")
    writer.write(buffer)  # type: ignore[arg-type]
    buffer[:] = b"other"
    writer.close()
    assert storage.read("a") == b"first"


def test_a_writer_serves_pyarrow(storage: Storage) -> None:
    table = pa.table({"id": range(10_000)})
    writer = storage.open_write("t/x.parquet")
    pq.write_table(table, writer)
    writer.close()
    assert pq.read_table(pa.BufferReader(storage.read("t/x.parquet"))).equals(table)


def test_open_write_never_overwrites(storage: Storage) -> None:
    storage.create("a/x", b"first")
    with pytest.raises(PathExists):
        storage.open_write("a/x")
    assert storage.read("a/x") == b"first"


def test_open_write_race_has_one_winner(storage: Storage) -> None:
    outcomes = race(lambda number: write(storage, "a/x", b"%d" % number))
    winners = [number for number, error in enumerate(outcomes) if error is None]
    assert len(winners) == 1
    assert storage.read("a/x") == b"%d" % winners[0]


def test_an_abandoned_writer_cannot_finish(storage: Storage) -> None:
    writer = storage.open_write("a")
    writer.write(b"half")
    writer.abandon()
    assert writer.closed
    writer.abandon()
    with pytest.raises(StorageError):
        writer.close()
    with pytest.raises(InvariantBroken):
        writer.write(b"more")


def test_a_writer_follows_its_file_when_that_is_moved(storage: Storage) -> None:
    writer = storage.open_write("a")
    writer.write(b"one")
    storage.publish(Staged("a"), "b")
    writer.write(b"two")
    writer.close()
    assert storage.read("b") == b"onetwo"
    assert storage.stat("a") is None


def test_move(storage: Storage) -> None:
    write(storage, "staging/x", b"content")
    storage.publish(Staged("staging/x"), "table/date=2026-11-21/hour=08/y")
    assert storage.stat("staging/x") is None
    assert storage.read("table/date=2026-11-21/hour=08/y") == b"content"
    storage.sync(["staging", "table/date=2026-11-21/hour=08"])


def test_move_never_overwrites(storage: Storage) -> None:
    storage.create("a/x", b"source")
    storage.create("b/y", b"target")
    with pytest.raises(PathExists):
        storage.publish(Staged("a/x"), "b/y")
    assert storage.read("a/x") == b"source"
    assert storage.read("b/y") == b"target"


def test_move_of_equal_content_is_no_halfway_state(storage: Storage) -> None:
    storage.create("a/x", b"same")
    storage.create("b/y", b"same")
    with pytest.raises(PathExists):
        storage.publish(Staged("a/x"), "b/y")
    assert storage.stat("a/x") is not None


@pytest.mark.parametrize("target", ["new/y", "old/y", "old/taken"])
def test_move_of_what_is_missing(storage: Storage, target: str) -> None:
    storage.create("old/taken", b"target")
    for source in ("absent", "absent/x", "old/x", "old/taken/x"):
        with pytest.raises(PathMissing):
            storage.publish(Staged(source), target)
    assert storage.read("old/taken") == b"target"


def test_move_to_itself_is_a_bug(storage: Storage) -> None:
    storage.create("a", b"content")
    with pytest.raises(InvariantBroken):
        storage.publish(Staged("a"), "a")
    assert storage.read("a") == b"content"


def test_move_repeated(storage: Storage) -> None:
    storage.create("a/x", b"content")
    storage.publish(Staged("a/x"), "b/y")
    with pytest.raises(PathMissing):
        storage.publish(Staged("a/x"), "b/y")
    assert storage.read("b/y") == b"content"


def test_move_race_to_one_target_loses_nothing(storage: Storage) -> None:
    for number in range(RACERS):
        storage.create(f"s/{number}", b"%d" % number)
    outcomes = race(lambda number: storage.publish(Staged(f"s/{number}"), "t/new/x"))
    winners = [number for number, error in enumerate(outcomes) if error is None]
    assert len(winners) == 1
    assert all(isinstance(error, PathExists) for error in outcomes if error is not None)
    assert storage.read("t/new/x") == b"%d" % winners[0]
    kept = {storage.read(path) for path in names(storage, "s")}
    assert kept == {b"%d" % number for number in range(RACERS) if number not in winners}


def test_move_race_of_one_source_loses_nothing(storage: Storage) -> None:
    storage.create("s/x", b"content")
    outcomes = race(lambda _: storage.publish(Staged("s/x"), "t/y"))
    assert None in outcomes
    assert names(storage, "s") == []
    assert storage.read("t/y") == b"content"


def test_stat_of_directories_and_of_nothing(storage: Storage) -> None:
    storage.create("a/b/c", b"xyz")
    found = storage.stat("a/b")
    assert found is not None
    assert (found.path, found.size, found.is_directory) == ("a/b", 0, True)
    assert storage.stat("a/x") is None
    assert storage.stat("x/y/z") is None


def test_list(storage: Storage) -> None:
    for path in ("d/b", "d/a", "d/c/deep", "d/_hidden", "d/.hidden", "e"):
        storage.create(path, b"xx")
    found = storage.list("d")
    assert [entry.path for entry in found] == ["d/.hidden", "d/_hidden", "d/a", "d/b", "d/c"]
    assert [entry.is_directory for entry in found] == [False, False, False, False, True]
    assert [entry.size for entry in found] == [2, 2, 2, 2, 0]
    assert found[2] == storage.stat("d/a")
    assert storage.list("nowhere") == []
    assert storage.list("e") == [], "nothing is in a file"


@pytest.mark.parametrize(
    "name",
    [
        "with space",
        "date=2026-11-21",
        "country=%2F%25",
        "100%",
        "städte",
        "北京",
        "🚢",
        "b?c#d&e",
        "back\\slash",
        "'quoted\"",
        "-rf",
        "...",
        "new\nline",
    ],
)
def test_odd_names(storage: Storage, name: str) -> None:
    storage.create(f"{name}/{name}", b"content")
    assert names(storage, name) == [f"{name}/{name}"]
    storage.publish(Staged(f"{name}/{name}"), f"{name}/moved")
    storage.sync([name])
    assert storage.read(f"{name}/moved") == b"content"
    storage.delete(f"{name}/moved")
    assert storage.list(name) == []


def test_a_name_with_a_colon_is_kept_or_refused(storage: Storage) -> None:
    try:
        storage.create("a:b", b"content")
    except StorageError:
        # HDFS knows no such names; the names of tables and partitions hold none.
        assert storage.list("a:b") == []
    else:
        assert storage.read("a:b") == b"content"


@pytest.mark.parametrize(
    "path", ["", "/", "/abs", "..", "a/../b", "a/..", "./a", "a/.", "a//b", "a/", "nul\0"]
)
def test_paths_that_leave_the_lake_are_bugs(storage: Storage, path: str) -> None:
    for attempt in (
        lambda: storage.create(path, b""),
        lambda: storage.open_write(path),
        lambda: storage.publish(Staged(path), "x"),
        lambda: storage.publish(Staged("x"), path),
        lambda: storage.stat(path),
        lambda: storage.list(path),
        lambda: storage.read(path),
        lambda: storage.delete(path),
        lambda: storage.sync([path]),
    ):
        with pytest.raises(InvariantBroken):
            attempt()


def test_read_ranges(storage: Storage) -> None:
    storage.create("a", b"0123456789")
    assert storage.read("a", 3) == b"3456789"
    assert storage.read("a", 3, 4) == b"3456"
    assert storage.read("a", 8, 10) == b"89"
    assert storage.read("a", 10) == b""
    assert storage.read("a", 20, 5) == b""
    assert storage.read("a", 0, 0) == b""
    for start, length in ((-1, None), (0, -1)):
        with pytest.raises(InvariantBroken):
            storage.read("a", start, length)


def test_read_of_what_is_not_a_file(storage: Storage) -> None:
    storage.create("d/a", b"")
    with pytest.raises(PathMissing):
        storage.read("d/b")
    with pytest.raises(PathMissing):
        storage.read("x/y")
    with pytest.raises(StorageError) as caught:
        storage.read("d")
    assert not isinstance(caught.value, PathMissing)


def test_delete(storage: Storage) -> None:
    storage.create("d/a", b"")
    storage.delete("d/a")
    assert storage.stat("d/a") is None
    for path in ("d/a", "x/y"):
        with pytest.raises(PathMissing):
            storage.delete(path)
    storage.create("d/a", b"again")
    assert storage.read("d/a") == b"again"


def test_only_an_empty_directory_is_deleted(storage: Storage) -> None:
    storage.create("d/e/a", b"kept")
    for full in ("d", "d/e"):
        with pytest.raises(StorageError) as caught:
            storage.delete(full)
        assert not isinstance(caught.value, PathMissing)
    assert storage.read("d/e/a") == b"kept"
    storage.delete("d/e/a")
    storage.delete("d/e")
    assert storage.stat("d/e") is None
    assert storage.list("d") == []
    with pytest.raises(PathMissing):
        storage.delete("d/e")
    storage.create("d/e/a", b"again")
    storage.sync(["d/e"])
    assert storage.read("d/e/a") == b"again"


def test_sync(storage: Storage) -> None:
    write(storage, "a/b/c", b"")
    write(storage, "a/d/e", b"")
    storage.sync(["a/b", "a/d", "a/b"])
    storage.sync([])
    for directory in ("a/x", "x/y", "a/b/c"):
        with pytest.raises(PathMissing):
            storage.sync([directory])


def test_describe(storage: Storage) -> None:
    assert "://" in storage.describe()


def test_a_second_name_is_one_of_its_own_or_refused(storage: Storage):
    """It holds what the file held, whatever becomes of the first name."""
    if not isinstance(storage, Links):
        return
    storage.create("a/first", b"content")
    storage.create("a/taken", b"other")
    if not storage.link("a/first", "b/c/second"):
        assert storage.stat("b/c/second") is None
        return
    storage.sync(["b/c"])
    storage.delete("a/first")
    storage.create("a/first", b"new")
    assert storage.read("b/c/second") == b"content"
    with pytest.raises(PathExists):
        storage.link("a/first", "a/taken")
    with pytest.raises(PathMissing):
        storage.link("a/missing", "a/third")
    assert names(storage, "a") == ["a/first", "a/taken"]
