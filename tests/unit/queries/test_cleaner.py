"""The checkpoint of a query that runs, cleaned a little at a time."""

import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.checkpoint_files import list_paths, opened, unpack
from tests.unit.queries.test_garbage import LATER_MS, found, keep_last, needs

from ashore.errors import InvariantBroken, StorageError
from ashore.log.progress import CheckpointCleaned, Measure, Quiet
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.cleaner import AGE_MS, STEP_S, CheckpointCleaner
from ashore_lab.testing import FakeClock

SLICE = "ods__per_minute"
NOW_MS = round(time.time() * 1000)


class Told(Quiet):
    """A progress that keeps what it was told."""

    def __init__(self) -> None:
        self.measures: list[Measure] = []
        self.lines: list[str] = []

    def measured(self, measure: Measure) -> None:
        self.measures.append(measure)

    def warn(self, slice_name: str, message: str) -> None:
        self.lines.append(f"warning: {message}")

    def note(self, slice_name: str, message: str) -> None:
        self.lines.append(message)


class _Struck:
    """A storage whose deletions do something else first."""

    def __init__(self, inner: object, strike: Callable[[], None]) -> None:
        self._inner, self._strike = inner, strike

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def delete(self, path: str) -> None:
        self._strike()
        self._inner.delete(path)  # type: ignore[attr-defined]


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A checkpoint with old versions and partitions of an old number, two days old."""
    root = unpack("rocksdb-changelog", tmp_path)
    keep_last(root, 2)
    shutil.copytree(root / "state/0/1", root / "state/0/7")
    age(root, 48)
    return root


def age(root: Path, hours: float) -> None:
    for each in root.rglob("*"):
        os.utime(each, (NOW_MS / 1000 - hours * 3600,) * 2)


def finish(cleaner: CheckpointCleaner, steps: int = 1) -> None:
    for _ in range(steps):
        cleaner.step()


def test_a_pass_deletes_what_no_kept_batch_refers_to_and_is_counted(root: Path, told: Told) -> None:
    wanted, before, size = found(opened(root)), needs(opened(root)), size_of(root)
    files = [path for path in wanted if (root / path).is_file()]
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.step()
    assert told.measures == []

    cleaner.begin(opened(root), NOW_MS, 1)
    finish(cleaner)

    assert len(files) > 20
    assert not [path for path in wanted if (root / path).exists()]
    assert needs(opened(root)) == before
    assert told.measures == [CheckpointCleaned(SLICE, len(files), size - size_of(root), 0)]
    cleaner.begin(opened(root), NOW_MS, 1)
    finish(cleaner)
    assert (len(told.measures), told.lines) == (1, [])


def size_of(root: Path) -> int:
    return sum(each.stat().st_size for each in root.rglob("*") if each.is_file())


def test_what_is_younger_than_a_day_stays_however_soon_files_are_stale(
    root: Path, told: Told
) -> None:
    age(root, AGE_MS / 3_600_000 - 1)
    before = list_paths(root)
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.begin(opened(root), NOW_MS, 1)
    finish(cleaner)
    assert list_paths(root) == before
    age(root, 48)
    cleaner.begin(opened(root), NOW_MS, 4 * AGE_MS)
    finish(cleaner)
    assert list_paths(root) == before


def test_a_step_ends_when_its_time_is_over(root: Path, told: Told) -> None:
    wanted, clock = set(found(opened(root))), FakeClock()

    class Slow(_Struck):
        def list(self, directory: str) -> Any:
            clock.advance(STEP_S)
            return self._inner.list(directory)  # type: ignore[attr-defined]

    checkpoint = opened(root)
    slow: Any = Slow(checkpoint.storage, lambda: None)
    cleaner = CheckpointCleaner(SLICE, clock, told)
    cleaner.begin(Checkpoint(slow, checkpoint.path, checkpoint.uri), NOW_MS, 1)
    cleaner.step()  # the logs
    assert wanted & set(list_paths(root))
    cleaner.begin(opened(root), NOW_MS, 1)  # one is under way: it goes on
    cleaner.step()  # the operator
    assert wanted & set(list_paths(root))
    finish(cleaner, 2)
    assert not wanted & set(list_paths(root))
    assert len(told.measures) == 1


def test_a_pass_that_is_ended_tells_what_it_did(root: Path, told: Told) -> None:
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.begin(opened(root), NOW_MS, 1)
    cleaner.end()
    cleaner.step()
    cleaner.end()
    assert told.measures == []
    assert found(opened(root))


def test_a_storage_that_fails_ends_the_pass_and_the_next_one_finds_the_rest(
    root: Path, told: Told
) -> None:
    def fail() -> None:
        raise StorageError("the disk is full")

    checkpoint = opened(root)
    failing: Any = _Struck(checkpoint.storage, fail)
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.begin(Checkpoint(failing, checkpoint.path, checkpoint.uri), NOW_MS, 1)
    finish(cleaner)
    assert told.lines == ["warning: cleaning the checkpoint: the disk is full"]
    cleaner.begin(checkpoint, NOW_MS, 1)
    finish(cleaner)
    assert not found(checkpoint, LATER_MS)


def test_a_bug_is_raised(root: Path, told: Told) -> None:
    def fail() -> None:
        raise InvariantBroken("a bug")

    checkpoint = opened(root)
    failing: Any = _Struck(checkpoint.storage, fail)
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.begin(Checkpoint(failing, checkpoint.path, checkpoint.uri), NOW_MS, 1)
    with pytest.raises(InvariantBroken):
        cleaner.step()


def test_what_is_not_understood_is_told_once(root: Path, told: Told) -> None:
    newest = max((root / "state/0/0").glob("*.zip"), key=lambda each: int(each.stem))
    newest.write_bytes(b"no archive")
    age(root, 48)
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    for _ in range(2):
        cleaner.begin(opened(root), NOW_MS, 1)
        finish(cleaner)
    (line,) = told.lines
    assert line.startswith("not cleaned, ")
    assert newest.name in told.lines[0]
    lefts = [each.left_alone for each in told.measures if isinstance(each, CheckpointCleaned)]
    assert lefts == [1, 1]


def test_before_the_first_batch_nothing_is_said(tmp_path: Path, told: Told) -> None:
    root = unpack("stateless", tmp_path)
    shutil.rmtree(root / "commits")
    cleaner = CheckpointCleaner(SLICE, FakeClock(), told)
    cleaner.begin(opened(root), NOW_MS, 1)
    finish(cleaner)
    assert (told.lines, told.measures) == ([], [])
