"""Shared savepoints: what the pool has is not copied again, and what one needs stays there."""

import itertools
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.checkpoint_files import WHOLE, list_paths, opened, unpack
from tests.marks import but
from tests.unit.queries.test_savepoints import contents, silent

from ashore.base.units import parse_duration_ms
from ashore.errors import CheckpointUnfit, StorageError
from ashore.queries.state.files import CheckpointStore
from ashore.queries.state.garbage import Unneeded
from ashore.queries.state.savepoints.manifest import (
    PoolFile,
    SavepointKind,
    parse_manifest,
    parse_references,
    write_manifest,
    write_references,
)
from ashore.queries.state.savepoints.restore import restore
from ashore.queries.state.savepoints.save import Saved, Shelf, is_named_once, save
from ashore.queries.state.savepoints.store import Savepoint, list_savepoints
from ashore.queries.state.savepoints.sweep import count_removed, remove_savepoint
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.clean_checkpoint import clean
from ashore.queries.tools.savepoints import verify_savepoint
from ashore.storage import LocalStorage
from ashore_lab.testing import FakeClock

CASES = sorted(each.name.removesuffix(".tar.xz") for each in WHOLE.iterdir())
EVERY_DAY = {"join-3", "rocksdb-changelog"}
GOLDEN = Path(__file__).parents[2] / "golden" / "savepoints"
NUMBERS = itertools.count()


def digits() -> str:
    return f"{next(NUMBERS):016x}"


def take(root: Path, to: Path, batch: int | None = None, *, links: bool = False) -> Saved:
    storage, uri = LocalStorage(str(to)), f"{to.as_uri()}/saved"
    shelf = Shelf(storage, "saved", uri, digits, links, SavepointKind.SHARED)
    return save(opened(root), batch, shelf, FakeClock(), silent)


def expected_of(root: Path, batch: int) -> dict[str, bytes]:
    files = take_survey(opened(root), batch).required.files
    return {each.path: (root / each.path).read_bytes() for each in files}


def remove(savepoint: Savepoint) -> int:
    counted = count_removed(savepoint)
    assert remove_savepoint(savepoint, digits) == counted
    return counted


def pool_files(to: Path) -> list[str]:
    return list_paths(to / "saved/pool")


def root_of(saved: Saved) -> Path:
    return Path(saved.savepoint.uri.removeprefix("file://"))


@pytest.mark.parametrize("links", [True, False], ids=["links", "copies"])
@pytest.mark.parametrize("case", but(pytest.mark.slow, CASES, lambda case: case in EVERY_DAY))
def test_each_savepoint_restores_when_all_others_are_deleted(
    case: str, tmp_path: Path, *, links: bool
) -> None:
    root = unpack(case, tmp_path / "live")
    done = take_survey(opened(root)).done
    batches = [done[-3], done[-1], done[-2]]
    expected = {batch: expected_of(root, batch) for batch in batches}
    saved = {batch: take(root, tmp_path, batch, links=links) for batch in batches}
    shutil.rmtree(root)
    for kept in batches:
        shelf = tmp_path / f"only-{kept}"
        shutil.copytree(tmp_path / "saved", shelf / "saved")
        directory = CheckpointStore(LocalStorage(str(shelf)), "saved", f"{shelf.as_uri()}/saved")
        savepoints = list_savepoints(directory)
        for each in savepoints:
            if each.savepoint.path != saved[kept].savepoint.path:
                remove(each.savepoint)
        (only,) = list_savepoints(directory)
        assert only.manifest is not None
        assert verify_savepoint(only.savepoint, silent) == (only.manifest, [])
        assert len(pool_files(shelf)) == len(only.manifest.files)
        target = shelf / case
        restore(only.savepoint, opened(target), FakeClock(), silent, links=links)
        assert contents(target) == expected[kept]
        remove(only.savepoint)
        assert list_paths(shelf / "saved") == []
        assert contents(target) == expected[kept]


