"""Savepoints: whole copies, that restore when all else is gone, or are refused."""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from tests.checkpoint_files import WHOLE, list_paths, opened, unpack
from tests.marks import but

from ashore.errors import CheckpointUnfit, StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.savepoints.manifest import Manifest, parse_manifest, write_manifest
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import Saved, Shelf, save
from ashore.queries.state.savepoints.store import (
    MANIFEST,
    Savepoint,
    delete_savepoint,
    list_savepoints,
)
from ashore.queries.state.savepoints.transfer import check_files
from ashore.queries.state.survey import take_survey
from ashore.storage import LocalStorage, MemoryStorage, Storage
from ashore_lab.testing import FakeClock
from ashore_lab.testing.wrapper import WrappedStorage

CASES = sorted(each.name.removesuffix(".tar.xz") for each in WHOLE.iterdir())
EVERY_DAY = {"join-3", "hdfs-backed"}
GOLDEN = Path(__file__).parents[2] / "golden" / "savepoints" / "savepoint.json"


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


def shelf_at(root: Path, *, links: bool = True) -> Shelf:
    numbers = itertools.count()
    storage = LocalStorage(str(root))
    return Shelf(storage, "saved", f"{root.as_uri()}/saved", lambda: f"{next(numbers):016x}", links)


def saved_from(root: Path, to: Path, batch: int | None = None, *, links: bool = True) -> Saved:
    return save(opened(root), batch, shelf_at(to, links=links), FakeClock(), silent)


def contents(root: Path) -> dict[str, bytes]:
    """The files of a checkpoint, but for the address of schemas, which is its own."""
    own, other = f"file:{root}".encode(), f"file:/data/golden/{root.name}".encode()
    found = {path: (root / path).read_bytes() for path in list_paths(root)}
    return {path: data.replace(own, other) for path, data in found.items()}


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
@pytest.mark.parametrize("case", but(pytest.mark.slow, CASES, lambda case: case in EVERY_DAY))
def test_a_savepoint_restores_when_all_else_is_deleted(
    case: str, tmp_path: Path, *, links: bool
) -> None:
    source = unpack(case, tmp_path / "live")
    batch = take_survey(opened(source)).done[-2]
    expected = {
        each.path: (source / each.path).read_bytes()
        for each in take_survey(opened(source), batch).required.files
    }
    other = saved_from(source, tmp_path, links=links)
    saved = saved_from(source, tmp_path / "more", batch, links=links)
    assert (saved.linked > 0) == (links and case != "stateless")
    assert {each.path for each in saved.manifest.files} == expected.keys()
    shutil.rmtree(source)
    delete_savepoint(other.savepoint)

    target = tmp_path / case
    restored = restore(saved.savepoint, opened(target), FakeClock(), silent, links=links)
    delete_savepoint(saved.savepoint)

    assert contents(target) == expected
    assert take_survey(opened(target)).required.batch == restored.manifest.batch == batch
    shelf = CheckpointStore(LocalStorage(str(tmp_path)), "saved", "file:///saved")
    assert list_savepoints(shelf) == []


def test_absolute_paths_are_those_of_the_copy(tmp_path: Path) -> None:
    saved = saved_from(unpack("join-3", tmp_path / "live"), tmp_path)
    restore(saved.savepoint, opened(tmp_path / "back"), FakeClock(), silent)
    (path,) = (tmp_path / "back/state/0/_metadata/v2").iterdir()
    (schema,) = (tmp_path / "back/state/0/_stateSchema/default").iterdir()
    assert f'["file:{schema}"]'.encode() in path.read_bytes()


def test_text_files_are_copied_so_that_an_edit_stays_where_it_is(tmp_path: Path) -> None:
    source = unpack("rocksdb", tmp_path / "live")
    saved = saved_from(source, tmp_path)
    for each in saved.manifest.files:
        kept = Path(saved.savepoint.checkpoint.uri.removeprefix("file://")) / each.path
        is_linked = kept.stat().st_ino == (source / each.path).stat().st_ino
        assert is_linked == ("/_metadata/" not in each.path and each.path.startswith("state"))


