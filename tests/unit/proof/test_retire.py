"""Retiring partitions: what is dropped on purpose is lost to nobody."""

import json
from dataclasses import replace

import pytest
from tests.unit.proof.lakes import DATE, TABLE, Lake, make_lake
from typer.testing import CliRunner

from ashore.cli import clean
from ashore.cli.app import app
from ashore.errors import JobFileInvalid, StorageError
from ashore.log import names
from ashore.log.entries import Closing, Retire
from ashore.log.files import BatchPlace
from ashore.log.fold import Action, DeferredAction
from ashore.log.store.reader import read_history, read_log
from ashore.proof import retire as retire_module
from ashore.proof.evidence.result import ProblemKind
from ashore.proof.retire import apply_retire, parse_age, plan_retire
from ashore.storage.base import Staged
from ashore.tables.catalog import CatalogPartition, CatalogTable
from ashore.tables.ddl import Atom, Field, Schema
from ashore.topics import open_job
from ashore.topics.loop.retention import RetirePartition
from ashore_lab.testing import FailBefore, FaultyStorage
from ashore_lab.testing.memory_catalog import MemoryCatalog

EVEN = f"{DATE}/hour=00"
DIRECTORY = names.join(names.table_path(TABLE), EVEN)


@pytest.fixture
def lake() -> Lake:
    lake = make_lake()
    staged = names.staging_directory(TABLE, lake.name, lake.epoch)
    lake.storage.create(f"{staged}/{names.pending_name(0, 'f' * 16)}", b"of a task that failed")
    return lake


def run(lake: Lake, *partitions: str, older_than_ms: int | None = None) -> int:
    plan = plan_retire(lake.opened(), TABLE, partitions, older_than_ms)
    return apply_retire(lake.opened(), plan, "too old", takes_over=False)


def test_a_partition_that_is_retired_is_gone_and_verification_is_green(lake: Lake):
    (planned,) = plan_retire(lake.opened(), TABLE, [EVEN])
    assert (len(planned.files), planned.kept, planned.slices) == (2, 0, (lake.name,))
    assert run(lake, EVEN) == 2
    assert lake.storage.list(DIRECTORY) == []
    result = lake.verify()
    assert (result.exit_code, result.summary) == (0, "lost 0, duplicated 0")
    assert result.totals.retired == planned.rows > 0
    body = list(read_history(lake.storage, lake.name))[-1].body
    assert isinstance(body, Retire)
    assert (body.why, [each.partition for each in body.partitions]) == ("too old", [EVEN])
    assert (TABLE, EVEN) not in read_log(lake.storage, lake.name).partitions


def test_doing_it_again_does_nothing(lake: Lake):
    run(lake, EVEN)
    end = read_log(lake.storage, lake.name).end
    assert plan_retire(lake.opened(), TABLE, [EVEN]) == ()
    assert run(lake, EVEN) == 0
    assert read_log(lake.storage, lake.name).end == end


def test_what_was_interrupted_goes_on(lake: Lake):
    faulty = FaultyStorage(lake.storage, [FailBefore(2, "delete")])
    opened = replace(lake.opened(), storage=faulty)
    with pytest.raises(StorageError):
        apply_retire(opened, plan_retire(opened, TABLE, [EVEN]), "too old", takes_over=False)
    assert len(lake.storage.list(DIRECTORY)) == 1
    assert lake.verify().exit_code == 0, "nobody asks for what is left"
    end = read_log(lake.storage, lake.name).end
    (left,) = plan_retire(lake.opened(), TABLE, [EVEN])
    assert (left.slices, left.rows) == ((), 0)
    assert run(lake, EVEN) == 1
    assert lake.storage.list(DIRECTORY) == []
    assert read_log(lake.storage, lake.name).end == end, "the log says it already"


def test_success_files_go_and_files_that_no_log_lists_stay(lake: Lake):
    for name in ("_SUCCESS", "_SUCCESS.2", "notes.txt"):
        lake.storage.create(names.join(DIRECTORY, name), b"x")
    (planned,) = plan_retire(lake.opened(), TABLE, [EVEN])
    assert (len(planned.files), planned.kept) == (4, 1)
    assert "1 files that no log" in planned.explain()
    assert run(lake, EVEN) == 4
    assert [found.path for found in lake.storage.list(DIRECTORY)] == [f"{DIRECTORY}/notes.txt"]


def test_what_is_owed_to_it_is_owed_no_more(lake: Lake):
    for partition in (EVEN, f"{DATE}/hour=01"):
        defer(lake, partition)
    run(lake, EVEN)
    fold = read_log(lake.storage, lake.name)
    assert {each.partition for each in fold.deferred.values()} == {f"{DATE}/hour=01"}


def defer(lake: Lake, partition: str) -> None:
    deferred = DeferredAction(f"register:{partition}", Action.REGISTER, TABLE, partition)
    unclosed = lake.unclosed()
    number = None if unclosed is None else unclosed.number
    if number is None:
        number = lake.land({lake.key(0): (100, 100)}).number
    lake.append(
        retire_module.Commit("test"),
        closing=Closing(number, 0, 0, registered=True, deferred=(deferred,), done=()),
    )


def test_by_age_only_partitions_of_time_that_have_ended(lake: Lake):
    end_ms = retire_module.partition_end_ms(EVEN, "UTC")
    assert end_ms is not None
    age_ms = lake.clock.now_ms() - end_ms
    if age_ms < 0:
        lake.clock.advance(-age_ms / 1000 + 7_200)
        age_ms = lake.clock.now_ms() - end_ms
    planned = plan_retire(lake.opened(), TABLE, [], age_ms - 1_800_000)
    assert [each.partition for each in planned] == [EVEN]
    assert plan_retire(lake.opened(), TABLE, [], age_ms + 1) == ()