@pytest.mark.parametrize("case", but(pytest.mark.slow, CASES, lambda case: case in EVERY_DAY))
def test_a_second_savepoint_copies_what_the_first_does_not_have(case: str, tmp_path: Path) -> None:
    root = unpack(case, tmp_path / "live")
    batch = take_survey(opened(root)).done[-2]
    first = take(root, tmp_path, batch)
    assert (first.shared, first.manifest.kind) == ((), SavepointKind.SHARED)
    before = {path: (tmp_path / "saved/pool" / path).stat() for path in pool_files(tmp_path)}
    again, newer = take(root, tmp_path, batch), take(root, tmp_path)
    moved = {each.path for each in first.manifest.files if "_metadata/v2" in each.path}
    assert {each.path for each in again.shared} == {e.path for e in first.manifest.files} - moved
    same = expected_of(root, batch).items() & expected_of(root, newer.manifest.batch).items()
    assert {each.path for each in newer.shared} == {path for path, _ in same} - moved
    assert newer.shared_bytes == sum(len(data) for path, data in same if path not in moved)
    for path, stat in before.items():
        assert (tmp_path / "saved/pool" / path).stat() == stat


def test_a_file_of_one_name_and_size_is_copied_where_its_content_is_another(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    take(root, tmp_path, 10)
    changed = root / "state/0/0/11.changelog"
    changed.write_bytes(changed.read_bytes()[::-1])
    saved = take(root, tmp_path, 10)
    assert "state/0/0/11.changelog" not in {each.path for each in saved.shared}
    assert verify_savepoint(saved.savepoint, silent)[1] == []


def test_what_is_gone_from_the_pool_is_copied_again(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first = take(root, tmp_path, 10)
    (tmp_path / "saved/pool" / first.savepoint.unique / "state/0/0/11.changelog").unlink()
    saved = take(root, tmp_path, 10)
    assert len(saved.shared) == len(first.manifest.files) - 1
    assert verify_savepoint(saved.savepoint, silent)[1] == []


def test_a_savepoint_without_a_manifest_is_not_relied_on(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first = take(root, tmp_path, 10)
    (root_of(first) / "savepoint.json").unlink()
    assert take(root, tmp_path, 10).shared == ()


def test_what_a_sweep_has_condemned_is_copied_again(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first = take(root, tmp_path, 10)
    condemned = PoolFile(first.savepoint.unique, "state/0/0/11.changelog")
    place = tmp_path / "saved/pool" / f"condemned-{digits()}.json"
    place.write_bytes(write_references([condemned]))
    saved = take(root, tmp_path, 10)
    assert len(saved.shared) == len(first.manifest.files) - 1
    place.unlink()
    remove(first.savepoint)  # its reference of before does not keep the file that was not used
    there = {f"{each.pool}/{each.path}" for each in saved.manifest.files}
    assert set(pool_files(tmp_path)) == there


@pytest.mark.parametrize(
    ("path", "is_once"),
    [
        ("state/0/1/SSTs/000008-2cceb362-7081-4b7f-8f1a-df815f004a95.sst", True),
        ("state/0/1/SSTs/000008.sst", False),
        ("state/0/1/7_54524d88-9168-4712-9f47-e1ae39c2a998.changelog", True),
        ("state/0/1/7_54524d88-9168-4712-9f47-e1ae39c2a998.zip.crc", True),
        ("state/0/1/7.changelog", False),
        ("state/0/1/7.zip", False),
        ("offsets/7", False),
    ],
)
def test_only_names_with_an_id_tell_what_is_in_a_file(path: str, *, is_once: bool) -> None:
    assert is_named_once(path) == is_once


# ---- clean


def test_a_clean_finds_what_no_savepoint_needs(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first, second = take(root, tmp_path, 6), take(root, tmp_path, 10)
    shutil.rmtree(root_of(first))
    shelf, needed = tmp_path / "saved", {each.pool for each in second.manifest.files}
    assert needed == {first.savepoint.unique, second.savepoint.unique}
    only = {each.path for each in first.manifest.files} - {e.path for e in second.shared}
    day_ms = parse_duration_ms("24h")
    assert clean(str(shelf), None, day_ms, FakeClock(), explain=True).total.files == 0

    clock = FakeClock(start_ms=1 << 42)
    before = list_paths(shelf)
    planned = clean(str(shelf), None, day_ms, clock, explain=True)
    assert list_paths(shelf) == before
    done = clean(str(shelf), None, day_ms, clock, explain=False)
    assert planned.amounts == done.amounts
    assert (done.total.files, [*done.amounts]) == (len(only), [Unneeded.POOL])
    assert verify_savepoint(second.savepoint, silent)[1] == []
    assert clean(str(shelf), None, day_ms, clock, explain=False).total.files == 0


def test_a_clean_leaves_what_an_unfinished_savepoint_may_need(tmp_path: Path) -> None:
    saved = take(unpack("rocksdb-changelog", tmp_path / "live"), tmp_path, 6)
    (root_of(saved) / "savepoint.json").unlink()
    before = list_paths(tmp_path / "saved")
    done = clean(str(tmp_path / "saved"), None, 0, FakeClock(start_ms=1 << 42), explain=False)
    assert list_paths(tmp_path / "saved") == before
    assert [(each.path, done.total.files) for each in done.left] == [(str(root_of(saved)), 0)]


def test_a_clean_removes_what_an_interrupted_one_has_left(tmp_path: Path) -> None:
    saved = take(unpack("rocksdb-changelog", tmp_path / "live"), tmp_path, 6)
    place = tmp_path / "saved/pool" / f"condemned-{digits()}.json"
    place.write_bytes(b"cut sho")
    clock = FakeClock(start_ms=1 << 42)
    assert clean(str(tmp_path / "saved"), None, 0, clock, explain=False).total.size_bytes == 7
    assert not place.exists()
    assert verify_savepoint(saved.savepoint, silent)[1] == []


# ---- bad input


@dataclass(frozen=True)
class Bad:
    """What is done to the first of two savepoints, and what the refusal names."""

    damage: Callable[[Path, Path], object]  # the savepoint, its directory of the pool
    text: str


def edit(path: Path, edit_bytes: Callable[[bytes], bytes]) -> None:
    path.write_bytes(edit_bytes(path.read_bytes()))


BAD = {
    "truncated manifest": Bad(
        lambda root, _: edit(root / "savepoint.json", lambda data: data[:-9]),
        "savepoint.json is damaged",
    ),
    "no manifest": Bad(lambda root, _: (root / "savepoint.json").unlink(), "savepoint.json is mi"),
    "missing SST": Bad(lambda _, own: max(own.glob("state/0/1/SSTs/*")).unlink(), "/state/0/1/SST"),
    "damaged changelog": Bad(
        lambda _, own: edit(own / "state/0/0/11.changelog", lambda data: data[::-1]),
        "state/0/0/11.changelog is damaged",
    ),
    "no pool": Bad(lambda _, own: shutil.rmtree(own.parent), "/pool/"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_shared_savepoint_that_is_not_whole_is_refused(name: str, tmp_path: Path) -> None:
    saved = take(unpack("rocksdb-changelog", tmp_path / "live"), tmp_path, 10)
    BAD[name].damage(root_of(saved), tmp_path / "saved/pool" / saved.savepoint.unique)
    before = contents(tmp_path / "saved")
    with pytest.raises((CheckpointUnfit, StorageError)) as caught:
        restore(saved.savepoint, opened(tmp_path / "back"), FakeClock(), silent, links=False)
    assert BAD[name].text in str(caught.value)
    assert not (tmp_path / "back").exists()
    assert contents(tmp_path / "saved") == before


@pytest.mark.parametrize("name", ["missing SST", "damaged changelog"])
def test_verify_names_files_of_the_pool(name: str, tmp_path: Path) -> None:
    saved = take(unpack("rocksdb-changelog", tmp_path / "live"), tmp_path, 10)
    own = tmp_path / "saved/pool" / saved.savepoint.unique
    BAD[name].damage(root_of(saved), own)
    (wrong,) = verify_savepoint(saved.savepoint, silent)[1]
    assert str(own) in wrong.message


@pytest.mark.parametrize("damage", [b"", b"cut sho"], ids=["empty", "cut"])
def test_nothing_is_deleted_where_a_savepoint_does_not_tell_what_it_needs(
    damage: bytes, tmp_path: Path
) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first, second = take(root, tmp_path, 6), take(root, tmp_path, 10)
    for name in ("references.json", "savepoint.json"):
        (root_of(second) / name).write_bytes(damage)
    before = contents(tmp_path / "saved")
    for act in (count_removed, lambda each: remove_savepoint(each, digits)):
        with pytest.raises(CheckpointUnfit, match=r"references.json is damaged"):
            act(first.savepoint)
    with pytest.raises(CheckpointUnfit, match=r"references.json is damaged"):
        clean(str(tmp_path / "saved"), None, 0, FakeClock(start_ms=1 << 42), explain=False)
    assert contents(tmp_path / "saved") == before
    remove(second.savepoint)
    assert verify_savepoint(first.savepoint, silent)[1] == []


@pytest.mark.parametrize("name", ["references.json", "savepoint.json"])
def test_one_of_both_tells_what_a_savepoint_needs(name: str, tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path / "live")
    first, second = take(root, tmp_path, 6), take(root, tmp_path, 10)
    (root_of(second) / name).write_bytes(b"cut sho")
    remove(first.savepoint)
    there = {f"{each.pool}/{each.path}" for each in second.manifest.files}
    assert set(pool_files(tmp_path)) == there


# ---- what is written


def test_the_manifest_of_a_shared_savepoint_is_that_of_the_golden_file() -> None:
    data = (GOLDEN / "shared.json").read_bytes()
    found = parse_manifest(data, "p")
    assert write_manifest(found) == data
    assert (found.kind, found.files[0].pool) == (SavepointKind.SHARED, "3f9c0a12b4d5e6f7")
    page = (Path(__file__).parents[3] / "docs/formats/savepoint.md").read_text("utf-8")
    assert data.decode().strip() in page


def test_references_are_those_of_the_golden_file() -> None:
    data = (GOLDEN / "references.json").read_bytes()
    found = parse_references(data, "p")
    assert write_references(found) == data
    assert PoolFile("3f9c0a12b4d5e6f7", "metadata") in found
    page = (Path(__file__).parents[3] / "docs/formats/savepoint.md").read_text("utf-8")
    assert data.decode().strip() in page


@pytest.mark.parametrize(
    "files",
    [
        [],
        {"../..": ["metadata"]},
        {"3f9c0a12b4d5e6f7": "metadata"},
        {"3f9c0a12b4d5e6f7": ["../metadata"]},
        {"3f9c0a12b4d5e6f7": ["/etc/passwd"]},
        {"3f9c0a12b4d5e6f7": [1]},
    ],
)
def test_references_name_nothing_outside_the_pool(files: object) -> None:
    sealed = json.loads(write_references([]))
    data = json.dumps({**sealed, "files": files}).encode()
    with pytest.raises(CheckpointUnfit, match="p is damaged"):
        parse_references(data, "p")


@pytest.mark.parametrize("pool", ["", "..", "3F9C0A12B4D5E6F7", "a/b"])
def test_a_shared_manifest_names_directories_of_the_pool(pool: str) -> None:
    data = (
        (GOLDEN / "shared.json")
        .read_bytes()
        .replace(b'"3f9c0a12b4d5e6f7"', json.dumps(pool).encode())
    )
    with pytest.raises(CheckpointUnfit, match="p is damaged"):
        parse_manifest(data, "p")
