"""The index over a server's history: SQLite, and a real PostgreSQL where the machine has one."""

import os
import signal
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from sqlalchemy import NullPool, create_engine
from tests.postgresql import SECRET, PostgreSql, make_postgresql

from ashore.errors import ServerRefused
from ashore.fleet.records import index as index_module
from ashore.fleet.records.index import EventQuestion, Index
from ashore.fleet.records.journal import Happened, Journal
from ashore.fleet.records.server_files import ServerFiles


def drop_tables(server: PostgreSql) -> None:
    engine = create_engine(server.url, poolclass=NullPool)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE ashore_events, ashore_index")


@pytest.fixture(scope="module")
def postgresql() -> Iterator[PostgreSql | None]:
    with make_postgresql() as made:  # without one, what the index does is seen with SQLite
        yield made


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ServerFiles:
    monkeypatch.setattr(index_module, "AGAIN_S", 0.0)
    found = ServerFiles.of(tmp_path)
    found.make()
    return found


def take(journal: Journal, number: int, kind: str = "phase") -> None:
    journal.take(Happened(kind, f"job-{number % 2}", 1_000 + number, {"number": number}))


def numbers(index: Index, **asked: object) -> list[object]:
    return [each["number"] for each in index.find(EventQuestion(**asked))]  # type: ignore[arg-type]


def test_the_index_is_made_again_from_the_files_after_it_was_deleted(files: ServerFiles) -> None:
    index = Index(files)
    journal = Journal(files, [index.add])
    assert index.open()
    for number in range(10):
        take(journal, number)
    assert numbers(index) == list(range(9, -1, -1))
    index.close()
    files.index.unlink()
    take(journal, 10, "sealed")  # while nobody has it open
    again = Index(files)
    assert again.open()
    assert numbers(again, limit=3) == [10, 9, 8]
    assert numbers(again, event="sealed") == [10]
    assert numbers(again, job="job-1", until_ms=1_004) == [3, 1]
    again.close()
    assert Index(files).open()
    assert numbers_of(files) == 11, "nothing is taken in twice"


def take_at_once(journal: Journal, events: range) -> None:
    """Have the journal take events. With a database that does not answer, this waits for nobody."""
    began_s = time.monotonic()
    for number in events:
        take(journal, number)
    assert time.monotonic() - began_s < index_module.ANSWER_S, "the supervisor would wait with it"


def wait_until_asked(index: Index) -> None:
    deadline_s = time.monotonic() + 60
    while not index.open():
        assert time.monotonic() < deadline_s
        time.sleep(0.1)


def test_events_that_do_not_fit_into_the_queue_come_from_the_files(
    files: ServerFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And those that waited in it meanwhile are there once."""
    index = Index(files)
    journal = Journal(files, [index.add])
    assert index.open()
    monkeypatch.setattr(index_module, "WAITING_MAX", 3)
    with sqlite3.connect(files.index) as other:
        other.execute("BEGIN EXCLUSIVE")
        take_at_once(journal, range(8))
        other.rollback()
    other.close()
    wait_until_asked(index)
    assert numbers(index) == list(range(7, -1, -1))
    take(journal, 8)
    assert numbers(index, limit=2) == [8, 7]
    index.close()


def test_a_frozen_database_delays_nobody(
    files: ServerFiles, postgresql: PostgreSql | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its connection stays open and silent, so that no limit of its own ends a call."""
    if postgresql is None:
        return
    index = Index(files, postgresql.url)
    journal = Journal(files, [index.add])
    with postgresql.running() as server:
        wait_until_asked(index)
        take(journal, 0)
        wait_until_asked(index)
        children = psutil.Process(server.pid).children(recursive=True)
        stopped = [server.pid, *(each.pid for each in children)]
        for each in stopped:
            os.kill(each, signal.SIGSTOP)
        try:
            take_at_once(journal, range(1, 4))
            monkeypatch.setattr(index_module, "ANSWER_S", 0.2)
            for _ in range(2):
                with pytest.raises(ServerRefused, match="does not answer: TimeoutError"):
                    numbers(index)
            again = Index(files, postgresql.url.replace("/postgres", "/template1"))
            assert not again.open(), "a server that starts does not wait either"
            again.close()
        finally:
            for each in stopped:
                os.kill(each, signal.SIGCONT)
        monkeypatch.setattr(index_module, "ANSWER_S", 60)
        wait_until_asked(index)
        assert numbers(index) == [3, 2, 1, 0], "each once"
        index.close()
        drop_tables(postgresql)


def numbers_of(files: ServerFiles) -> int:
    index = Index(files)
    index.open()
    try:
        return index.count()
    finally:
        index.close()


def test_a_database_that_is_away_keeps_nobody_and_misses_nothing(
    files: ServerFiles, postgresql: PostgreSql | None
) -> None:
    if postgresql is None:
        return
    index = Index(files, postgresql.url)
    journal = Journal(files, [index.add])
    assert not index.open(), "it is not there yet"
    assert SECRET not in index.problem
    take(journal, 0)
    with pytest.raises(ServerRefused, match="does not answer"):
        index.count()
    with postgresql.running():
        take(journal, 1)
        wait_until_asked(index)
        assert numbers(index) == [1, 0], "what it has missed it has from the files"
        take(journal, 2)
    take(journal, 3)
    with pytest.raises(ServerRefused, match="does not answer"):
        numbers(index)
    with postgresql.running():
        take(journal, 4)
        wait_until_asked(index)
        assert numbers(index, job="job-0") == [4, 2, 0]
        assert (index.count(), index.problem) == (5, "")
        other = Index(files, postgresql.url)
        drop_tables(postgresql)
        assert other.open()
        assert numbers(other) == [4, 3, 2, 1, 0], "made again after it was deleted"
        for each in (index, other):
            each.close()
