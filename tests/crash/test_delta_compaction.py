"""Compaction of a Delta table: each storage call under every fault, and other writers."""

import io
import json
from collections import Counter
from collections.abc import Sequence

import pyarrow.parquet as pq
import pytest
from tests.crash.compaction_job import RULE
from tests.crash.harness import FAULTS, NAME
from tests.crash.iceberg_job import TABLE, append, build_job
from tests.crash.test_delta import LOG, DeltaWorld, delta_world
from tests.shares import share_of

from ashore.errors import AshoreError
from ashore.log.store.committer import Committer
from ashore.log.store.log import LandingLog, LogContext
from ashore.log.store.reader import read_history, read_log
from ashore.proof.compact import compact_table, plan_table
from ashore.proof.evidence.log_reading import read_ledger
from ashore.proof.evidence.result import Status, VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.storage.open import LakeAddress
from ashore.tables.delta import delta_tables, table_log
from ashore.tables.delta.delta_tables import DeltaTables
from ashore.tables.delta.table_log import TableLog
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import Fault, FaultyStorage, ProcessStopped, StopProcess


def landed_world() -> DeltaWorld:
    world = delta_world()
    assert world.start().run() is None
    assert len(visible(world)) == 4
    return world


def compact(world: DeltaWorld, faults: Sequence[Fault] = ()) -> FaultyStorage:
    storage = FaultyStorage(world.machine, faults, pending=world.pending)
    tables = DeltaTables(storage, world.clock)
    log = LandingLog(LogContext(storage, world.clock, world.entropy), NAME)
    committer = Committer(log, storage, world.clock, commit_table=tables.commit)
    try:
        committer.take_over()
        ledger, last = read_ledger(storage, NAME.job), log.fold.commits[TABLE]
        plan = plan_table(tables, ledger, last, NAME, RULE)
        compact_table(committer, tables, LakeAddress("memory:"), plan)
    except (AshoreError, ProcessStopped):
        assert faults
    return storage


def visible(world: DeltaWorld) -> set[str]:
    return {*DeltaTables(world.machine, world.clock).readable(TABLE).files}


def verify(world: DeltaWorld) -> VerifyResult:
    class Job(OpenJob):
        def _open_formats(self) -> DeltaTables:
            return DeltaTables(world.machine, world.clock)

    return verify_job(Job(build_job("delta"), world.machine, world.source, world.clock))


def check(world: DeltaWorld, files: int) -> None:
    offsets = Counter[int]()
    for path in visible(world):
        data = world.machine.read(path)
        offsets.update(pq.read_table(io.BytesIO(data)).column("kafka_offset").to_pylist())
    assert offsets == Counter(range(5))
    ledger = read_ledger(world.machine, NAME.job)
    assert ledger.problems == ()
    assert {each.final for each in ledger.files} == visible(world)
    assert len(visible(world)) == files
    verdict = verify(world)
    assert {each.status for each in verdict.tables} == {Status.OK}, verdict.problems


def commits(storage: FaultyStorage) -> list[int]:
    return [number for number, call in enumerate(storage.calls, 1) if LOG in str(call)]


def play(fault: Fault) -> None:
    world = landed_world()
    compact(world, [fault])
    world.clock.sleep(60)
    assert world.start().run() is None
    world.pending.release()
    check(world, len(visible(world)))
    compact(world)
    check(world, 2)


def test_a_version_changes_files_and_no_data() -> None:
    world = landed_world()
    compact(world)
    check(world, 2)
    log = TableLog(world.machine, TABLE)
    version = log.read().version
    lines = world.machine.read(f"{log.directory}/{version:020}.json").decode().splitlines()
    actions = [json.loads(line) for line in lines]
    assert actions[0]["commitInfo"]["operation"] == "OPTIMIZE"
    changes = [each for each in actions if "add" in each or "remove" in each]
    assert len(changes) == 6
    assert not any(change["dataChange"] for each in changes for change in each.values())
    stats = [json.loads(each["add"]["stats"]) for each in changes if "add" in each]
    assert sorted(each["maxValues"]["ts"] for each in stats) == [3, 4]


