"""The doctor on a lake that is out of order: what it mends, what it leaves, and that it says so."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.proof.lakes import DATE, TABLE, Lake, fill, make_lake

from ashore.errors import LogDamaged, LogGrows, Stopped, StorageError
from ashore.log import names
from ashore.log.entries import Commit, Join, Skip
from ashore.log.positions import StreamShard
from ashore.log.snapshot import write_snapshot
from ashore.log.store.owner import claim_tables
from ashore.log.store.reader import read_history, read_log
from ashore.proof.doctor.apply import Done, apply_steps, diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.doctor.repair_plan import Diagnosis, explain_repair
from ashore.proof.doctor.steps import MoveAside, WriteSnapshot
from ashore.proof.evidence.adopted_files import read_adopted
from ashore.storage.base import Storage
from ashore.storage.local import LocalStorage
from ashore_lab.testing import FakeClock

NOBODY = FormerAt()
LOG = ".ashore/clicks/main/log"


def treated(lake: Lake, at: FormerAt = NOBODY) -> tuple[Diagnosis, list[Done]]:
    """Do what was shown, and check that it was this."""
    said = diagnose(lake.opened(), at)
    done: list[Done] = []
    left = treat(lake.opened(), at, done.append, takes_over=False)
    assert len(done) >= len(said.steps)
    return left, done


def refusal(lake: Lake) -> str:
    """Return the one refusal of a diagnosis without steps."""
    found = diagnose(lake.opened(), NOBODY)
    assert found.steps == ()
    assert len(found.refusals) == 1, found.refusals
    assert found.refusals[0].hint
    return found.refusals[0].text


def snapshot_of(lake: Lake) -> bytes:
    """Return the snapshot of the log as it is. Requires: nothing is unclosed."""
    return write_snapshot(read_log(lake.storage, lake.name))


def make_closed() -> Lake:
    """Return a lake that is in order, at rest, with a snapshot."""
    lake = make_lake()
    claim_tables(lake.storage, [TABLE], "clicks", lake.clock.now_ms())
    lake.append(Commit("stop"))
    lake.clock.advance(1)
    return lake


def test_a_lake_in_order():
    found = diagnose(make_closed().opened(), NOBODY)
    assert found == Diagnosis((), (), ())


def test_a_job_that_never_started():
    assert diagnose(Lake().opened(), NOBODY) == Diagnosis((), (), ())


def test_an_unclosed_entry_is_left_to_the_job():
    (note,) = diagnose(make_lake().opened(), NOBODY).notes
    assert "entry 3 (prepare) is unclosed" in note


# --- foreign files


def test_a_foreign_file_is_moved_aside_and_can_be_brought_back():
    lake = make_closed()
    path = f"ods.db/clicks/{DATE}/mine.parquet"
    lake.storage.create(path, b"x")
    assert lake.verify().exit_code == 5

    left, (done,) = treated(lake)

    assert not left.refusals
    assert isinstance(done.step, MoveAside)
    assert names.is_visible(done.step.target) is False
    assert lake.storage.stat(path) is None
    assert lake.storage.read(done.step.target) == b"x"
    assert done.step.target.endswith(f"/{DATE}/mine.parquet")
    assert path in done.undo
    assert path in explain_repair(done.step)
    assert lake.verify().exit_code == 0


def test_a_file_that_was_there_before_the_job_may_be_data():
    lake = make_lake()
    lake.append(Commit("stop"))
    lake.storage.create("ods.db/clicks/mine.parquet", b"x")
    lake.clock.advance(1)
    claim_tables(lake.storage, [TABLE], "clicks", lake.clock.now_ms())
    assert "1 files were there before" in refusal(lake)


def test_a_file_with_a_name_of_ashore_is_left():
    lake = make_closed()
    lake.storage.create("ods.db/clicks/a-main-1-7-0001-00000000c0ffee00.parquet", b"x")
    assert "no entry lists" in refusal(lake)


def test_files_of_connect_are_not_foreign():
    lake = make_closed()
    lake.storage.create("ods.db/clicks/clicks+0+0000000100+0000000199.parquet", b"x")
    found = diagnose(lake.opened(), NOBODY)
    assert found.steps == ()
    assert f"--from-connect {TABLE}" in found.refusals[0].hint


# --- files of the log


def test_files_that_are_gone():
    lake = make_closed()
    lake.storage.delete(lake.final(lake.entries[2]))
    assert "log lists are gone" in refusal(lake)


def test_files_that_were_given_up_are_not_missed():
    lake = make_lake()
    entry = lake.entries[3]
    (file, _, final), *_ = lake.files(entry)
    lost_rows = ((lake.key(0), file.spans[0].rows), (lake.key(1), file.spans[1].rows))
    lake.append(Skip((), 3, (file.unique,), lost_rows, "me", "gone"))
    lake.storage.delete(final)
    found = diagnose(lake.opened(), NOBODY)
    assert (found.steps, found.refusals) == ((), ())


def make_unclosed() -> Lake:
    """Return a lake whose last batch was not moved yet."""
    lake = make_lake()
    fill(lake.source, "clicks", 0, 10)
    lake.land({lake.key(0): (100, 110)}, is_moved=False)
    return lake


def test_files_of_an_unclosed_entry_may_be_on_their_way():
    found = diagnose(make_unclosed().opened(), NOBODY)
    assert (found.steps, found.refusals) == ((), ())


def test_files_of_an_unclosed_entry_that_are_lost():
    lake = make_unclosed()
    lake.storage.delete(lake.files(lake.entries[-1])[0][1])
    assert "unclosed entry are lost" in refusal(lake)


def test_files_of_another_size():
    lake = make_closed()
    lake.overwrite(lake.final(lake.entries[2]), b"other")
    assert "1 files have other sizes" in refusal(lake)


def test_a_table_of_another_job():
    lake = make_lake()
    lake.append(Commit("stop"))
    claim_tables(lake.storage, [TABLE], "other", lake.clock.now_ms())
    assert "belongs to job other" in refusal(lake)


# --- the log


def test_a_damaged_entry_is_not_repaired():
    lake = make_closed()
    lake.overwrite(names.entry_path(lake.name, 2), b"{}")
    assert "00000000000000000002.json" in refusal(lake)


def test_a_missing_entry_is_not_repaired():
    lake = make_closed()
    lake.storage.delete(names.entry_path(lake.name, 2))
    assert "the entry is missing" in refusal(lake)


def test_a_damaged_snapshot_is_written_anew():
    lake = make_closed()
    whole = snapshot_of(lake)
    lake.storage.create(f"{LOG}/_snapshot-4.json", whole[:-9])
    with pytest.raises(LogDamaged):
        read_log(lake.storage, lake.name)

    left, (aside, written) = treated(lake)

    assert not left.refusals
    assert isinstance(aside.step, MoveAside)
    assert isinstance(written.step, WriteSnapshot)
    assert lake.storage.read(f"{LOG}/_snapshot-4.json") == whole
    assert lake.storage.read(aside.step.target) == whole[:-9]
    assert read_log(lake.storage, lake.name).base == 4
    assert diagnose(lake.opened(), NOBODY) == Diagnosis((), (), ())


def test_an_older_damaged_snapshot_is_only_moved_aside():
    lake = make_closed()
    lake.storage.create(f"{LOG}/_snapshot-4.json", snapshot_of(lake))
    lake.storage.create(f"{LOG}/_snapshot-1.json", b"")
    found = diagnose(lake.opened(), NOBODY)
    (aside,) = found.steps
    assert isinstance(aside, MoveAside)
    assert aside.source == f"{LOG}/_snapshot-1.json"


def test_a_snapshot_that_tells_of_another_entry():
    lake = make_closed()
    lake.storage.create(f"{LOG}/_snapshot-3.json", snapshot_of(lake))
    aside, written = diagnose(lake.opened(), NOBODY).steps
    assert isinstance(aside, MoveAside)
    assert "it ends at entry 4" in aside.why
    assert written == WriteSnapshot(4)


def test_no_snapshot_is_written_while_an_entry_is_unclosed():
    lake = make_lake()
    claim_tables(lake.storage, [TABLE], "clicks", lake.clock.now_ms())
    lake.storage.create(f"{LOG}/_snapshot-1.json", b"")
    left, (aside,) = treated(lake)
    assert isinstance(aside.step, MoveAside)
    assert any("writes the next" in note for note in left.notes)
    assert read_log(lake.storage, lake.name).end == 3


def test_a_damaged_snapshot_over_damaged_entries_is_left():
    lake = make_closed()
    lake.storage.create(f"{LOG}/_snapshot-4.json", b"")
    lake.storage.delete(names.entry_path(lake.name, 1))
    assert "the entry is missing" in refusal(lake)


def test_a_foreign_file_in_the_log_is_moved_aside_and_the_rest_is_done_then():
    lake = make_closed()
    whole = snapshot_of(lake)
    lake.storage.create(f"{LOG}/_snapshot-4.json", b"")
    lake.storage.create(f"{LOG}/notes.txt", b"x")
    left, done = treated(lake)
    assert [type(each.step) for each in done] == [MoveAside, MoveAside, WriteSnapshot]
    assert not left.refusals
    assert lake.storage.read(f"{LOG}/_snapshot-4.json") == whole


# --- a job that lives


class BusyClock(FakeClock):
    """A clock during whose sleep something happens."""

    def __init__(self, clock: FakeClock, storage: Storage, path: str) -> None:
        super().__init__(clock.now_ms())
        self._storage = storage
        self._path = path

    def sleep(self, seconds: float) -> None:
        self._storage.create(self._path, b"x")
        super().sleep(seconds)


def test_a_job_that_lives_is_left_alone():
    lake = make_closed()
    foreign = "ods.db/clicks/mine.parquet"
    lake.storage.create(foreign, b"x")
    busy = BusyClock(lake.clock, lake.storage, names.entry_path(lake.name, 5))
    opened = replace(lake.opened(), clock=busy)
    with pytest.raises(LogGrows):
        treat(opened, NOBODY, lambda _: None, takes_over=False)
    assert lake.storage.stat(foreign) is not None


# --- an adoption, done


class Interrupted(Exception):
    """The process ends between two steps."""


def make_query(tmp_path: Path) -> tuple[Lake, FormerAt]:
    """Return a lake on a disk, with what a query left that had landed 30 and 10 records of 40."""
    lake = Lake()
    lake.source.create("clicks", 2)
    for shard in ("0", "1"):
        lake.source.append(StreamShard("clicks", shard), *[b"x"] * 40)
    lake.storage = LocalStorage(str(tmp_path / "lake"))
    part = (
        f"ods.db/clicks/{DATE}/hour=08/part-00000-00000000-0000-4000-8000-000000000000-c000.parquet"
    )
    lake.storage.create(part, b"rows")
    found = lake.storage.stat(part)
    assert found is not None
    line = {"path": f"file:///data/lake/{part}", "modificationTime": found.modified_ms}
    lake.storage.create("ods.db/clicks/_spark_metadata/0", f"v1\n{json.dumps(line)}".encode())
    checkpoint = LocalStorage(str(tmp_path / "checkpoint"))
    offsets = b'v1\n{}\n{"clicks":{"0":30,"1":10}}'
    checkpoint.create("offsets/0", offsets)
    checkpoint.create("commits/0", b"v1\n{}")
    return lake, FormerAt(spark_checkpoint=str(tmp_path / "checkpoint"))


def joins(lake: Lake) -> dict[str, tuple[int, int]]:
    """Return where each partition began and goes on."""
    fold = read_log(lake.storage, lake.name)
    return {key.shard: (state.first, state.next) for key, state in fold.shards.items()}


def test_an_adoption_is_in_the_log(tmp_path: Path):
    lake, at = make_query(tmp_path)
    left, _ = treated(lake, at)
    assert not left.refusals
    assert joins(lake) == {"0": (30, 30), "1": (10, 10)}
    assert lake.verify().exit_code == 0
    assert list(read_adopted(lake.storage, "clicks").values()) == [TABLE]
    found = diagnose(lake.opened(), NOBODY)
    assert (found.steps, found.refusals) == ((), ())


def test_interrupted_anywhere_an_adoption_is_gone_on_with(tmp_path: Path):
    for stop_after in range(4):
        lake, at = make_query(tmp_path / str(stop_after))
        done: list[Done] = []

        def report(each: Done, limit: int = stop_after, done: list[Done] = done) -> None:
            done.append(each)
            if len(done) > limit:
                raise Interrupted

        try:
            treat(lake.opened(), at, report, takes_over=True)
        except Interrupted:
            treat(lake.opened(), at, done.append, takes_over=True)
        assert joins(lake) == {"0": (30, 30), "1": (10, 10)}
        assert lake.storage.stat("ods.db/clicks/_spark_metadata") is None
        assert [type(each.body) for each in read_history(lake.storage, lake.name)].count(Join) == 1
        assert lake.verify().exit_code == 0


def test_a_topic_that_changed_since_it_was_looked_at(tmp_path: Path):
    lake, at = make_query(tmp_path)
    steps = diagnose(lake.opened(), at).steps
    lake.source.delete("clicks")
    lake.source.create("clicks", 2)
    with pytest.raises(Stopped):
        apply_steps(lake.opened(), steps, lambda _: None)
    assert joins(lake) == {}
    assert lake.storage.stat("ods.db/clicks/_spark_metadata") is not None


def test_a_file_aside_is_never_overwritten(tmp_path: Path):
    lake = make_closed()
    lake.storage.create("ods.db/clicks/mine.parquet", b"x")
    (step,) = diagnose(lake.opened(), NOBODY).steps
    assert isinstance(step, MoveAside)
    lake.storage.create(step.target, b"y")
    with pytest.raises(StorageError):
        apply_steps(lake.opened(), [step], lambda _: None)
    assert lake.storage.read(step.target) == b"y"
    assert lake.storage.read(step.source) == b"x"
