"""Of two writers at most one appends; the other repeats what the log orders, or is fenced (I4)."""

import itertools
from collections.abc import Callable

import pytest
from tests.crash import second_writer
from tests.crash.harness import (
    NAME,
    World,
    history,
    keep_house,
    memory_world,
    read_entries_once,
    require_none_fails,
    walk,
)
from tests.crash.second_writer import (
    OPENS,
    OTHERS,
    WAKING,
    begun_world,
    land_everything,
    land_one_batch,
    start_again_and_again,
)
from tests.marks import but

from ashore.errors import Fenced, StorageError
from ashore.log import names
from ashore.log.store import log
from ashore.log.store.reader import list_log
from ashore.storage import Storage
from ashore_lab.testing import FaultyStorage


@pytest.fixture(autouse=True)
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot after every closed entry, an archive of every two entries."""
    monkeypatch.setattr(log, "SNAPSHOT_EVERY", 1)
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 2)


def staged(storage: Storage) -> list[str]:
    return [path for path in walk(storage, "ods.db") if path.endswith(".in-progress")]


@pytest.mark.parametrize(
    ("others", "waking"),
    but(
        pytest.mark.long,
        itertools.product(OTHERS, WAKING),
        lambda others, waking: others is land_one_batch or waking == "wakes",
    ),
    ids=lambda value: getattr(value, "__name__", value),
)
def test_a_writer_frozen_before_every_call(others: Callable[[World], None], waking: str) -> None:
    require_none_fails(second_writer.frozen_writers(others, waking))


@pytest.mark.parametrize(
    ("waking", "kind"),
    [
        ("wakes", "create"),
        *(pytest.param(each, None, marks=pytest.mark.long) for each in WAKING),
    ],
)
def test_a_writer_frozen_before_every_call_while_others_start_again_and_again(
    monkeypatch: pytest.MonkeyPatch, waking: str, kind: str | None
) -> None:
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", OPENS)
    read_entries_once(monkeypatch)
    require_none_fails(second_writer.frozen_writers(start_again_and_again, waking, kind))


def test_what_a_frozen_writer_tries_next_has_been_removed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", OPENS)
    world = second_writer.new_world()
    first = world.start()
    first.loop.tick()
    following = first.loop.parts.log.fold.end + 1
    start_again_and_again(world)
    (opened,) = [each for each in history(world.machine) if each.number == following]
    assert opened.kind == "open"
    kept = list_log(world.machine, NAME).entries
    assert following not in kept
    with pytest.raises(Fenced):
        first.loop.tick()


def test_housekeeping_frozen_before_every_call() -> None:
    require_none_fails(second_writer.frozen_keepers())


def test_the_others_do_archive_and_remove_and_clean() -> None:
    world = second_writer.new_world()
    land_everything(world)
    listing = list_log(world.machine, NAME)
    assert len(listing.archives) > 2
    assert len(listing.snapshots) == 2
    assert set(range(4)) - set(listing.entries), "entries were removed"

    world, _ = begun_world()
    before = staged(world.machine)
    keep_house(world, world.machine)
    after = staged(world.machine)
    assert 0 < len(after) < len(before)


class Unreadable(FaultyStorage):
    """Cannot list while it is dark."""

    is_dark = False

    def list(self, directory):  # type: ignore[no-untyped-def]
        if self.is_dark:
            raise StorageError("injected: no answer")
        return super().list(directory)


def test_who_has_seen_the_other_never_takes_the_slice_back() -> None:
    world = memory_world()
    storage = Unreadable(world.machine)
    first = world.start_on(storage)
    first.loop.tick()
    world.start().loop.open()
    storage.is_dark = True
    for _ in range(2):
        with pytest.raises(StorageError, match="no answer"):
            first.loop.tick()
    storage.is_dark = False
    for _ in range(2):
        with pytest.raises(Fenced):
            first.loop.tick()
