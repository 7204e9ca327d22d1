"""Packing: nothing is removed before it is packed and read back; of `open` entries some stay."""

import gzip

import pytest
from tests.strategies import Chain
from tests.unit.topics.log_lake import LOG, NAME, Frozen, Lake, entry_name, fill

from ashore.errors import LogDamaged, StorageError
from ashore.log import names
from ashore.log.entries import Entry
from ashore.log.store.archive import archive_log, find_staying
from ashore.log.store.reader import list_log, read_archive, read_history, read_log
from ashore_lab.testing import FailAfterEffect, FailBefore, LateEffect, ProcessStopped, StopProcess


@pytest.fixture(autouse=True)
def small_archives(monkeypatch) -> None:
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)


def grown() -> Lake:
    """A log to be packed: opens at 0, 5 and 6, snapshots at 4, 9 and 13, the end at 14."""
    lake = Lake()
    log = lake.opened()
    fill(log, 4, snapshot=True)
    lake.opened()
    log = lake.opened()
    fill(log, 9, snapshot=True)
    fill(log, 13, snapshot=True)
    fill(log, 14)
    return lake


PACKED = [
    *(entry_name(number) for number in (0, 5, 6, 12, 13, 14)),
    *(f"_archive-{index}.gz" for index in range(3)),
    "_snapshot-13.json",
    "_snapshot-9.json",
]


def test_whole_archives_below_the_newest_snapshot_are_packed():
    lake = grown()
    assert archive_log(lake.storage, NAME) == 10
    assert lake.listed() == PACKED
    for index in range(3):
        packed = gzip.decompress(lake.storage.read(names.archive_path(NAME, index)))
        numbers = range(4 * index, 4 * index + 4)
        assert packed == b"".join(lake.storage.first[names.entry_path(NAME, n)] for n in numbers)
        assert [entry.number for entry in read_archive(lake.storage, NAME, index)] == [*numbers]
    assert lake.wrong() is None


def started_again(monkeypatch) -> Lake:
    """A log with a crash loop: opens at 0, 3, 4, 5, 6, 7, 8 and 9, archives of eight."""
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 8)
    lake = Lake()
    fill(lake.opened(), 2)
    for _ in range(7):
        log = lake.opened()
    fill(log, 20, snapshot=True)
    return lake


STARTED = [
    *(entry_name(number) for number in (0, 7, 8, 9, *range(16, 21))),
    *(f"_archive-{index}.gz" for index in range(2)),
    "_snapshot-20.json",
]


def test_of_each_archive_the_first_and_the_last_open_stay(monkeypatch):
    lake = started_again(monkeypatch)
    assert archive_log(lake.storage, NAME) == 12
    assert lake.listed() == STARTED
    assert list(read_history(lake.storage, NAME)) == lake.history()
    assert lake.wrong() is None
    storage = lake.faulty()
    assert archive_log(storage, NAME) == 0
    assert [call.kind for call in storage.calls] == ["list", "read", "read"]  # it is settled


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stop_at_any_call_while_opens_are_removed_loses_nothing(monkeypatch, when):
    whole = started_again(monkeypatch).faulty()
    archive_log(whole, NAME)
    for call in whole.calls:
        lake = started_again(monkeypatch)
        with pytest.raises(ProcessStopped):
            archive_log(lake.faulty(StopProcess(call.number, when=when)), NAME)
        assert lake.wrong() is None, call
        archive_log(lake.storage, NAME)
        assert lake.listed() == STARTED, call
        assert list(read_history(lake.storage, NAME)) == lake.history()


def test_a_stray_at_the_number_of_a_removed_open_is_removed(monkeypatch):
    lake = started_again(monkeypatch)
    archive_log(lake.storage, NAME)
    content = lake.storage.first[names.entry_path(NAME, 4)]
    lake.storage.create(names.entry_path(NAME, 10), content)
    assert archive_log(lake.storage, NAME) == 1
    assert lake.listed() == STARTED


def opens_of(*looks_back: bool) -> list[Entry]:
    chain = Chain()
    for each in looks_back:
        chain.open(looks_back=each)
    return chain.entries


@pytest.mark.parametrize(
    ("looks_back", "staying"),
    [
        ([], set()),
        ([True], {0}),
        ([True, True], {0, 1}),
        ([True, True, True, True], {0, 3}),
        ([False, False, False], {0, 1, 2}),
        ([False, False, True, True, True, True], {0, 1, 2, 5}),
        ([True, False, True, True], {0, 2, 3}),
    ],
)
def test_an_open_stays_where_the_writer_before_does_not_look(looks_back, staying):
    assert find_staying(opens_of(*looks_back)) == staying


def test_doing_it_again_does_nothing_and_reads_no_archive():
    lake = grown()
    archive_log(lake.storage, NAME)
    storage = lake.faulty()
    assert archive_log(storage, NAME) == 0
    assert {call.kind for call in storage.calls} == {"list"}  # opens 0, 5 and 6 are settled


@pytest.mark.parametrize(("end", "archives"), [(2, 0), (3, 0), (4, 1), (7, 1), (8, 2)], ids=str)
def test_only_entries_strictly_below_the_snapshot_are_packed(end: int, archives: int):
    lake = Lake()
    log = lake.opened()
    fill(log, end, snapshot=True)
    fill(log, 14)
    archive_log(lake.storage, NAME)
    assert len(list_log(lake.storage, NAME).archives) == archives
    assert entry_name(end) in lake.listed()  # the entry at the snapshot's own number stays


def test_a_log_without_a_snapshot_is_left_alone():
    lake = Lake()
    fill(lake.opened(), 14)
    assert archive_log(lake.storage, NAME) == 0
    assert len(lake.listed()) == 15