@pytest.mark.parametrize(
    ("table", "partition", "reported"),
    [
        (TABLE, f"{DATE}/hour=0", "has never had"),
        ("ods.klicks", EVEN, "of table ods.klicks"),
    ],
)
def test_what_no_log_knows_is_refused(lake: Lake, table: str, partition: str, reported: str):
    with pytest.raises(JobFileInvalid, match=reported):
        plan_retire(lake.opened(), table, [partition])


def test_an_age_that_is_none_is_refused():
    assert parse_age("90d") == 90 * 86_400_000
    with pytest.raises(JobFileInvalid, match="is not a duration"):
        parse_age("old")


def test_the_catalog_forgets_it_before_its_files_go(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    catalog = MemoryCatalog()
    columns = Schema(tuple(Field(each, Atom.STRING, nullable=True) for each in ("date", "hour")))
    table = CatalogTable("ods", "clicks", Schema(()), columns, "", "parquet", "clicks")
    catalog.ensure_table(table)
    both = [CatalogPartition(EVEN), CatalogPartition(f"{DATE}/hour=01")]
    assert catalog.add_partitions(table, both) == 2
    monkeypatch.setattr(open_job, "open_catalog", lambda *_args, **_kw: catalog)
    seen = []
    drop = catalog.drop_partitions

    def looking(*arguments):
        seen.append(len(lake.storage.list(DIRECTORY)))
        return drop(*arguments)

    monkeypatch.setattr(catalog, "drop_partitions", looking)
    run(lake, EVEN)
    assert seen == [2]
    assert list(catalog.tables[TABLE].partitions) == [f"{DATE}/hour=01"]
    assert drop(table, both[:1]) == 0


def test_the_command_explains_and_tells(lake: Lake, monkeypatch: pytest.MonkeyPatch):
    planned = (RetirePartition(TABLE, EVEN, ("a", "b"), 7, 0, (lake.name,)),)

    class Opened:
        def __init__(self, _path: object) -> None: ...

        def __enter__(self) -> Lake:
            return lake

        def __exit__(self, *_: object) -> None: ...

    done = []
    monkeypatch.setattr(clean, "open_job", Opened)
    monkeypatch.setattr(clean, "plan_retire", lambda *_args: planned)
    monkeypatch.setattr(clean, "apply_retire", lambda *_args, **_kw: done.append(1) or 2)
    arguments = ["retire", "job.yaml", TABLE, EVEN]
    reported = CliRunner().invoke(app, [*arguments, "--explain"])
    assert (reported.exit_code, done) == (0, [])
    assert f"retire {TABLE} {EVEN}: 7 rows, 2 files" in reported.output
    shown = CliRunner().invoke(app, [*arguments, "--json"])
    assert json.loads(shown.stdout)["deleted"] == 2
    assert CliRunner().invoke(app, arguments[:3]).exit_code == 2


def close_batches(lake: Lake) -> None:
    lake.append(retire_module.Commit("idle"))


def test_a_partition_that_somebody_else_dropped_is_one_finding_with_the_line_to_type(lake: Lake):
    close_batches(lake)
    for found in lake.storage.list(DIRECTORY):
        lake.storage.delete(found.path)
    result = lake.verify()
    assert result.exit_code == 5
    (problem,) = result.problems
    assert problem.kind is ProblemKind.PARTITION_GONE
    assert f"ashore retire job.yaml {TABLE} {EVEN}" in problem.text
    assert result.totals.lost > 0, "until somebody says that it was on purpose"
    assert run(lake, EVEN) == 0
    assert lake.verify().exit_code == 0


def test_a_partition_that_is_gone_does_not_hide_what_else_is_lost(lake: Lake):
    close_batches(lake)
    odd = lake.storage.list(DIRECTORY.replace("hour=00", "hour=01"))
    for found in (*lake.storage.list(DIRECTORY), odd[0]):
        lake.storage.delete(found.path)
    kinds = lake.verify().problem_counts
    assert kinds[ProblemKind.PARTITION_GONE] == 1
    assert kinds[ProblemKind.FILE_MISSING] == 1
    assert kinds[ProblemKind.LOST] >= 1


def test_files_that_are_still_to_be_moved_go_too(lake: Lake):
    unclosed = lake.unclosed()
    assert unclosed is not None
    batch = unclosed.body
    place = BatchPlace(lake.name, unclosed.epoch, batch.batch)
    moved = [place.place(file, batch.targets[file.target]) for file in batch.files]
    for each in moved:
        lake.storage.publish(Staged(each.final), each.pending)
    (planned,) = plan_retire(lake.opened(), TABLE, [EVEN])
    assert {each.final for each in moved if EVEN in each.final} <= set(planned.files)
    run(lake, EVEN)
    assert lake.storage.list(DIRECTORY) == []


def test_without_files_the_catalog_forgets_it_before_the_entry(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
):
    close_batches(lake)
    for found in lake.storage.list(DIRECTORY):
        lake.storage.delete(found.path)
    catalog = MemoryCatalog()
    monkeypatch.setattr(open_job, "open_catalog", lambda *_args, **_kw: catalog)
    said = []

    def looking(_table: CatalogTable, partitions: list[CatalogPartition]) -> int:
        entries = read_history(lake.storage, lake.name)
        said.append((len(partitions), any(isinstance(each.body, Retire) for each in entries)))
        return 0

    monkeypatch.setattr(catalog, "drop_partitions", looking)
    run(lake, EVEN)
    assert said == [(1, False)], "no file would tell that this is left to do"
