"""`recover` helps every slice of a dead job: that of its topics, and those of its queries."""

import os

import pytest
from tests.crash.harness import checksum_of
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import job

from ashore.base.operator import operator
from ashore.log.entries import Prepare, Query
from ashore.log.files import BatchPlace, DataFile, Role, Target
from ashore.log.names import SliceName
from ashore.log.plan_commit import find_moves
from ashore.log.positions import BatchTime
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_log
from ashore.storage import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore.topics.use.recover import explain_recover, plan_recover, recover_dead
from ashore_lab.testing import FakeClock, RecordedSource

NAME = SliceName("clicks", "ods__big")
CONTENT = b'{"id":1}\n'


def prepare(storage: MemoryStorage, clock: FakeClock) -> str:
    """Write a batch of the query up to its commit point; return its file's final path."""
    log = LandingLog(LogContext(storage, clock, lambda: "0" * 16), NAME)
    epoch = log.open().epoch
    target = Target("ods.big", Role.MAIN, "", (), "id BIGINT", "jsonl")
    file = DataFile(0, 0, "1" * 16, 1, len(CONTENT), checksum_of(CONTENT), (), None, None)
    place = BatchPlace(NAME, epoch, 0).place(file, target)
    writer = storage.open_write(place.pending)
    writer.write(CONTENT)
    writer.close()
    log.append(Prepare(0, BatchTime(0), (), (target,), (file,), (), Query("q", 0, "lineage")), None)
    return place.final


def test_what_a_killed_query_had_prepared_is_moved() -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock)
    final = prepare(storage, clock)
    opened = OpenJob(job(SQL_JOB), storage, RecordedSource(clock=clock), clock)

    steps = plan_recover(opened)
    assert [place.final for place in find_moves(steps)] == [final]
    assert recover_dead(opened, steps).moved == 1
    assert storage.read(final) == CONTENT
    assert recover_dead(opened, steps).already_moved == 1
    assert read_log(storage, NAME).unclosed is not None  # the next writer closes it


def test_what_would_be_done_is_told_from_what_is_there() -> None:
    clock = FakeClock()
    storage = MemoryStorage(clock)
    final = prepare(storage, clock)
    opened = OpenJob(job(SQL_JOB), storage, RecordedSource(clock=clock), clock)
    steps = plan_recover(opened)
    (place,) = find_moves(steps)

    before = explain_recover(opened, steps)
    assert before.is_possible
    assert f"move {place.pending} to {final}" in before.lines
    assert storage.stat(final) is None

    recover_dead(opened, steps)
    after = explain_recover(opened, steps)
    assert after.is_possible
    assert after.lines[0] == f"already moved to {final}"
    assert "nothing is left" in after.lines[-1]

    storage.delete(final)
    lost = explain_recover(opened, steps)
    assert not lost.is_possible
    assert lost.lines[0].startswith(f"lost: neither {place.pending} nor {final}")

    storage.create(final, b"other content")
    conflict = explain_recover(opened, steps)
    assert not conflict.is_possible
    assert conflict.lines[0].startswith(f"conflict: {final} has another size")


def test_a_user_without_a_name_is_reported_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def has_no_entry() -> str:
        raise KeyError("getpwuid(): uid not found: 4711")

    monkeypatch.setattr("getpass.getuser", has_no_entry)
    assert operator() == f"uid {os.getuid()}"
