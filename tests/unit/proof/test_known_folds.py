"""Folds that are read on: what is returned, what is read for it, how much is kept."""

from dataclasses import replace

import pytest
from tests.unit.proof.lakes import Lake, fill, make_lake

from ashore.errors import LogDamaged
from ashore.jobs.heartbeat import Heartbeat
from ashore.log import names
from ashore.log.entries import Commit
from ashore.log.names import SliceName
from ashore.log.snapshot import write_snapshot
from ashore.log.store.fold_cache import LIST_EVERY, KnownFolds, items_of
from ashore.log.store.reader import list_log, read_log, read_on
from ashore.proof.status.status import read_status
from ashore.storage.base import FileStat

NAME = SliceName("clicks", "main")
BEAT = Heartbeat("clicks", "lake", "elsewhere", 7, 0, 0, "plan", 0)


def land(lake: Lake, batch: int) -> None:
    lake.land({lake.key(1): (40 + batch, 41 + batch)})


@pytest.fixture
def lake() -> Lake:
    made = make_lake()
    fill(made.source, "clicks", 1, 60)
    return made


def reads(monkeypatch: pytest.MonkeyPatch, lake: Lake) -> list[str]:
    """Return a list of the files that are read from now on."""
    paths: list[str] = []
    read = lake.storage.read

    def noted(path: str) -> bytes:
        paths.append(names.leaf(path))
        return read(path)

    monkeypatch.setattr(lake.storage, "read", noted)
    return paths


def test_what_follows_is_read_alone_and_the_fold_is_the_same(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = KnownFolds()
    for batch in range(12):
        land(lake, batch)
        assert known.read(lake.storage, NAME) == read_log(lake.storage, NAME)
    end = list_log(lake.storage, NAME).latest
    land(lake, 12)
    paths = reads(monkeypatch, lake)
    found = known.read(lake.storage, NAME)
    assert found.end == end + 1
    assert paths == [
        names.leaf(names.entry_path(NAME, number)) for number in (end, end + 1, end + 2)
    ], "the last one that was known, the new one, and none after it"


def test_a_snapshot_between_two_looks_makes_no_difference(lake: Lake) -> None:
    known = KnownFolds()
    land(lake, 0)
    known.read(lake.storage, NAME)
    lake.append(Commit("snapshot"))
    fold = read_log(lake.storage, NAME)
    lake.storage.create(names.snapshot_path(NAME, fold.end), write_snapshot(fold))
    land(lake, 1)
    new = read_log(lake.storage, NAME)
    assert new.base == fold.end
    assert known.read(lake.storage, NAME) == replace(new, base=-1)


def test_another_log_at_the_same_place_is_read_anew(lake: Lake) -> None:
    known, other = KnownFolds(), make_lake()
    fill(other.source, "clicks", 1, 60)
    for batch in range(3):
        land(lake, batch)
        other.land({other.key(1): (40 + 2 * batch, 42 + 2 * batch)})
    known.read(lake.storage, NAME)
    assert other.storage.describe() == lake.storage.describe()
    found = known.read(other.storage, NAME)
    assert found == read_log(other.storage, NAME)
    assert found != read_log(lake.storage, NAME)


def test_what_is_kept_is_bounded(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    land(lake, 0)
    fold = read_log(lake.storage, NAME)
    known = KnownFolds(items_max=items_of(fold) - 1)
    assert known.read(lake.storage, NAME) == fold
    paths = reads(monkeypatch, lake)
    assert known.read(lake.storage, NAME) == fold
    assert len(paths) > 2, "it was too large to be kept"


def test_a_look_lists_nothing_and_costs_what_was_appended(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a log of any length: a listing of it looks at each of its files."""
    known, opened = KnownFolds(), lake.opened()
    opened = replace(opened, folds=known)
    read_status(opened)
    listed: list[str] = []
    list_files = lake.storage.list

    def noted(directory: str) -> list[FileStat]:
        listed.append(directory)
        return list_files(directory)

    monkeypatch.setattr(lake.storage, "list", noted)
    for batch in range(3):
        land(lake, batch)
        beat = replace(BEAT, beat_ms=opened.clock.now_ms())
        assert read_status(opened, beat) == read_status(lake.opened(), beat)
        listed.clear()
        paths = reads(monkeypatch, lake)
        read_status(opened, beat)
        assert listed == [names.job_directory("clicks")], "neither the log nor its tables"
        last = lake.entries[-1].number
        assert set(paths) == {names.leaf(names.entry_path(NAME, each)) for each in (last, last + 1)}


def test_a_stray_late_entry_at_an_archived_number_is_not_taken(lake: Lake) -> None:
    """Its writer was frozen, and others have packed and removed the entries since."""
    land(lake, 0)
    fold = read_log(lake.storage, NAME)
    land(lake, 1)  # what the frozen writer would have appended
    assert len(read_on(lake.storage, NAME, fold) or ()) == 1
    lake.storage.create(names.archive_path(NAME, 0), b"of all these numbers")
    assert read_on(lake.storage, NAME, fold) is None, "a listing tells what counts"


def test_an_entry_that_is_missing_before_others_is_found(lake: Lake) -> None:
    known = KnownFolds()
    known.read(lake.storage, NAME)
    for batch in range(3):
        land(lake, batch)
    lake.storage.delete(names.entry_path(NAME, lake.entries[-2].number))

    def look_often() -> None:
        for _ in range(LIST_EVERY + 2):
            known.read(lake.storage, NAME)

    with pytest.raises(LogDamaged, match="missing"):
        look_often()
