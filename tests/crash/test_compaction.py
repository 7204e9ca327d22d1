"""Compaction of an Iceberg table: each call under every fault, and changes by other writers."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.table import Table
from tests.crash.compaction_job import (
    RULE,
    check_compacted,
    landed_world,
    open_world,
    start_compaction,
    verify,
    visible,
)
from tests.crash.harness import FAULTS, NAME
from tests.crash.iceberg_job import (
    CATALOG_CALLS,
    TABLE,
    IcebergWorld,
    build_job,
    expire,
    iceberg_world,
    land,
    read_offsets,
)
from tests.shares import share_of

from ashore.errors import JobFileInvalid
from ashore.log.entries import Compact
from ashore.log.files import BatchPlace
from ashore.log.positions import StreamShard
from ashore.log.store.reader import read_history, read_log
from ashore.proof.compact import plan_compaction
from ashore.proof.evidence.ledger import LedgerBuilder
from ashore.proof.evidence.log_reading import LogReading
from ashore.proof.evidence.result import ProblemKind, Status
from ashore.tables.iceberg import iceberg_tables
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore.tables.readable import SnapshotFiles
from ashore.topics.write import rewrite
from ashore_lab.testing import Fault, LateEffect, StopProcess


def number_calls(directory: Path) -> list[str]:
    world = landed_world(directory)
    process = start_compaction(world)
    assert process.run() is None
    return [call.kind for call in process.storage.calls]


def play(directory: Path, fault: Fault) -> None:
    """Strike one command; let the job finish; then let come what is late; compact what is left."""
    world = landed_world(directory)
    start_compaction(world, [fault]).run()
    world.clock.sleep(60)
    assert world.start().run() is None
    check_compacted(world)
    world.pending.release()
    check_compacted(world)
    assert start_compaction(world).run() is None
    check_compacted(world)
    assert len(visible(world)) == 2


def test_small_files_become_one_in_each_partition(tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    old = visible(world)
    before = world.catalog().load_table(TABLE).current_snapshot()
    process = start_compaction(world)
    assert process.run() is None
    assert process.done is not None
    assert (process.done.files_written, process.done.abandoned) == (2, ())
    check_compacted(world)
    assert len(visible(world)) == 2
    assert not visible(world) & old
    table = world.catalog().load_table(TABLE)
    summary = table.current_snapshot().summary
    assert summary.operation.value == "replace"
    numbers = ("added-records", "deleted-records", "total-records", "total-data-files")
    assert [summary[each] for each in numbers] == ["5", "5", "5", "2"]
    # A reader of an older snapshot sees what it saw.
    rows = table.scan(snapshot_id=before.snapshot_id).to_arrow()
    assert sorted(rows.column("kafka_offset").to_pylist()) == [0, 1, 2, 3, 4]
    assert table.scan().to_arrow().schema == rows.schema
    again = start_compaction(world)
    assert again.run() is None
    assert again.done is not None
    assert again.done.plan.groups == ()


def test_batches_land_and_files_are_compacted_again(tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    assert start_compaction(world).run() is None
    more = [json.dumps({"date": "ab"[number % 2], "ts": number}).encode() for number in (5, 6)]
    world.source.append(StreamShard("clicks", "0"), *more)
    assert world.start().run() is None
    assert len(visible(world)) == 4
    assert start_compaction(world).run() is None
    assert len(visible(world)) == 2
    assert sorted(read_offsets(world).elements()) == list(range(7))
    assert {each.status for each in verify(world).tables} == {Status.OK}


@pytest.mark.parametrize("fault", tuple(FAULTS))
def test_every_call_of_the_catalog(fault: str, tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    assert "commit_table" in calls
    for number, kind in enumerate(calls, 1):
        if kind in CATALOG_CALLS:
            play(tmp_path, FAULTS[fault](number))


@pytest.mark.parametrize("fault", ["fails after", "late at the end", "stops before"])
def test_every_call_of_the_storage(fault: str, tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    numbers = [number for number, kind in enumerate(calls, 1) if kind not in CATALOG_CALLS]
    for number in share_of(numbers):
        play(tmp_path, FAULTS[fault](number))


# ---- other writers


def abandoned(world: IcebergWorld) -> list[str]:
    return [
        entry.closing.abandoned
        for entry in read_history(world.machine, NAME)
        if entry.closing and entry.closing.abandoned
    ]


def test_rows_that_another_writer_has_deleted_do_not_come_back(tmp_path: Path) -> None:
    commit = number_calls(tmp_path).index("commit_table") + 1
    world = landed_world(tmp_path)
    start_compaction(world, [StopProcess(commit, when="before")]).run()
    world.catalog().load_table(TABLE).delete("date == 'a'")
    assert world.start().run() is None
    assert "removed 2 of its files" in abandoned(world)[0]
    check_compacted(world, gone=frozenset({0, 2, 4}))
    assert start_compaction(world).run() is None  # what is left may be compacted
    check_compacted(world, gone=frozenset({0, 2, 4}))
    assert len(visible(world)) == 1


def test_a_commit_that_comes_after_the_compaction_was_abandoned_is_refused(tmp_path: Path) -> None:
    commit = number_calls(tmp_path).index("commit_table") + 1
    world = landed_world(tmp_path)
    late = LateEffect(commit, after=None)
    start_compaction(world, [late, StopProcess(commit + 1, when="before")]).run()
    world.catalog().load_table(TABLE).delete("date == 'a'")
    assert world.start().run() is None
    assert len(abandoned(world)) == 1
    assert len(world.pending) == 1
    world.pending.release()
    check_compacted(world, gone=frozenset({0, 2, 4}))


def test_files_that_another_writer_has_added_stay(tmp_path: Path) -> None:
    commit = number_calls(tmp_path).index("commit_table") + 1
    world = landed_world(tmp_path)
    start_compaction(world, [StopProcess(commit, when="before")]).run()
    table = world.catalog().load_table(TABLE)
    table.append(table.scan(row_filter="ts == 3").to_arrow())
    assert world.start().run() is None
    assert not abandoned(world)
    assert read_offsets(world)[3] == 2
    assert len(visible(world)) == 3


def test_a_new_file_that_is_gone_costs_nothing(tmp_path: Path) -> None:
    publish = number_calls(tmp_path).index("publish") + 1
    world = landed_world(tmp_path)
    start_compaction(world, [StopProcess(publish, when="before")]).run()
    unclosed = read_log(world.machine, NAME).unclosed
    assert unclosed is not None
    assert isinstance(unclosed.body, Compact)
    (file, *_), targets = unclosed.body.files, unclosed.body.targets
    place = BatchPlace(NAME, unclosed.epoch, unclosed.body.batch)
    world.machine.delete(place.place(file, targets[file.target]).pending)
    assert world.start().run() is None
    assert abandoned(world) == ["its new files are gone"]
    check_compacted(world)
    assert start_compaction(world).run() is None
    check_compacted(world)
    assert len(visible(world)) == 2


def test_an_old_file_with_other_bytes_is_not_put_together(tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    path = min(visible(world))
    data = bytearray(world.machine.read(path))
    data[8] ^= 1
    world.machine.delete(path)
    world.machine.create(path, bytes(data))
    error = start_compaction(world).run()
    assert error is not None
    assert error.code == "file-conflict"


def test_verify_finds_a_row_that_is_lost_after_a_compaction(tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    assert start_compaction(world).run() is None
    table = world.catalog().load_table(TABLE)
    kept = table.scan(row_filter="ts < 4").to_arrow()
    path = next(each for each in visible(world) if "date=a" in each)
    world.machine.delete(path)
    verdict = verify(world)
    assert verdict.totals.lost == 3
    assert {each.status for each in verdict.tables} == {Status.WRONG}
    assert len(kept) == 4


def test_a_batch_that_lands_while_verify_looks_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = landed_world(tmp_path)
    read_on, looks = LogReading.read_on, list[LogReading]()

    def land_and_read_on(reading: LogReading) -> None:
        looks.append(reading)
        if len(looks) == 2:  # the tables have been listed
            world.source.append(StreamShard("clicks", "0"), b'{"date": "a", "ts": 5}')
            assert world.start().run() is None
        read_on(reading)

    monkeypatch.setattr(LogReading, "read_on", land_and_read_on)
    verdict = verify(world)
    assert verdict.totals.landed == 6
    assert verdict.status is Status.OK


def replace_all(world: IcebergWorld) -> Table:
    """Another writer puts all files together."""
    table = world.catalog().load_table(TABLE)
    table.overwrite(table.scan().to_arrow())
    return table.refresh()


def test_files_that_an_expired_snapshot_has_replaced_are_not_lost(tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    expire(replace_all(world))
    verdict = verify(world)
    assert verdict.totals.lost == verdict.totals.duplicated == 0
    assert {each.status for each in verdict.tables} == {Status.UNPROVABLE}
    assert "expired snapshots of other writers" in verdict.not_checked[0].reason


def test_a_snapshot_of_another_writer_is_found_where_those_after_it_have_expired(
    tmp_path: Path,
) -> None:
    world = landed_world(tmp_path)
    replace_all(world)
    land(world, [5])
    land(world, [6])
    table = world.catalog().load_table(TABLE)
    after = table.snapshots()[-2]
    table.maintenance.expire_snapshots().by_id(after.snapshot_id).commit()
    assert "(delete) has removed files" in verify(world).not_checked[0].reason


def test_a_file_that_the_table_has_lost_is_lost_after_a_compaction_that_expired(
    tmp_path: Path,
) -> None:
    """All snapshots are the job's own: none of them has removed it."""
    world = landed_world(tmp_path)
    assert start_compaction(world).run() is None
    expire(world.catalog().load_table(TABLE))
    names_none = SnapshotFiles({}, made=3, known=frozenset())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(IcebergTables, "readable", lambda *_: names_none)
        assert verify(world).totals.lost == 5