def test_savepoints_are_listed_oldest_first_and_unfinished_ones_last(tmp_path: Path) -> None:
    source, shelf, clock = unpack("rocksdb", tmp_path / "live"), shelf_at(tmp_path), FakeClock()
    first = save(opened(source), 4, shelf, clock, silent)
    clock.advance(1)
    second = save(opened(source), 2, shelf, clock, silent)
    clock.advance(1)
    unfinished = save(opened(source), 3, shelf, clock, silent)
    assert unfinished.savepoint.delete(MANIFEST)
    (tmp_path / "saved/others").mkdir()
    listed = list_savepoints(shelf)
    assert [each.savepoint for each in listed] == [
        first.savepoint,
        second.savepoint,
        unfinished.savepoint,
    ]
    assert [each.manifest for each in listed] == [first.manifest, second.manifest, None]
    assert delete_savepoint(unfinished.savepoint) == len(unfinished.manifest.files)


@pytest.mark.parametrize("name", ["others", "savepoint-1", "savepoint-4-0123456789abcdef"])
def test_only_savepoints_are_deleted(name: str, tmp_path: Path) -> None:
    if "abcdef" not in name:
        (tmp_path / name).mkdir()
    with pytest.raises(CheckpointUnfit, match=name):
        delete_savepoint(Savepoint(LocalStorage(str(tmp_path)), name, f"file://{tmp_path}/{name}"))
    assert (tmp_path / name).exists() == ("abcdef" not in name)


# ---- beside a running Spark


class Trimmed(WrappedStorage):
    """A checkpoint whose owner goes on, and deletes a file as soon as it is to be copied."""

    def __init__(self, inner: Storage, go_on: Callable[[str], None]) -> None:
        super().__init__(inner)
        self._go_on = go_on

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self._go_on(path)
        return super().read(path, start, length)


@pytest.mark.parametrize("batch", [None, 4])
def test_where_a_file_goes_meanwhile_a_newer_batch_is_taken(
    batch: int | None, tmp_path: Path
) -> None:
    source = unpack("rocksdb-changelog", tmp_path / "live")
    late = [source / f"commits/{number}" for number in range(5, 12)]
    kept = {path: path.read_bytes() for path in late}
    for path in late:
        path.unlink()

    def go_on(path: str) -> None:
        if path.endswith("5.changelog") and (source / path.partition("/")[2]).exists():
            (source / path.partition("/")[2]).unlink()
            for each, data in kept.items():
                each.write_bytes(data)

    storage = Trimmed(LocalStorage(str(source.parent)), go_on)
    running = Checkpoint(storage, source.name, source.as_uri())
    shelf = shelf_at(tmp_path, links=False)
    if batch is not None:
        with pytest.raises(CheckpointUnfit, match=r"5\.changelog"):
            save(running, batch, shelf, FakeClock(), silent)
        assert list_savepoints(shelf) == []
        return
    saved = save(running, batch, shelf, FakeClock(), silent)
    assert saved.manifest.batch == 11
    assert [each.manifest for each in list_savepoints(shelf)] == [saved.manifest]


class Forgetful(WrappedStorage):
    """A storage that gives back less of a state file than it was given."""

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        data = super().read(path, start, length)
        return data[:-1] if path.endswith(".sst") else data


def test_what_was_written_is_read_back_before_there_is_a_manifest(tmp_path: Path) -> None:
    source = opened(unpack("rocksdb", tmp_path))
    storage = Forgetful(MemoryStorage(FakeClock()))
    shelf = Shelf(storage, "saved", "memory:saved", lambda: "0" * 16)
    with pytest.raises(CheckpointUnfit, match=r"\.sst has"):
        save(source, None, shelf, FakeClock(), silent)
    assert list_savepoints(CheckpointStore(storage, shelf.path, shelf.uri)) == []


# ---- bad input


@dataclass(frozen=True)
class Bad:
    """What is done to a savepoint, and the file and the words that the refusal names."""

    damage: Callable[[Path], object]
    text: str


def manifest_of(root: Path) -> Manifest:
    return parse_manifest((root / "savepoint.json").read_bytes(), "savepoint.json")


def edit(root: Path, path: str, edit_bytes: Callable[[bytes], bytes]) -> None:
    (root / path).write_bytes(edit_bytes((root / path).read_bytes()))


def other_version(root: Path) -> None:
    edit(root, "savepoint.json", lambda data: data.replace(b'version":1', b'version":3'))


