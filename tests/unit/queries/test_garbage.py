"""What no kept batch refers to, in checkpoints that Spark 4.2 wrote."""

import shutil
import tracemalloc
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import WHOLE, list_paths, opened, unpack

from ashore.errors import CheckpointUnfit, PathMissing, StorageError
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.cleaner import LeftAlone, delete_garbage, find_garbage
from ashore.queries.state.garbage import Garbage, Unneeded
from ashore.queries.state.required_files import list_done, plan_required
from ashore.storage.base import FileStat

CASES = sorted(each.name.removesuffix(".tar.xz") for each in WHOLE.iterdir())
LATER_MS = 10**14


def found(checkpoint: Checkpoint, before_ms: int = LATER_MS) -> dict[str, Unneeded]:
    garbage = list(find_garbage(checkpoint, before_ms))
    assert all(isinstance(each, Garbage) for each in garbage), garbage
    return {each.path: each.why for each in garbage if isinstance(each, Garbage)}


def needs(checkpoint: Checkpoint) -> dict[int, object]:
    """What each kept batch needs, or that it cannot be had."""
    files, answers = checkpoint.list_files(), {}
    for batch in list_done(files):
        try:
            needed = plan_required(files, batch, checkpoint.read_all)
            answers[batch] = [each.path for each in needed.files]
        except CheckpointUnfit as error:
            answers[batch] = str(error)
    return answers


def clean(checkpoint: Checkpoint) -> list[str]:
    found_ = (each for each in find_garbage(checkpoint, LATER_MS) if isinstance(each, Garbage))
    return [each.path for each in delete_garbage(checkpoint, found_)]


@pytest.fixture(params=CASES)
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return unpack(request.param, tmp_path)


def keep_last(root: Path, count: int) -> None:
    """Forget all but the last batches: Spark deletes old logs and old state apart."""
    for log in ("commits", "offsets"):
        batches = sorted(int(each.name) for each in (root / log).iterdir() if each.name.isdigit())
        for batch in batches[: -count - (log == "offsets")]:
            (root / log / str(batch)).unlink()


@pytest.mark.parametrize("kept", [1, 2, 3, 100])
def test_kept_batches_need_what_they_needed_before(root: Path, kept: int) -> None:
    checkpoint = opened(root)
    keep_last(root, kept)
    before = needs(checkpoint)
    gone, there = clean(checkpoint), list_paths(root)
    assert needs(checkpoint) == before
    assert not set(gone) & set(there)
    assert clean(checkpoint) == []
    needed = {path for some in before.values() if isinstance(some, list) for path in some}
    assert needed <= set(there)