def every_call() -> range:
    """Return the numbers of the storage calls that packing makes."""
    lake = grown()
    storage = lake.faulty()
    archive_log(storage, NAME)
    return range(1, len(storage.calls) + 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_stop_at_any_call_loses_nothing_and_the_next_run_goes_on(when):
    for number in every_call():
        lake = grown()
        with pytest.raises(ProcessStopped):
            archive_log(lake.faulty(StopProcess(number, when=when)), NAME)
        assert lake.wrong() is None, number
        assert list(read_history(lake.storage, NAME)) == lake.history()
        archive_log(lake.storage, NAME)
        assert lake.listed() == PACKED, number
        assert lake.wrong() is None


@pytest.mark.parametrize("fault", [FailBefore, FailAfterEffect, LateEffect])
def test_a_failure_at_any_call_loses_nothing_and_the_next_run_goes_on(fault):
    for number in every_call():
        lake = grown()
        faults = [fault(number, None, None)] if fault is LateEffect else [fault(number)]
        with pytest.raises(StorageError):
            archive_log(lake.faulty(*faults), NAME)
        assert lake.wrong() is None, number
        archive_log(lake.storage, NAME)
        lake.pending.release()
        assert lake.listed() == PACKED, number
        assert lake.wrong() is None


def test_two_archivers_at_once_do_what_one_does():
    """One runs from its start to its end while the other stands still before any one call."""
    lake = grown()
    storage = lake.faulty()
    archive_log(storage, NAME)
    for call in storage.calls:
        lake = grown()
        frozen = Frozen(lake.storage)
        frozen.before(
            call.kind, names.leaf(call.path), lambda lake=lake: archive_log(lake.storage, NAME)
        )
        archive_log(frozen, NAME)
        assert frozen.is_done
        assert lake.listed() == PACKED, call
        assert lake.wrong() is None


def test_an_archiver_frozen_for_long_removes_nothing_that_is_wanted():
    lake = grown()
    frozen = Frozen(lake.storage)

    def long() -> None:
        log = lake.opened()
        for end in (20, 25, 30):
            fill(log, end, snapshot=True)
            archive_log(lake.storage, NAME)

    frozen.before("delete", entry_name(2), long)
    archive_log(frozen, NAME)
    assert frozen.is_done
    assert lake.wrong() is None
    assert read_log(lake.storage, NAME).end == 30


@pytest.mark.parametrize("content", [b"", b"foreign", None])
def test_a_damaged_entry_is_named_and_nothing_of_its_archive_is_removed(content: bytes | None):
    lake = grown()
    path = names.entry_path(NAME, 6)
    if content is None:
        lake.storage.delete(path)
    else:
        lake.storage.replace(path, content)
    with pytest.raises(LogDamaged, match=entry_name(6)):
        archive_log(lake.storage, NAME)
    there = list_log(lake.storage, NAME).entries
    assert {4, 5, 7} <= set(there)
    assert list_log(lake.storage, NAME).archives == (0,)


@pytest.mark.parametrize(
    "damage", [lambda data: data[:-5], lambda data: b"", lambda data: b"no gzip"]
)
def test_a_damaged_archive_is_named_before_anything_is_removed(damage):
    lake = grown()
    path = names.archive_path(NAME, 0)
    with pytest.raises(ProcessStopped):
        archive_log(lake.faulty(StopProcess(1, "create", when="after")), NAME)
    lake.storage.replace(path, damage(lake.storage.read(path)))
    with pytest.raises(LogDamaged, match=r"_archive-0\.gz"):
        archive_log(lake.storage, NAME)
    assert set(range(15)) == set(list_log(lake.storage, NAME).entries)


def test_an_archive_whose_entries_do_not_follow_each_other_is_named():
    lake, other = grown(), Lake()
    other.unique()  # other ids, so other checksums
    fill(other.opened(), 3)
    lines = [lake.storage.first[names.entry_path(NAME, number)] for number in (0, 1, 2)]
    lines.append(other.storage.first[names.entry_path(NAME, 3)])
    lake.storage.create(names.archive_path(NAME, 0), gzip.compress(b"".join(lines)))
    with pytest.raises(LogDamaged, match="chain at entry 3"):
        archive_log(lake.storage, NAME)
    assert set(range(15)) == set(list_log(lake.storage, NAME).entries)


@pytest.mark.parametrize("number", [2, 3])
def test_a_stray_open_never_gets_into_an_archive(number: int):
    """An archiver stands still while packing; another packs and removes, then a zombie opens."""
    lake = Lake()
    owner = lake.opened()
    fill(owner, number - 1)
    zombie, archiver = Frozen(lake.storage), Frozen(lake.storage)

    def stand_still() -> None:
        fill(owner, 9, snapshot=True)
        archiver.before("read", entry_name(number), lambda: archive_log(lake.storage, NAME))
        archive_log(archiver, NAME)

    zombie.before("create", entry_name(number), stand_still)
    archiver.before("list", "log", lambda: None)
    late = lake.opened(zombie)
    assert zombie.is_done
    assert archiver.is_done
    assert late.fold.end == 10
    archive_log(lake.storage, NAME)
    assert list(read_history(lake.storage, NAME)) == lake.history()
    assert lake.wrong() is None


def test_the_directory_holds_nothing_but_what_has_a_name():
    lake = grown()
    archive_log(lake.storage, NAME)
    listing = list_log(lake.storage, NAME)
    count = len(listing.entries) + len(listing.snapshots) + len(listing.archives)
    assert count == len(lake.storage.list(LOG))
