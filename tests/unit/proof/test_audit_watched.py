"""What an auditor holds of files: all that it needs, and little of each."""

import gc
import tracemalloc

import pytest
from tests.unit.proof.test_packed import ENTRIES, FILES, builder

from ashore.log import names
from ashore.proof.audit.scope import SMALL, SMALL_LISTS, ReadingRound, Watched, WatchedFiles
from ashore.proof.evidence.ledger import LoggedFile
from ashore.storage.base import FileStat

BYTES_A_FILE = 120  # held one by one: about a thousand


@pytest.fixture(scope="module")
def logged() -> list[LoggedFile]:
    """Twenty entries' files, each entry's in a directory of its own."""
    return list(builder().finish().files)


def stat_of(file: LoggedFile, *, size: int | None = None, at_ms: int = 5) -> FileStat:
    return FileStat(file.final, file.file.size_bytes if size is None else size, at_ms, False)


@pytest.mark.parametrize("together", [1, 7, FILES, SMALL])
def test_every_file_comes_back_however_few_come_at_once(
    logged: list[LoggedFile], together: int
) -> None:
    watched = WatchedFiles()
    for start in range(0, len(logged), together):
        watched.add("one", logged[start : start + together])
    found = watched.open("one")
    assert {each.file for each in found.values()} == set(logged)
    assert found.keys() == {each.final for each in logged}
    assert set(watched.files()) == set(logged)
    directory = watched._directories["one"]
    assert directory._small.list_count <= SMALL_LISTS + 1
    assert watched.open("another") == {}


def test_what_was_shown_last_is_compared_with_what_is_shown_now(
    logged: list[LoggedFile],
) -> None:
    watched, files = WatchedFiles(), logged[:4]
    watched.add("one", files)
    first, second, third, fourth = watched.open("one").values()
    assert first.is_suspect(None)
    assert first.is_suspect(stat_of(first.file, size=1))
    assert not first.is_suspect(stat_of(first.file))
    first.see(stat_of(first.file))
    second.see(None)
    third.see(stat_of(third.file))
    watched.keep("one", [first, second, third, fourth])

    watched.add("one", logged[4:5])  # what comes later changes nothing of what was seen
    again = watched.open("one")
    kept = [again[each.final] for each in files]
    assert [each.is_seen for each in kept] == [True, True, True, False]
    assert not kept[0].is_suspect(stat_of(files[0]))
    assert kept[0].is_suspect(stat_of(files[0], at_ms=6))
    assert kept[0].is_suspect(None)
    assert not kept[1].is_suspect(None)
    assert kept[1].is_suspect(stat_of(files[1]))


@pytest.mark.slow
def test_a_watched_file_takes_little_memory(logged: list[LoggedFile]) -> None:
    by_directory: dict[str, list[LoggedFile]] = {}
    for file in logged:
        by_directory.setdefault(names.parent(file.final), []).append(file)
    gc.collect()
    tracemalloc.start()
    try:
        watched = WatchedFiles()
        for directory, files in by_directory.items():
            watched.add(directory, files)
            found = watched.open(directory)
            for each in found.values():
                each.see(stat_of(each.file))
            watched.keep(directory, found.values())
        del found, each
        gc.collect()
        size = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert size < BYTES_A_FILE * ENTRIES * FILES


def test_a_round_goes_through_the_files_that_were_there_when_it_began(
    logged: list[LoggedFile],
) -> None:
    watched = WatchedFiles()
    watched.add("one", logged[:3])
    round_ = ReadingRound(1.0, 0)
    round_.begin(watched.files, 1_000)
    watched.add("one", logged[3:6])
    seen = []
    while (file := round_.next()) is not None:
        assert round_.next() is file, "until it is done with"
        seen.append(file)
        assert round_.state.began_ms == 1_000
        round_.done(1_500)
    assert seen == logged[:3]
    state = round_.state
    assert (state.done, state.total, state.began_ms, state.took_ms) == (3, 3, None, 500)
    assert state.size_bytes == sum(each.file.size_bytes for each in logged[:3])


def test_a_file_is_watched_by_what_its_entry_says(logged: list[LoggedFile]) -> None:
    assert Watched(logged[0]).is_suspect(stat_of(logged[0], size=0))


def test_a_round_without_a_file_is_over_and_the_next_one_comes(logged: list[LoggedFile]) -> None:
    watched, round_ = WatchedFiles(), ReadingRound(1.0, 0)
    assert round_.is_due(1_000)
    round_.begin(watched.files, 1_000)
    assert round_.state.began_ms is None
    watched.add("one", logged[:1])
    assert not round_.is_due(1_999)
    assert round_.is_due(2_000)
    round_.begin(watched.files, 2_000)
    assert round_.next() == logged[0]