def test_old_versions_and_their_tables_go_when_their_batches_are_forgotten(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    keep_last(root, 1)
    counts = Counter(found(opened(root)).values())
    assert counts[Unneeded.OLD_VERSION] > 10
    assert counts[Unneeded.TABLE] > 0
    assert set(counts) == {Unneeded.OLD_VERSION, Unneeded.TABLE, Unneeded.CHECKSUM}


def test_nothing_that_is_young_goes(root: Path) -> None:
    keep_last(root, 1)
    (root / "state").mkdir(exist_ok=True)
    newest = max((root / each).stat().st_mtime for each in list_paths(root))
    oldest = min((root / each).stat().st_mtime for each in list_paths(root))
    assert found(opened(root), int(oldest * 1000)) == {}
    assert found(opened(root), int(newest * 1000) + 1) == found(opened(root))


# ---- each kind of garbage, laid into a checkpoint


def add(root: Path, path: str, like: str | None = None) -> str:
    """Lay a file into a checkpoint: a copy of another one, or of some bytes."""
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(b"x" if like is None else (root / like).read_bytes())
    return path


def test_partitions_of_an_old_number_go_with_their_directories(tmp_path: Path) -> None:
    root = unpack("join-2", tmp_path)
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    before = needs(opened(root))
    whys = Counter(found(opened(root)).values())
    assert set(whys) == {Unneeded.PARTITION, Unneeded.CHECKSUM, Unneeded.EMPTY}
    clean(opened(root))
    assert sorted(each.name for each in (root / "state/0").iterdir()) == ["0", "1", "_metadata"]
    assert needs(opened(root)) == before


def test_a_partition_stays_as_long_as_a_kept_batch_had_it(tmp_path: Path) -> None:
    root = unpack("hdfs-backed", tmp_path)
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    first = root / "offsets/3"
    few, many = '"spark.sql.shuffle.partitions":"2"', '"spark.sql.shuffle.partitions":"3"'
    assert few in first.read_text()
    first.write_text(first.read_text().replace(few, many))
    assert found(opened(root)) == {}
    keep_last(root, 2)
    assert Unneeded.PARTITION in found(opened(root)).values()


def test_what_an_operator_was_before_the_kept_batches_goes(tmp_path: Path) -> None:
    """A join of form 3 says at each start what it is: at batches 0, 2, 4 ... of this one."""
    root = unpack("join-3", tmp_path)
    assert found(opened(root)) == {}
    keep_last(root, 3)  # 9, 10 and 11
    said = {int(each.name) for each in (root / "state/0/_metadata/v2").glob("[0-9]*")}
    assert said == {0, 2, 4, 6, 8, 10}
    named = next((root / "state/0/_stateSchema/default").glob("0_*")).name
    old = [add(root, f"state/0/_stateSchema/default/{name}") for name in ("3_a-b", "11_c-d")]
    young = add(root, "state/0/_stateSchema/default/12_e-f")  # of a batch that is not done

    whys = found(opened(root))

    gone = {path: why for path, why in whys.items() if "/_" in path and ".crc" not in path}
    assert gone == {
        **{f"state/0/_metadata/v2/{batch}": Unneeded.OPERATOR for batch in (0, 2, 4, 6)},
        **dict.fromkeys(old, Unneeded.SCHEMA),
    }
    assert whys["state/0/_metadata/v2/.6.crc"] is Unneeded.CHECKSUM
    assert "state/0/_metadata/v2/.8.crc" not in whys
    before = needs(opened(root))
    clean(opened(root))
    assert needs(opened(root)) == before
    assert {f"state/0/_stateSchema/default/{named}", young} <= set(list_paths(root))


@pytest.mark.parametrize("batch", [8, 10])
def test_an_operator_that_is_not_understood_keeps_its_schemas(tmp_path: Path, batch: int) -> None:
    root = unpack("join-3", tmp_path)
    keep_last(root, 3)
    add(root, "state/0/_stateSchema/default/3_a-b")
    (root / f"state/0/_metadata/v2/{batch}").write_bytes(b"v3")
    garbage = list(find_garbage(opened(root), LATER_MS))
    assert [each.path for each in garbage if isinstance(each, LeftAlone)] == ["state/0"]
    assert not any("/_" in each.path for each in garbage if isinstance(each, Garbage))


class _Vanishing:
    """A storage whose snapshots are gone by the time they are read: Spark was at work."""

    def __init__(self, inner: object) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        if path.endswith(".zip"):
            raise PathMissing(f"{path} does not exist", path=path)
        data: bytes = self._inner.read(path, start, length)  # type: ignore[attr-defined]
        return data


def test_no_table_goes_where_spark_replaces_the_snapshot_that_names_it(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    checkpoint = opened(root)
    vanishing: Any = _Vanishing(checkpoint.storage)
    garbage = list(find_garbage(replace(checkpoint, storage=vanishing), LATER_MS))
    assert [each for each in garbage if isinstance(each, Garbage)] == []
    assert {each.path for each in garbage} == {"state/0/0", "state/0/1"}


def test_a_task_that_died_has_left_what_no_commit_names(tmp_path: Path) -> None:
    root = unpack("format-2", tmp_path)
    store = max((root / "state/0/0").glob("[0-9]*.changelog"))
    version = store.name.partition("_")[0]
    dead = add(root, f"state/0/0/{version}_dead-1.changelog", f"state/0/0/{store.name}")
    add(root, f"{dead}.crc")
    assert found(opened(root)) == {dead: Unneeded.DEAD_TASK, f"{dead}.crc": Unneeded.CHECKSUM}


def test_commits_stay_that_name_the_state_later_batches_build_on(tmp_path: Path) -> None:
    """A savepoint has all commits that its chains need, and the offsets of two batches."""
    root = unpack("format-2", tmp_path)
    last = list_done(opened(root).list_files())[-1]
    for path in (*root.glob("state/*/*/*.zip"), *root.glob("offsets/[0-9]*")):
        if path.suffix == ".zip" or int(path.name) < last - 1:
            path.unlink()
    before = needs(opened(root))[last]
    assert isinstance(before, list)
    assert "commits/0" in before
    clean(opened(root))
    assert needs(opened(root))[last] == before


def test_what_a_running_spark_writes_stays_whatever_its_age(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    before = found(opened(root))
    for name in ("13.changelog", "14.changelog"):  # batch 11 is the last that is done
        add(root, f"state/0/0/{name}", "state/0/0/12.changelog")
    add(root, "state/0/0/13.zip", "state/0/0/10.zip")
    add(root, "state/0/7/13.changelog", "state/0/0/12.changelog")  # it has more partitions
    add(root, "offsets/12", "offsets/11")
    assert found(opened(root)) == before


def test_half_made_files_and_checksums_of_none_go(tmp_path: Path) -> None:
    root = unpack("rocksdb", tmp_path)
    half = [add(root, path) for path in ("offsets/.12.a-b.tmp", "state/0/1/.9.zip.c-d.TID7.tmp")]
    sums = [add(root, path) for path in (".gone.crc", "state/0/1/.3000.zip.crc")]
    add(root, "notes.txt")  # whose file this is only its owner knows
    assert found(opened(root)) == {
        **dict.fromkeys(half, Unneeded.HALF_MADE),
        **dict.fromkeys(sums, Unneeded.CHECKSUM),
    }


def test_a_store_that_is_not_understood_is_left_alone_and_others_are_not(tmp_path: Path) -> None:
    root = unpack("rocksdb-changelog", tmp_path)
    keep_last(root, 1)
    in_order = found(opened(root))
    newest = max((root / "state/0/0").glob("*.zip"), key=lambda each: int(each.stem))
    newest.write_bytes(newest.read_bytes()[:-30])
    for each in (root / "state/0/1").glob("12.*"):
        each.unlink()

    garbage = list(find_garbage(opened(root), LATER_MS))

    left = [each for each in garbage if isinstance(each, LeftAlone)]
    assert [each.path for each in left] == ["state/0/0", "state/0/1"]
    assert newest.name in left[0].why
    assert "lead to any" in left[1].why
    others = {each.path for each in garbage if isinstance(each, Garbage)}
    wanted = {path for path in in_order if not path.startswith("state/0/")}
    assert wanted <= others


def test_without_a_finished_batch_nothing_is_known_to_be_garbage(tmp_path: Path) -> None:
    root = unpack("stateless", tmp_path)
    shutil.rmtree(root / "commits")
    with pytest.raises(CheckpointUnfit, match="no finished batch"):
        found(opened(root))


class _Dying:
    """A storage that fails at its n-th deletion."""

    def __init__(self, inner: object, deletions: int) -> None:
        self._inner, self._left = inner, deletions

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)

    def delete(self, path: str) -> None:
        self._left -= 1
        if self._left < 0:
            raise StorageError("the disk is gone")
        self._inner.delete(path)  # type: ignore[attr-defined]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["join-2", "rocksdb-changelog"])
def test_a_cleaning_that_stops_anywhere_is_finished_by_the_next_one(
    case: str, tmp_path: Path
) -> None:
    root = unpack(case, tmp_path)
    keep_last(root, 1)
    shutil.copytree(root / "state/0/1", root / "state/0/7")
    before = needs(opened(root))
    whole = shutil.copytree(root, tmp_path / "whole" / case)
    total = len(clean(opened(whole)))
    for deletions in range(0, total, 17):
        copy = shutil.copytree(root, tmp_path / str(deletions) / case)
        checkpoint = opened(copy)
        dying: Any = _Dying(checkpoint.storage, deletions)
        with pytest.raises(StorageError):
            clean(replace(checkpoint, storage=dying))
        assert needs(checkpoint) == before
        clean(checkpoint)
        assert list_paths(copy) == list_paths(whole)
        shutil.rmtree(copy)


# ---- many files


class _Many:
    """A storage with a checkpoint of one operator, made up as it is asked for."""

    def __init__(self, partitions: int, versions: int) -> None:
        self.partitions, self.versions = partitions, versions
        self.calls: Counter[str] = Counter()

    def list(self, directory: str) -> list[FileStat]:
        self.calls["list"] += 1
        last = self.versions - 1
        match directory.removeprefix("many").strip("/").split("/"):
            case [""]:
                return [self._stat(f"{directory}/metadata")]
            case ["offsets" | "commits"]:
                return [self._stat(f"{directory}/{batch}") for batch in range(last - 9, last + 1)]
            case ["state"]:
                return [self._stat(f"{directory}/0", is_directory=True)]
            case ["state", "0", "_metadata" | "_stateSchema"]:
                return []
            case ["state", "0"]:
                numbers = range(self.partitions)
                return [self._stat(f"{directory}/{each}", is_directory=True) for each in numbers]
            case _:
                versions = range(1, self.versions + 1)
                names = [
                    *(f"{each}.changelog" for each in versions),
                    *(f"{each}.snapshot" for each in versions if each % 20 == 0),
                ]
                return [self._stat(f"{directory}/{name}") for name in names]

    def read(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        self.calls["read"] += 1
        if "/commits/" in path:
            return b'v1\n{"nextBatchWatermarkMs":0}'
        conf = f'{{"spark.sql.shuffle.partitions":"{self.partitions}"}}'
        head = f'{{"batchWatermarkMs":0,"batchTimestampMs":0,"conf":{conf}}}'
        return f"v1\n{head}\n{{}}".encode()

    @staticmethod
    def _stat(path: str, *, is_directory: bool = False) -> FileStat:
        return FileStat(path, 0 if is_directory else 100, 1, is_directory)


def measure(partitions: int, versions: int) -> tuple[int, Counter[str], int]:
    storage: Any = _Many(partitions, versions)
    tracemalloc.start()
    garbage = find_garbage(Checkpoint(storage, "many", "file:///many"), LATER_MS)
    count = sum(1 for _ in garbage)
    peak_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return count, storage.calls, peak_bytes


@pytest.mark.slow
def test_many_partitions_take_one_listing_each_and_no_more_memory() -> None:
    few, _, few_bytes = measure(64, 60)
    many, calls, many_bytes = measure(500, 60)
    old = 39 + 1  # batch 50 is the oldest kept one, and its chain begins with 40.snapshot
    assert (few, many) == (64 * old, 500 * old)
    assert calls == {"list": 3 + 2 + 2 + 500, "read": 2}
    # A partition costs its name in one listing, 250 to 450 bytes as the threads happen to overlap;
    # with the statuses of its sixty files and more it would cost over 5,000.
    assert many_bytes - few_bytes < 2_000 * (500 - 64)
