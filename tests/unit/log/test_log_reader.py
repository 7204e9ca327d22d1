"""Reading: damage is named, never skipped; what is not damage is never called so."""

import gzip
import threading
from dataclasses import replace

import pytest
from tests.unit.topics.log_lake import LOG, NAME, Frozen, Lake, entry_name, fill

from ashore.errors import LogDamaged, StorageError
from ashore.log import names
from ashore.log.fold import EMPTY
from ashore.log.store.archive import archive_log
from ashore.log.store.reader import list_log, read_history, read_log, read_number
from ashore_lab.testing import FailBefore


@pytest.fixture
def lake(monkeypatch) -> Lake:
    """A log whose entries 0 to 11 are in three archives; snapshots at 9 and 13, the end at 15."""
    monkeypatch.setattr(names, "ARCHIVE_ENTRIES", 4)
    lake = Lake()
    log = lake.opened()
    for end in (4, 9, 13):
        fill(log, end, snapshot=True)
    archive_log(lake.storage, NAME)
    fill(log, 15)
    assert lake.listed() == [
        *(entry_name(number) for number in (0, 12, 13, 14, 15)),
        *(f"_archive-{index}.gz" for index in range(3)),
        *(f"_snapshot-{number}.json" for number in (13, 9)),
    ]
    return lake


def path_of(file_name: str) -> str:
    return f"{LOG}/{file_name}"


def delete(lake: Lake, *file_names: str) -> None:
    for each in file_names:
        lake.storage.delete(path_of(each))


def damage_of(read) -> LogDamaged:
    with pytest.raises(LogDamaged) as caught:
        read()
    assert caught.value.hint
    return caught.value


def test_a_log_that_was_never_begun_is_empty():
    lake = Lake()
    assert read_log(lake.storage, NAME) == EMPTY
    assert list(read_history(lake.storage, NAME)) == []
    assert read_number(lake.storage, NAME, 0) is None


def test_the_fold_and_the_history_are_those_of_all_that_was_appended(lake: Lake):
    assert replace(read_log(lake.storage, NAME), base=-1) == lake.truth()
    assert list(read_history(lake.storage, NAME)) == lake.history()


@pytest.mark.parametrize("start", range(17))
def test_history_begins_where_it_is_asked_to(lake: Lake, start: int):
    assert list(read_history(lake.storage, NAME, start)) == lake.history()[start:]


# ---- damage

BROKEN = {
    "empty": b"",
    "cut off": None,
    "foreign": b"PAR1 is no entry",
    "zeros": bytes(4096),
    "another's": ...,
}


def broken(lake: Lake, file_name: str, how: str) -> bytes:
    if how == "cut off":
        return lake.storage.read(path_of(file_name))[:-20]
    if how == "another's":
        return lake.storage.first[path_of(entry_name(3))]
    return BROKEN[how]


@pytest.mark.parametrize("how", BROKEN)
@pytest.mark.parametrize("number", [14, 15])
def test_a_damaged_entry_is_named(lake: Lake, number: int, how: str):
    path = path_of(entry_name(number))
    lake.storage.replace(path, broken(lake, entry_name(number), how))
    for read in (
        lambda: read_log(lake.storage, NAME),
        lambda: list(read_history(lake.storage, NAME)),
        lambda: read_number(lake.storage, NAME, number),
        lake.opened,
    ):
        error = damage_of(read)
        assert error.fields["path"] == path
        assert path in error.message


@pytest.mark.parametrize("how", BROKEN)
def test_a_damaged_snapshot_is_named_and_can_be_deleted(lake: Lake, how: str):
    path = path_of("_snapshot-13.json")
    lake.storage.replace(path, broken(lake, "_snapshot-13.json", how))
    error = damage_of(lambda: read_log(lake.storage, NAME))
    assert error.fields["path"] == path
    assert "delete it" in error.hint
    lake.storage.delete(path)
    assert replace(read_log(lake.storage, NAME), base=-1) == lake.truth()


def test_a_snapshot_under_another_number_is_named(lake: Lake):
    data = lake.storage.read(path_of("_snapshot-9.json"))
    lake.storage.replace(path_of("_snapshot-14.json"), data)
    error = damage_of(lambda: read_log(lake.storage, NAME))
    assert "_snapshot-14.json: it ends at entry 9" in error.message


