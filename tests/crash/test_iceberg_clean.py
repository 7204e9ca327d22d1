"""Cleaning an Iceberg table deletes what nothing refers to, at any moment, and nothing else."""

import json
import time
from collections import Counter
from pathlib import Path

import pytest
from pyiceberg.table import Table
from tests.crash.harness import FAULTS, NAME, walk
from tests.crash.iceberg_job import (
    TABLE,
    IcebergWorld,
    build_clicks,
    expire,
    iceberg_world,
    job_document,
    land,
    read_offsets,
)
from tests.shares import share_of
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.jobs.file import parse_job
from ashore.log import names
from ashore.storage import MemoryStorage
from ashore.storage.base import Storage
from ashore.storage.open import open_storage
from ashore.tables.iceberg import orphans
from ashore.tables.iceberg.commit import find_data_files
from ashore.topics.loop.job import load_job_file
from ashore.topics.open_job import OpenJob
from ashore.topics.use.clean import CleanPlan, clean_job, plan_clean_job
from ashore_lab.testing import FakeClock

DIRECTORY = "ods.db/clicks"
OTHERS = (  # as other writers name files, and a file of another slice
    f"{DIRECTORY}/data/00000-0-6e1f4c0a.parquet",
    f"{DIRECTORY}/date=a/a-other-1-0-0000-{'0' * 16}.parquet",
    f"{DIRECTORY}/date=a/b-main-1-0-0000-{'0' * 16}.parquet",
    f"{DIRECTORY}/metadata/6e1f4c0a-1111-4222-8333-123456789abc-m0.avro",
    f"{DIRECTORY}/metadata/00007-6e1f4c0a-1111-4222-8333-123456789abc.metadata.json",
)