BAD = {
    "not a savepoint": Bad(lambda root: (root / "savepoint.json").unlink(), "savepoint.json is mi"),
    "truncated manifest": Bad(
        lambda root: edit(root, "savepoint.json", lambda data: data[:-9]), "savepoint.json is damag"
    ),
    "edited manifest": Bad(
        lambda root: edit(root, "savepoint.json", lambda data: data.replace(b"11", b"12", 1)),
        "savepoint.json is damaged: ",
    ),
    "future format": Bad(other_version, "savepoint.json has the format version 3"),
    "missing SST": Bad(
        lambda root: max(root.glob("checkpoint/state/0/1/SSTs/*")).unlink(), "/state/0/1/SSTs/"
    ),
    "damaged changelog": Bad(
        lambda root: edit(root, "checkpoint/state/0/0/11.changelog", lambda data: data[::-1]),
        "state/0/0/11.changelog is damaged",
    ),
    "short offsets": Bad(
        lambda root: edit(root, "checkpoint/offsets/10", lambda data: data[:-1]), "offsets/10 has"
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_a_savepoint_that_is_not_whole_is_refused_and_nothing_is_changed(
    name: str, tmp_path: Path
) -> None:
    source = unpack("rocksdb-changelog", tmp_path / "live")
    saved = saved_from(source, tmp_path, 10, links=False)
    root = Path(saved.savepoint.uri.removeprefix("file://"))
    BAD[name].damage(root)
    before = contents(root)
    with pytest.raises((CheckpointUnfit, StorageError)) as caught:
        restore(saved.savepoint, opened(tmp_path / "back"), FakeClock(), silent, links=False)
    assert BAD[name].text in str(caught.value)
    assert str(root) in str(caught.value) or isinstance(caught.value, StorageError)
    assert not (tmp_path / "back").exists()
    assert contents(root) == before


def test_verify_names_each_file_that_is_not_as_it_was(tmp_path: Path) -> None:
    saved = saved_from(unpack("rocksdb-changelog", tmp_path / "live"), tmp_path, 10, links=False)
    root = Path(saved.savepoint.uri.removeprefix("file://"))
    assert check_files(saved.manifest.files, saved.savepoint.checkpoint, silent) == []
    edit(root, "checkpoint/state/0/0/11.changelog", lambda data: data[::-1])
    (root / "checkpoint/state/0/1/11.changelog").unlink()
    wrong = check_files(saved.manifest.files, saved.savepoint.checkpoint, silent)
    assert [each.fields["why"] for each in wrong] == ["damaged", "missing"]


def test_nothing_is_restored_over_something(tmp_path: Path) -> None:
    saved = saved_from(unpack("stateless", tmp_path / "live"), tmp_path)
    (tmp_path / "back").mkdir()
    (tmp_path / "back/other").write_text("mine")
    with pytest.raises(CheckpointUnfit, match="back is not empty"):
        restore(saved.savepoint, opened(tmp_path / "back"), FakeClock(), silent)
    assert list_paths(tmp_path / "back") == ["other"]


# ---- the manifest


def test_the_manifest_is_that_of_the_golden_file() -> None:
    data = GOLDEN.read_bytes()
    found = parse_manifest(data, "p")
    assert write_manifest(found) == data
    assert (found.batch, found.planned, found.files[0].path) == (118, 119, "commits/118")
    page = (Path(__file__).parents[3] / "docs/formats/savepoint.md").read_text("utf-8")
    assert data.decode().strip() in page


@pytest.mark.parametrize("path", ["../outside", "/etc/passwd", "a//b", ".hidden", "a/.x.crc", ""])
def test_a_manifest_lists_no_file_outside(path: str) -> None:
    found = parse_manifest(GOLDEN.read_bytes(), "p")
    odd = replace(found, files=(replace(found.files[0], path=path),))
    with pytest.raises(CheckpointUnfit, match="it lists"):
        parse_manifest(write_manifest(odd), "p")


@pytest.mark.parametrize("key", [*json.loads(GOLDEN.read_bytes())] if GOLDEN.exists() else [])
def test_a_manifest_without_a_key_is_damaged(key: str) -> None:
    document = json.loads(GOLDEN.read_bytes())
    del document[key]
    with pytest.raises(CheckpointUnfit, match=r"p is damaged|has the format"):
        parse_manifest(json.dumps(document).encode(), "p")


def test_a_savepoint_may_be_on_a_storage_without_links(tmp_path: Path) -> None:
    source = opened(unpack("rocksdb", tmp_path))
    shelf = Shelf(MemoryStorage(FakeClock()), "saved", "memory:saved", lambda: "0" * 16)
    saved = save(source, None, shelf, FakeClock(), silent)
    assert saved.linked == 0
    target = tmp_path / "back"
    restore(saved.savepoint, opened(target), FakeClock(), silent)
    assert take_survey(opened(target)).required.batch == saved.manifest.batch