@pytest.mark.parametrize("fault", tuple(FAULTS))
def test_every_call_of_the_log_of_the_table(fault: str) -> None:
    for number in commits(compact(landed_world())):
        play(FAULTS[fault](number))


@pytest.mark.parametrize("fault", ["fails after", "stops before"])
def test_every_other_call(fault: str) -> None:
    storage = compact(landed_world())
    others = {*range(1, len(storage.calls) + 1)} - {*commits(storage)}
    for number in share_of(sorted(others)):
        play(FAULTS[fault](number))


def create_before_commit(world: DeltaWorld, file: str) -> None:
    """Another writer removes a file before a stopped command has committed."""
    calls = compact(landed_world()).calls
    (number,) = [
        at for at, call in enumerate(calls, 1) if call.kind == "create" and LOG in str(call)
    ]
    compact(world, [StopProcess(number, when="before")])
    log = TableLog(world.machine, TABLE)
    state = log.read()
    path = file.removeprefix("ods.db/clicks/")
    remove = {"path": path, "deletionTimestamp": 1, "dataChange": True}
    info = {"commitInfo": {"operation": "DELETE"}}
    assert log.create(state.version + 1, [info, {"remove": remove}])


def test_a_file_that_another_writer_has_removed_does_not_come_back() -> None:
    world = landed_world()
    file = min(visible(world))
    create_before_commit(world, file)
    assert world.start().run() is None
    assert len(visible(world)) == 3
    assert file not in visible(world)
    closings = [each.closing for each in read_history(world.machine, NAME) if each.closing]
    assert [each.abandoned for each in closings if each.abandoned]
    assert read_log(world.machine, NAME).unclosed is None
    assert {each.final for each in read_ledger(world.machine, NAME.job).files} > visible(world)


def remove(world: DeltaWorld, files: Sequence[str], info: dict[str, object]) -> None:
    """Create a version of another writer that removes files."""
    log = TableLog(world.machine, TABLE)
    state = log.read()
    removes = [
        {"remove": {"path": each.removeprefix("ods.db/clicks/"), "deletionTimestamp": 1}}
        for each in files
    ]
    assert log.create(state.version + 1, [{"commitInfo": info}, *removes])


def restore(world: DeltaWorld, file: str) -> None:
    """Set the table back to the version before the last one, which has added a file."""
    version = TableLog(world.machine, TABLE).read().version
    info = {"operation": "RESTORE", "operationParameters": {"version": version - 1}}
    remove(world, [file], info)


def land_one(world: DeltaWorld, number: int) -> str:
    """Land a record and return its file."""
    before = visible(world)
    append(world.source, [number])
    assert world.start().run() is None
    (file,) = visible(world) - before
    return file


@pytest.mark.parametrize("every", [1, 100])
def test_rows_that_a_restore_has_taken_out_are_lost_after_a_compaction(
    every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint has the files that the compaction has removed, and not who has done it."""
    monkeypatch.setattr(table_log, "CHECKPOINT_EVERY", every)
    world = landed_world()
    compact(world)
    restore(world, land_one(world, 5))
    assert verify(world).totals.lost == 1


def test_files_that_a_version_of_long_ago_has_removed_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(delta_tables, "VERSIONS_READ", 2)
    world = landed_world()
    remove(world, [min(visible(world))], {"operation": "DELETE"})
    for number in (5, 6):
        land_one(world, number)
    verdict = verify(world)
    assert verdict.totals.lost == 0
    assert {each.status for each in verdict.tables} == {Status.UNPROVABLE}
    assert "a version before" in verdict.not_checked[0].reason
    restore(world, land_one(world, 7))
    assert verify(world).totals.lost == 1, "of versions that are read nothing is unknown"


def test_a_commit_on_another_base_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def forced(log, state, storage, step):
        added = whole(log, state, storage, None)
        return {path: added[path] for path in step.replaced if path in added}

    def whole(log, state, storage, _step):
        return delta_tables.find_added(log, state, storage)

    monkeypatch.setattr(delta_tables, "require_files", forced)
    with pytest.raises(AssertionError):
        test_a_file_that_another_writer_has_removed_does_not_come_back()