@pytest.mark.parametrize(("first", "status"), [(100, Status.OK), (3, Status.WRONG)])
def test_files_of_another_writer_are_a_finding_where_they_have_the_same_rows(
    tmp_path: Path, first: int, status: Status
) -> None:
    world = landed_world(tmp_path)
    table = world.catalog().load_table(TABLE)
    rows = table.scan(row_filter="ts == 3").to_arrow()
    place = rows.column_names.index("kafka_offset")
    offsets = pa.array([first], rows.schema.field(place).type)
    table.append(rows.set_column(place, rows.schema.field(place), offsets))
    verdict = verify(world)
    assert verdict.status is status
    assert verdict.totals.duplicated == (first == 3)
    assert f"{TABLE} has 1 files of other writers: no log lists them" in verdict.notes
    kinds = {ProblemKind.DUPLICATED} if first == 3 else set()
    assert verdict.problem_counts.keys() == kinds


# ---- a suite that cannot turn red proves nothing


def without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iceberg_tables, "is_committed", lambda *_: False)


def by_the_exception(patch: pytest.MonkeyPatch) -> None:
    """A failed commit counts as one that did not happen."""
    patch.setattr(iceberg_tables, "ATTEMPTS", 1)
    patch.setattr(
        iceberg_tables, "CatalogUnreachable", lambda *_, **__: iceberg_tables.TableChanged("no")
    )


