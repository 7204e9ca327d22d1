"""Other writers and tools change an Iceberg table at the worst moment of a batch.

Each record of the topic is read once afterwards, by pyiceberg's own reader. Rows of other writers
have offsets below zero.
"""

import itertools
import json
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import StringType
from sqlalchemy.exc import OperationalError
from tests.crash import iceberg_job
from tests.crash.harness import FAULTS, NAME, walk
from tests.crash.iceberg_job import (
    TABLE,
    FaultyIceberg,
    IcebergWorld,
    append,
    build_clicks,
    expire,
    iceberg_world,
    job_document,
    land,
    scan_offsets,
)

from ashore.errors import FilesLost, TableReplaced
from ashore.jobs.file import parse_job
from ashore.log.plan_commit import places_of
from ashore.log.store.reader import read_log
from ashore.storage.open import open_storage
from ashore.topics.loop.recovery import open_and_find_lost, reland
from ashore_lab.testing import FakeClock

RECORDS = 5
SNAPSHOTS_OF_JOB = ("before", "after")  # whether the commit had happened when the process died


def number_commit(directory: Path, batch: int, world: IcebergWorld | None = None) -> int:
    """Return the number of the call that commits a batch."""
    process = (world or iceberg_world(directory)).start()
    assert process.run() is None
    calls = enumerate(process.faulty.calls, 1)
    return [number for number, call in calls if call.kind == "commit_table"][batch]


def killed_at_commit(directory: Path, batch: int, when: str) -> IcebergWorld:
    """A world whose process died before or after it has committed a batch."""
    number = number_commit(directory, batch)
    world = iceberg_world(directory)
    world.start([FAULTS[f"stops {when}"](number)]).run()
    assert read_log(world.machine, NAME).unclosed is not None
    return world


def foreign_row(table: Table, offset: int = -1) -> pa.Table:
    row = {"kafka_offset": offset, "date": "z", "ts": 7}
    return pa.Table.from_pylist([row], table.schema().as_arrow())


def is_own(offset: int) -> bool:
    return offset >= 0


def own_offsets(world: IcebergWorld) -> Counter[int]:
    found = scan_offsets(world)
    return Counter({offset: count for offset, count in found.items() if is_own(offset)})


# ---- between the prepared batch and its recovery


def expire_all(table: Table) -> None:
    table.append(foreign_row(table))
    expire(table)


def compact_all(table: Table) -> None:
    table.append(foreign_row(table))
    table.overwrite(table.scan().to_arrow())
    expire(table)


def change_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("ts", IdentityTransform(), "ts_same")
    table.append(foreign_row(table))


def remove_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.remove_field("date")
    table.append(foreign_row(table))


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("of_others", StringType())
    table.append(foreign_row(table))


def branch_off(table: Table) -> None:
    """A commit to another branch takes the sequence number that the job's commit would have."""
    if table.current_snapshot() is None:
        table.append(foreign_row(table))
    table.append(foreign_row(table), branch="audit")


MEANWHILE = [expire_all, compact_all, change_spec, remove_spec, add_column, branch_off]


@pytest.mark.parametrize("when", SNAPSHOTS_OF_JOB)
@pytest.mark.parametrize("batch", [0, 1])
@pytest.mark.parametrize("change", MEANWHILE)
def test_a_table_that_changes_before_the_recovery(
    change: Callable[[Table], None], batch: int, when: str, tmp_path: Path
) -> None:
    world = killed_at_commit(tmp_path, batch, when)
    change(world.catalog().load_table(TABLE))

    land(world)
    land(world, range(RECORDS, 9))

    assert own_offsets(world) == Counter(range(9))


