"""Folds that are read on: what is returned, what is read for it, how much is kept."""

from dataclasses import replace

import pytest
from tests.unit.control.lakes import Lake, fill, make_lake

from ashore.control.known_folds import KnownFolds, items_of
from ashore.landing.log_reader import list_log, read_log
from ashore.protocol import names
from ashore.protocol.entries import Commit
from ashore.protocol.names import SliceName
from ashore.protocol.snapshot import write_snapshot

NAME = SliceName("clicks", "main")


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