@pytest.mark.parametrize("mutate", [without_a_look, by_the_exception])
def test_a_mutant_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = number_calls(tmp_path)
    mutate(monkeypatch)
    with pytest.raises(AssertionError):  # noqa: PT012 - any of them
        for number, kind in enumerate(calls, 1):
            if kind == "commit_table":
                play(tmp_path, FAULTS["stops after"](number))
                play(tmp_path, FAULTS["fails after"](number))
                play(tmp_path, FAULTS["late at the end"](number))


def test_a_commit_on_another_base_is_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        iceberg_tables,
        "find_replaced",
        lambda _table, step, root: [root + each for each in step.replaced],
    )
    with pytest.raises((AssertionError, IndexError)):
        test_rows_that_another_writer_has_deleted_do_not_come_back(tmp_path)


@pytest.mark.parametrize(
    ("sort_by", "run_bytes", "order_id"),
    [(("date", "ts"), 1 << 20, 1), (("date", "ts"), 1, None), (("at",), 1 << 20, None)],
)
def test_files_that_are_sorted_as_a_whole_name_the_order_of_the_table(
    sort_by: tuple[str, ...],
    run_bytes: int,
    order_id: int | None,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(rewrite, "RUN_BYTES", run_bytes)
    world = iceberg_world(tmp_path, build_job(compact={"sort_by": ["date", "ts"]}))

    def read_orders() -> list[int | None]:
        files = world.catalog().load_table(TABLE).inspect.files()
        return files.column("sort_order_id").to_pylist()

    land(world)
    assert read_orders() == [None] * 4
    process = start_compaction(world)
    process.rule = replace(RULE, sort_by=sort_by)
    assert process.run() is None
    check_compacted(world)
    assert read_orders() == [order_id] * 2


def test_a_job_file_changes_the_order_of_the_table_or_leaves_it(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    found = []
    for number, sort_by in enumerate([[], ["ts"], ["ts"], ["date", "ts"], [], ["ts"]]):
        world.job = build_job(compact={"sort_by": sort_by})
        land(world, [number + 5])
        table = world.catalog().load_table(TABLE)
        names = [table.schema().find_column_name(e.source_id) for e in table.sort_order().fields]
        found.append((table.sort_order().order_id, names))
        assert {str(each)[2:] for each in table.sort_order().fields} <= {"ASC NULLS LAST"}
    first, second = (1, ["ts"]), (2, ["date", "ts"])
    assert found == [(0, []), first, first, second, second, first]
    assert sorted(read_offsets(world).elements()) == list(range(11))


@pytest.mark.parametrize("column", ["of_others", "tags"])
def test_a_column_to_sort_by_has_to_be_there(column: str, tmp_path: Path) -> None:
    world = landed_world(tmp_path)
    assert plan_compaction(open_world(world), None, replace(RULE, sort_by=("ts", "kafka_offset")))
    with pytest.raises(JobFileInvalid, match=f"no table has a column {column}"):
        plan_compaction(open_world(world), None, replace(RULE, sort_by=("ts", column)))


def test_a_value_that_was_written_wrong_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The rows of a file are written in another order: as many, and of the same offsets."""
    world = landed_world(tmp_path)
    read = rewrite._read_rows
    turned = iter([True])

    def read_rows(data: bytes):
        for table in read(data):
            yield table.take([*range(len(table))][::-1]) if next(turned, False) else table

    monkeypatch.setattr(rewrite, "_read_rows", read_rows)
    before = visible(world)
    error = start_compaction(world).run()
    assert error is not None
    assert error.code == "invariant-broken"
    assert visible(world) == before


def test_verify_without_the_rule_of_compaction_is_wrong(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    world = landed_world(tmp_path)
    assert start_compaction(world).run() is None
    monkeypatch.setattr(LedgerBuilder, "_close_compact", lambda *_, **__: None)
    kinds = {each.kind for each in verify(world).problems}
    assert ProblemKind.FILE_MISSING in kinds or ProblemKind.PARTITION_GONE in kinds