def later_world(directory: Path, machine: Storage | None = None) -> IcebergWorld:
    """A world whose time is after the machine's: pyiceberg has its own clock."""
    clock = FakeClock(time.time_ns() // 1_000_000 + 1000, monotonic_start_s=0.0)
    machine = machine or MemoryStorage(clock)
    return IcebergWorld(machine, build_clicks(clock), clock, directory=directory)


def opened(world: IcebergWorld) -> OpenJob:
    job = parse_job(json.dumps(document_of(world) | {"clean": {"ttl": "1m"}}))
    return OpenJob(job, world.machine, world.source, world.clock)


def document_of(world: IcebergWorld) -> dict[str, object]:
    uri = f"sqlite:///{world.directory}/catalog.db"
    return job_document() | {"catalog": {"iceberg": {"type": "sql", "uri": uri}}}


def clean(world: IcebergWorld) -> CleanPlan:
    """Clean an hour later."""
    world.clock.sleep(3600)
    job = opened(world)
    plan = plan_clean_job(job)
    clean_job(job, plan)
    return plan


def compact(world: IcebergWorld) -> Table:
    """Rewrite the table and expire what was before, as another writer does."""
    table = world.catalog().load_table(TABLE)
    table.overwrite(table.scan().to_arrow())
    return expire(table)


def paths(world: IcebergWorld) -> set[str]:
    return {*walk(world.machine, DIRECTORY)}


def deleted(plan: CleanPlan) -> set[str]:
    return {step.file.path for step in plan.steps}


def test_files_that_no_snapshot_names_are_deleted(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    land(world)
    before = paths(world)
    assert deleted(clean(world)) == set(), "each is named"
    compact(world)
    for path in OTHERS:
        world.machine.create(path, b"{}")
    own = {each for each in before if names.parse_final(names.leaf(each))}
    manifests = {each for each in before if each.endswith(".avro")}

    plan = clean(world)

    assert deleted(plan) == own | manifests
    assert len(own) == 4
    assert paths(world) >= {*OTHERS}
    (looked,) = [each for each in plan.orphans if each.table == TABLE]
    assert (len(looked.steps), looked.skipped) == (len(plan.steps), "")
    assert looked.files == sum(map(names.is_visible, paths(world))) + len(plan.steps)
    assert read_offsets(world) == Counter(range(5))
    land(world, range(5, 9))
    assert read_offsets(world) == Counter(range(9))
    assert not any(each.steps for each in clean(world).orphans)


def test_a_file_that_is_young_stays(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    land(world)
    compact(world)
    assert plan_clean_job(opened(world)).steps == ()


def test_metadata_files_of_own_commits_are_deleted_once_the_table_forgets_them(
    tmp_path: Path,
) -> None:
    world = later_world(tmp_path)
    land(world)
    table = world.catalog().load_table(TABLE)
    with table.transaction() as change:
        change.set_properties({"write.metadata.previous-versions-max": "1"})
    foreign = table.metadata_location.removeprefix(world.lake.root)
    for number in range(5, 9):
        land(world, [number])

    plan = clean(world)

    found = {step.file.path for each in plan.orphans for step in each.steps}
    assert all(each.endswith(".metadata.json") for each in found)
    assert len(found) == 3, "a commit in the millisecond of another one is not known as such"
    assert foreign in paths(world)
    assert read_offsets(world) == Counter(range(9))
    assert len(world.catalog().load_table(TABLE).history()) == 6
    land(world, [9])
    assert read_offsets(world) == Counter(range(10))


def test_a_table_whose_last_batch_is_not_committed_is_left(tmp_path: Path) -> None:
    world = iceberg_world(tmp_path)
    process = world.start()
    process.run()
    last = (
        len(process.faulty.calls)
        - 1
        - [each.kind for each in reversed(process.faulty.calls)].index("commit_table")
    )
    world = iceberg_world(tmp_path)
    world.start([FAULTS["stops before"](last + 1)]).run()
    found = paths(world)

    (looked,) = [each for each in clean(world).orphans if each.table == TABLE]

    assert "is not committed" in looked.skipped
    assert paths(world) == found
    land(world)
    assert read_offsets(world) == Counter(range(5))
    assert deleted(clean(world)), "the manifests of the first try"


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("dropped", "no such table"),
        ("created again", "created again"),
        ("rolled back", "rolled back"),
    ],
)
def test_a_table_that_is_not_as_the_log_has_it_is_left(
    tmp_path: Path, how: str, words: str
) -> None:
    world = iceberg_world(tmp_path)
    land(world)
    catalog = world.catalog()
    table = catalog.load_table(TABLE)
    if how == "rolled back":
        first = table.snapshots()[0].snapshot_id
        table.manage_snapshots().rollback_to_snapshot(first).commit()
        table.refresh().manage_snapshots().remove_tag(f"ashore-{NAME.job}-{NAME.slice}").commit()
        last = [each.snapshot_id for each in table.refresh().snapshots()[1:]]
        table.maintenance.expire_snapshots().by_ids(last).commit()
    else:
        catalog.drop_table(TABLE)
    if how == "created again":
        catalog.create_table(TABLE, table.schema(), table.location(), table.spec())
    found = paths(world)

    (looked,) = [each for each in clean(world).orphans if each.table == TABLE]

    assert words in looked.skipped
    assert paths(world) == found


# ---- at any moment


def number_writes(directory: Path) -> list[int]:
    process = iceberg_world(directory).start()
    assert process.run() is None
    looks = {"stat", "list", "read", "load_table"}
    calls = enumerate(process.faulty.calls, 1)
    return [number for number, call in calls if call.kind not in looks]


def play(directory: Path, fault: str, number: int) -> None:
    """Strike a process; clean; let a second finish; clean; let come what is late; clean."""
    world = iceberg_world(directory)
    world.start([FAULTS[fault](number)]).run()
    clean(world)
    ended = world.start().run()
    assert ended is None, ended
    clean(world)
    world.pending.release()
    clean(world)
    assert world.start().run() is None
    assert read_offsets(world) == Counter(range(5))
    check_metadata(world)


def check_metadata(world: IcebergWorld) -> None:
    """All snapshots can be read, and nothing of Ashore's remains that none of them names."""
    table = world.catalog().load_table(TABLE)
    for snapshot in table.snapshots():
        for manifest in snapshot.manifests(table.io):
            assert list(manifest.fetch_manifest_entry(table.io))
    named = {each.file_path.removeprefix(world.lake.root) for each in find_data_files(table)}
    assert {each for each in paths(world) if names.parse_final(names.leaf(each))} == named
    manifests = {each for each in paths(world) if each.endswith(".avro")}
    assert {names.leaf(each) for each in manifests} <= orphans.list_named(table)


@pytest.mark.parametrize("fault", ["stops before", "stops after", "late at the end"])
def test_a_clean_at_any_call_loses_nothing(fault: str, tmp_path: Path) -> None:
    for number in share_of(number_writes(tmp_path)):
        play(tmp_path, fault, number)


def test_a_clean_that_does_not_look_at_snapshots_is_found(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    number = number_writes(tmp_path)[-1]
    monkeypatch.setattr(orphans, "list_named", lambda _table: frozenset())
    with pytest.raises((AssertionError, FileNotFoundError)):
        play(tmp_path, "stops before", number)


# ---- the command


def test_the_command_says_what_it_looked_at(tmp_path: Path) -> None:
    lake = tmp_path / "lake"
    lake.mkdir()
    world = later_world(tmp_path, open_storage(f"file://{lake}"))
    keys = ("topic", "table", "schema", "format", "on_invalid")
    (table,) = job_document()["tables"]
    table = {key: table[key] for key in keys} | {"partition_by": ["ts"]}
    document = document_of(world) | {"lake": f"file://{lake}", "clean": {"ttl": "1ms"}}
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(document | {"tables": [table]}))
    world.job = load_job_file(job_file)
    land(world)
    compact(world)
    found = paths(world)

    code, explained = run_clean(job_file, "--explain")
    assert (code, explained["done"], paths(world)) == (0, False, found)
    assert explained["files"] == len(explained["steps"]) > 0
    code, done = run_clean(job_file)
    assert code == 0
    assert done == explained | {"done": True}
    (table,) = done["tables"]
    assert (table["orphans"], table["bytes"], table["skipped"]) == (
        *(done["files"], done["bytes"]),
        "",
    )
    assert len(paths(world)) == len(found) - done["files"]
    shown = CliRunner().invoke(app, ["clean", str(job_file)]).stdout.splitlines()
    assert f"below {TABLE}" in shown[1]
    assert shown[-1].startswith("deleted 0 files")


def run_clean(job_file: Path, *options: str) -> tuple[int, dict[str, object]]:
    result = CliRunner().invoke(app, ["clean", str(job_file), "--json", *options])
    return result.exit_code, json.loads(result.stdout)