@pytest.mark.parametrize("how", BROKEN)
def test_a_damaged_archive_is_named_where_it_is_needed(lake: Lake, how: str):
    path = path_of("_archive-1.gz")
    lake.storage.replace(path, broken(lake, "_archive-1.gz", how))
    read_log(lake.storage, NAME)  # the snapshot is enough
    assert damage_of(lambda: list(read_history(lake.storage, NAME))).fields["path"] == path
    delete(lake, "_snapshot-9.json", "_snapshot-13.json")
    assert damage_of(lambda: read_log(lake.storage, NAME)).fields["path"] == path


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (lambda lines: lines[:-1], "it ends before entry 7"),
        (lambda lines: [*lines, lines[-1]], "too many entries"),
        (lambda lines: lines[::-1], "it holds entry 7, not 4"),
        (lambda lines: [lines[0], lines[0], *lines[2:]], "it holds entry 4, not 5"),
        (lambda lines: [], "it ends before entry 4"),
    ],
)
def test_an_archive_that_is_not_a_whole_thousand_is_named(lake: Lake, lines, reason: str):
    packed = gzip.decompress(lake.storage.read(path_of("_archive-1.gz"))).splitlines(keepends=True)
    lake.storage.replace(path_of("_archive-1.gz"), gzip.compress(b"".join(lines(packed))))
    delete(lake, "_snapshot-9.json", "_snapshot-13.json")
    for read in (
        lambda: read_log(lake.storage, NAME),
        lambda: list(read_history(lake.storage, NAME)),
    ):
        assert reason in damage_of(read).message


@pytest.mark.parametrize(
    "file_name",
    [
        "0000000000000014.json",
        "_snapshot-007.json",
        "_archive-00.gz",
        "part-0000.parquet",
        "notes.txt",
        f"{entry_name(14)}.bak",
        "\N{ARABIC-INDIC DIGIT ZERO}" * 20 + ".json",
    ],
)
def test_a_file_that_no_writer_made_is_named(lake: Lake, file_name: str):
    lake.storage.create(path_of(file_name), b"?")
    assert damage_of(lambda: read_log(lake.storage, NAME)).fields["path"] == path_of(file_name)


def test_a_temporary_file_of_a_storage_is_passed_over(lake: Lake):
    lake.storage.create(path_of(".creating-0123456789abcdef"), b"half")
    assert read_log(lake.storage, NAME).end == 15


@pytest.mark.parametrize("number", [14])
def test_a_missing_entry_is_named(lake: Lake, number: int):
    delete(lake, entry_name(number))
    for read in (
        lambda: read_log(lake.storage, NAME),
        lambda: list(read_history(lake.storage, NAME)),
        lake.opened,
    ):
        error = damage_of(read)
        assert error.fields["path"] == path_of(entry_name(number))
        assert "missing" in error.message


def test_the_last_entry_gone_cannot_be_told_from_never_written(lake: Lake):
    delete(lake, entry_name(15))
    assert read_log(lake.storage, NAME).end == 14


def test_a_lost_archive_is_not_the_end_of_the_log(lake: Lake):
    delete(lake, "_archive-1.gz")
    assert read_log(lake.storage, NAME).end == 15
    message = damage_of(lambda: list(read_history(lake.storage, NAME))).message
    assert f"{entry_name(4)}: the entry is missing" in message
    delete(lake, "_snapshot-9.json", "_snapshot-13.json", *map(entry_name, (12, 13, 14, 15)))
    message = damage_of(lambda: read_log(lake.storage, NAME)).message
    assert f"{entry_name(4)}: the entry is missing" in message


def test_an_entry_that_names_another_predecessor_is_damage(lake: Lake):
    """A log that was restored from a backup and written by two."""
    other = Lake()
    other.unique()  # other ids, so other checksums
    fill(other.opened(), 15)
    data = other.storage.read(path_of(entry_name(15)))
    lake.storage.replace(path_of(entry_name(15)), data)
    for read in (
        lambda: read_log(lake.storage, NAME),
        lambda: list(read_history(lake.storage, NAME)),
    ):
        assert "has another predecessor" in damage_of(read).message


@pytest.mark.parametrize(
    "gone", [("_snapshot-13.json",), ("_snapshot-9.json", "_snapshot-13.json")]
)
def test_without_its_snapshots_a_log_is_folded_from_its_archives(lake: Lake, gone):
    with_snapshot = read_log(lake.storage, NAME)
    delete(lake, *gone)
    fold = read_log(lake.storage, NAME)
    assert fold.base < with_snapshot.base
    assert replace(fold, base=-1) == replace(with_snapshot, base=-1) == lake.truth()
    assert lake.opened().fold.epoch == 2


def test_a_storage_error_is_no_damage(lake: Lake):
    for fault in (FailBefore(1, "list"), FailBefore(1, "read"), FailBefore(3, "read")):
        with pytest.raises(StorageError):
            read_log(lake.faulty(fault), NAME)


# ---- others at work meanwhile


class Blurred:
    """A storage whose first listings miss some files, as those of a busy directory may."""

    def __init__(self, lake: Lake, *missed: str, times: int = 1000) -> None:
        self._storage = lake.storage
        self._missed = missed
        self.times = times

    def __getattr__(self, kind: str):
        return getattr(self._storage, kind)

    def list(self, directory: str):
        found = self._storage.list(directory)
        if not self.times:
            return found
        self.times -= 1
        return [each for each in found if names.leaf(each.path) not in self._missed]


@pytest.mark.parametrize("missed", [(14,), (14, 15), (13, 14), (0,)])
def test_a_number_that_a_listing_missed_is_opened_by_name(lake: Lake, missed):
    storage = Blurred(lake, *map(entry_name, missed))
    assert read_log(storage, NAME).end == 15
    assert list(read_history(storage, NAME)) == lake.history()


