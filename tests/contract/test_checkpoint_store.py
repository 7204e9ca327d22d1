"""What a store of checkpoint files promises, on storages with and without second names."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from ashore.errors import PathExists, PathMissing
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import PIECE_BYTES, CheckpointStore
from ashore.queries.state.layout import BatchLog, BatchPath, QueryPath, StateKind, StatePath, Store
from ashore.storage import LocalStorage, MemoryStorage
from ashore.storage.base import FileStat
from ashore_lab.testing import FakeClock

STORES: dict[str, Callable[[Path], CheckpointStore]] = {
    "memory": lambda _: CheckpointStore(MemoryStorage(FakeClock()), "jobs/a", "memory:jobs/a"),
    "local": lambda path: CheckpointStore(
        LocalStorage(str(path)), "jobs/a", f"{path.as_uri()}/jobs/a"
    ),
}
ONLY, NAMED = Store(0, 0), Store(0, 1, "left")
FILES = {
    "metadata": QueryPath(),
    "offsets/7": BatchPath(BatchLog.OFFSETS, 7),
    "state/0/0/8.changelog": StatePath(ONLY, 8, StateKind.CHANGELOG),
    "state/0/1/left/8.zip": StatePath(NAMED, 8, StateKind.ROCKSDB_SNAPSHOT),
}


@pytest.fixture(params=STORES)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> CheckpointStore:
    return STORES[request.param](tmp_path)


def fill(store: CheckpointStore) -> None:
    for path in FILES:
        store.create(path, path.encode())


def test_files_are_listed_by_what_their_paths_say(store: CheckpointStore) -> None:
    assert (store.list_files(), store.list_entries(), store.list_partitions()) == ([], [], {})
    fill(store)
    assert {each.path: each.of for each in store.list_files()} == FILES
    assert [each.size_bytes for each in store.list_files()] == [len(each) for each in FILES]
    assert store.list_names() == ["metadata", "offsets", "state"]
    top = store.list_directory()
    assert ([each.path for each in top.files], top.directories) == (
        ["metadata"],
        ["offsets", "state"],
    )
    assert store.list_partitions() == {0: [0, 1]}
    assert list(store.list_stores(0, 0)) == [ONLY]
    assert list(store.list_stores(0, 1)) == [NAMED]
    assert store.list_stores(0, 2) == {}
    assert [each.path for each in store.walk("state/0/1")] == [
        "state/0/1/left",
        "state/0/1/left/8.zip",
    ]


def test_what_was_written_is_read(store: CheckpointStore) -> None:
    fill(store)
    assert store.read("offsets/7", 8, 1) == b"7"
    assert store.read_all(list(FILES.values())) == [each.encode() for each in FILES]
    large = bytes(PIECE_BYTES) + b"end"
    store.write("state/0/0/9.changelog", [large[:10], large[10:]])
    store.sync(["state/0/0/9.changelog"])
    assert list(store.read_pieces("state/0/0/9.changelog")) == [large[:PIECE_BYTES], b"end"]
    found = store.stat("state/0/0/9.changelog")
    assert found is not None
    assert found.size == len(large)
    with pytest.raises(PathExists):
        store.create("metadata", b"")
    with pytest.raises(PathExists):
        store.write("metadata", [b""])
    with pytest.raises(PathMissing):
        store.read("offsets/8")


def test_a_file_whose_pieces_fail_is_not_closed(store: CheckpointStore) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"first"
        raise ValueError("no more")

    with pytest.raises(ValueError, match="no more"):
        store.write("metadata", pieces())


def test_a_second_name_is_not_the_first(store: CheckpointStore) -> None:
    fill(store)
    copy = CheckpointStore(store.storage, store.full_path("copy"), f"{store.uri}/copy")
    is_linked = store.link("metadata", copy, "metadata")
    assert is_linked == (copy.stat("metadata") is not None)
    assert is_linked == isinstance(store.storage, LocalStorage)
    if is_linked:
        copy.sync(["metadata"])
        assert store.delete("metadata")
        assert copy.read("metadata") == b"metadata"


def test_a_published_file_has_its_final_name_only(store: CheckpointStore) -> None:
    store.create("savepoint.json.new", b"{}")
    store.publish("savepoint.json.new", "savepoint.json")
    assert store.list_names() == ["savepoint.json"]


def test_a_directory_is_deleted_with_all_below_it(store: CheckpointStore) -> None:
    fill(store)
    assert (store.delete("metadata"), store.delete("metadata")) == (True, False)
    assert store.delete_all("state") == 2
    assert [each.path for each in store.list_files()] == ["offsets/7"]
    assert store.delete_all() == 1
    assert store.stat() is None


@dataclass(frozen=True, slots=True)
class _Linked(Checkpoint):
    """A checkpoint whose files lie elsewhere: a pool, or a log of changes."""

    parts: dict[str, bytes] = field(default_factory=dict)

    def list_entries(self, directory: str = "") -> list[FileStat]:
        start = f"{directory}/" if directory else ""
        below = [each for each in sorted(self.parts) if each.startswith(start)]
        found: dict[str, FileStat] = {}
        for each in below:
            name, slash, _ = each.removeprefix(start).partition("/")
            size = 0 if slash else len(self.parts[each])
            found[start + name] = FileStat(start + name, size, 1, bool(slash))
        return list(found.values())

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        end = None if length is None else start + length
        return self.parts[path][start:end]


def test_a_listing_may_be_virtual() -> None:
    parts = {each: each.encode() for each in FILES} | {"metadata": b'{"id":"q"}'}
    linked = _Linked(MemoryStorage(FakeClock()), "none", "memory:none", parts)
    assert {each.path: each.of for each in linked.list_files()} == FILES
    assert list(linked.list_stores(0, 1)) == [NAMED]
    position = linked.read_position()
    assert (position.query_id, position.planned) == ("q", 7)