@pytest.mark.parametrize("change", MEANWHILE)
def test_a_table_that_changes_within_a_batch(
    change: Callable[[Table], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is not as it was when the batch was prepared, and the process commits by what it knew."""
    strike_commits(monkeypatch, [change])
    world = iceberg_world(tmp_path)
    land(world)
    land(world, range(RECORDS, 9))
    assert own_offsets(world) == Counter(range(9))


def strike_commits(
    monkeypatch: pytest.MonkeyPatch, changes: list[Callable[[Table], None]]
) -> Counter[str]:
    """Have others change the table right before commits of the job; return the commits' ends."""
    left, ends = iter(changes), Counter[str]()

    class Struck(FaultyIceberg):
        def commit_table(self, table: Table, *what: object) -> CommitTableResponse:
            change = next(left, None)
            if change is not None:
                change(self._inner.load_table(TABLE))
            try:
                response = super().commit_table(table, *what)
            except Exception:
                ends["refused"] += 1
                raise
            ends["made"] += 1
            return response

    monkeypatch.setattr(iceberg_job, "FaultyIceberg", Struck)
    return ends


def test_a_writer_that_commits_before_each_try(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = itertools.count(1)

    def commit(table: Table) -> None:
        table.append(foreign_row(table, -next(numbers)))

    ends = strike_commits(monkeypatch, [commit] * 6)
    world = iceberg_world(tmp_path)
    land(world)
    assert ends == {"refused": 6, "made": 2}
    assert scan_offsets(world) == Counter([*range(RECORDS), *range(-6, 0)])


def test_a_writer_beside_a_job(tmp_path: Path) -> None:
    """Two writers of one table, each as fast as it can, and none loses a row of the other."""
    lake = tmp_path / "lake"
    lake.mkdir()
    clock = FakeClock(monotonic_start_s=0.0)
    source = build_clicks(clock)
    append(source, range(RECORDS, 40))
    world = IcebergWorld(open_storage(f"file://{lake}"), source, clock, directory=tmp_path)
    land_nothing = world.start()
    land_nothing.loop.open()
    land_nothing.loop.close("the table is there")
    ends, written = threading.Event(), list[int]()

    def write() -> None:
        while not ends.is_set():
            offset = -1 - len(written)
            table = world.catalog().load_table(TABLE)
            try:
                table.append(foreign_row(table, offset))
            except (CommitFailedException, OperationalError):
                continue
            written.append(offset)

    other = threading.Thread(target=write)
    other.start()
    try:
        assert world.start().run() is None
    finally:
        ends.set()
        other.join()
    assert written
    assert scan_offsets(world) == Counter([*range(40), *written])


# ---- files that others remove


@pytest.mark.parametrize("dies", [True, False])
def test_a_prepared_file_that_others_remove_is_found_before_the_commit(
    dies: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a removal of orphan files that is too eager; the rows are read from the topic again."""
    world = iceberg_world(tmp_path)
    if dies:
        world = killed_at_commit(tmp_path, 1, "before")
        remove_a_prepared_file(world)
    else:
        remove_after_moves(world, monkeypatch)
    before = len(world.catalog().load_table(TABLE).snapshots())

    ended = world.start().run()
    monkeypatch.undo()

    assert isinstance(ended, FilesLost)
    assert len(world.catalog().load_table(TABLE).snapshots()) == before, "nothing was committed"
    process = world.start()
    process.loop.plan.streams()
    lost = open_and_find_lost(process.loop.parts.committer())
    assert lost is not None
    assert reland(process.loop.plan, process.loop.parts, lost) == 1
    land(world, range(RECORDS, 9))
    assert scan_offsets(world) == Counter(range(9))


def remove_a_prepared_file(world: IcebergWorld) -> None:
    unclosed = read_log(world.machine, NAME).unclosed
    assert unclosed is not None
    world.machine.delete(places_of(NAME, unclosed)[0].final)


def remove_after_moves(world: IcebergWorld, monkeypatch: pytest.MonkeyPatch) -> None:
    """Land a batch; have a file of the next one removed between its move and its commit."""
    number = number_commit(world.directory, 0)
    for old in world.directory.glob("catalog.db*"):
        old.unlink()
    world.start([FAULTS["stops after"](number)]).run()
    whole = iceberg_job.IcebergTables.commit

    def commit(self: object, name: object, step: object) -> None:
        unclosed = read_log(world.machine, NAME).unclosed
        if unclosed is not None and step.number > 1 and unclosed.body.batch == 1:
            path = places_of(NAME, unclosed)[0].final
            if path in {*walk(world.machine, "ods.db/clicks")}:
                world.machine.delete(path)
        whole(self, name, step)

    monkeypatch.setattr(iceberg_job.IcebergTables, "commit", commit)


# ---- two tables, one of which is replaced


def two_tables(directory: Path) -> IcebergWorld:
    document = job_document()
    (clicks,) = document["tables"]
    document["tables"] = [clicks, clicks | {"topic": "orders", "table": "ods.orders"}]
    document["batch"] = {"max_records": 10}
    world = iceberg_world(directory, parse_job(json.dumps(document)))
    world.source.create("orders", 1)
    append(world.source, range(3), "orders")
    return world


@pytest.mark.parametrize("commit", [0, 1])
@pytest.mark.parametrize("when", SNAPSHOTS_OF_JOB)
def test_a_table_that_is_replaced_beside_another_one(
    commit: int, when: str, tmp_path: Path
) -> None:
    number = number_commit(tmp_path, commit, two_tables(tmp_path))
    world = two_tables(tmp_path)
    world.start([FAULTS[f"stops {when}"](number)]).run()
    catalog = world.catalog()
    former = catalog.load_table("ods.orders")
    catalog.drop_table("ods.orders")
    catalog.create_table("ods.orders", former.schema(), former.location(), former.spec())

    for _ in range(2):
        assert isinstance(world.start().run(), TableReplaced)
        assert not scan_offsets(world, "ods.orders")

    catalog.drop_table("ods.orders")
    catalog.register_table("ods.orders", former.metadata_location)
    append(world.source, range(3, 6), "orders")
    land(world, range(RECORDS, 9))
    assert scan_offsets(world) == Counter(range(9))
    assert scan_offsets(world, "ods.orders") == Counter(range(6))