def test_an_archive_that_the_first_listing_missed_is_found(lake: Lake):
    delete(lake, "_snapshot-9.json", "_snapshot-13.json")
    storage = Blurred(lake, "_archive-1.gz", times=1)
    assert read_log(storage, NAME).end == 15
    assert storage.times == 0
    assert list(read_history(Blurred(lake, "_archive-1.gz", times=1), NAME)) == lake.history()


def test_an_entry_appended_between_the_read_and_the_look_is_read(lake: Lake):
    log = lake.opened()
    frozen = Frozen(lake.storage)
    frozen.before(
        "read", entry_name(17), lambda: frozen.before("list", "log", lambda: fill(log, 18))
    )
    assert read_log(frozen, NAME).end == 18
    assert frozen.is_done


def test_an_entry_appended_and_removed_between_two_looks_is_no_damage(lake: Lake):
    log = lake.opened()
    frozen = Frozen(lake.storage)

    def overtake() -> None:
        fill(log, 25, snapshot=True)
        assert archive_log(lake.storage, NAME) > 0
        assert entry_name(17) not in lake.listed()

    def append() -> None:
        fill(log, 18)
        frozen.before("stat", entry_name(17), overtake)

    frozen.before("read", entry_name(17), lambda: frozen.before("list", "log", append))
    assert replace(read_log(frozen, NAME), base=-1) == lake.truth()
    assert frozen.is_done


def test_a_snapshot_that_is_removed_before_it_is_read_is_no_damage(lake: Lake):
    log = lake.opened()
    frozen = Frozen(lake.storage)

    def overtake() -> None:
        for end in (25, 29):
            fill(log, end, snapshot=True)
        archive_log(lake.storage, NAME)
        assert "_snapshot-13.json" not in lake.listed()

    frozen.before("read", "_snapshot-13.json", overtake)
    assert read_log(frozen, NAME).base == 29
    assert frozen.is_done


@pytest.mark.parametrize("number", [12, 13, 14, 15, 16])
@pytest.mark.parametrize("kind", ["read", "list"])
def test_a_reader_that_an_archiver_overtakes_starts_again(lake: Lake, number: int, kind: str):
    log = lake.opened()
    storage = lake.storage
    storage.delete(path_of("_snapshot-13.json"))  # so that the reader reads what is removed
    frozen = Frozen(storage)

    def overtake() -> None:
        fill(log, 25, snapshot=True)
        assert archive_log(storage, NAME) > 0

    frozen.before(kind, entry_name(number) if kind == "read" else "log", overtake)
    fold = read_log(frozen, NAME)
    assert frozen.is_done
    assert replace(fold, base=-1) == lake.truth()


@pytest.mark.parametrize("number", [12, 13, 14, 15, 16])
def test_history_that_an_archiver_overtakes_is_whole(lake: Lake, number: int):
    log = lake.opened()
    frozen = Frozen(lake.storage)

    def overtake() -> None:
        fill(log, 25, snapshot=True)
        assert archive_log(lake.storage, NAME) > 0

    frozen.before("read", entry_name(number), overtake)
    assert list(read_history(frozen, NAME)) == lake.history()
    assert frozen.is_done


def test_history_never_yields_a_stray_entry(lake: Lake):
    """An `open` appears at a number just removed, while the reader is between two numbers."""
    log = lake.opened()
    frozen = Frozen(lake.storage)

    def overtake() -> None:
        zombie = Frozen(lake.storage)

        def move_on() -> None:
            fill(log, 25, snapshot=True)
            archive_log(lake.storage, NAME)

        zombie.before("create", entry_name(17), move_on)
        lake.opened(zombie)
        assert entry_name(17) in lake.listed()

    frozen.before("read", entry_name(17), overtake)
    assert list(read_history(frozen, NAME)) == lake.history()
    assert frozen.is_done


@pytest.mark.slow
def test_readers_racing_a_writer_and_archivers_never_report_damage(lake: Lake):
    log = lake.opened()
    done, ends, broken = threading.Event(), [], []

    def read() -> None:
        ends.append(read_log(lake.storage, NAME).end)
        numbers = [entry.number for entry in read_history(lake.storage, NAME)]
        assert numbers == list(range(len(numbers)))

    def again(act) -> None:
        try:
            while not done.is_set():
                act()
        except BaseException as error:  # noqa: BLE001 - raised in the test's own thread below
            broken.append(error)

    threads = [
        threading.Thread(target=again, args=(act,))
        for act in (read, read, *[lambda: archive_log(lake.storage, NAME)] * 2)
    ]
    for thread in threads:
        thread.start()
    for end in range(20, 120, 5):
        seen = len(ends)
        fill(log, end, snapshot=True)
        while len(ends) < seen + 2 and not broken:
            done.wait(0.001)
    done.set()
    for thread in threads:
        thread.join()
    assert broken == []
    assert len(set(ends)) > 5
    assert lake.wrong() is None
    assert list_log(lake.storage, NAME).horizon >= 112
