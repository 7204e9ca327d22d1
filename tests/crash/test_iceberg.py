"""Each call of storage and catalog of a job with an Iceberg table, under every fault."""

import secrets
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.crash.harness import FAULTS
from tests.crash.iceberg_job import (
    CATALOG_CALLS,
    build_job,
    check_end,
    iceberg_world,
)
from tests.shares import share_of

from ashore.jobs.file import Job
from ashore.log.names import SliceName
from ashore.log.plan_commit import CommitTable
from ashore.tables.iceberg import iceberg_tables
from ashore.tables.iceberg.commit import Marks
from ashore.tables.iceberg.iceberg_tables import IcebergTables
from ashore_lab.testing import Fault

CATALOG_FAULTS = tuple(FAULTS)
LOOKS = ("stat", "list", "read", "load_table")


def number_calls(directory: Path, job: Job | None = None) -> list[str]:
    process = iceberg_world(directory, job).start()
    assert process.run() is None
    return [call.kind for call in process.faulty.calls]


def play(directory: Path, fault: Fault, job: Job | None = None) -> None:
    """Strike one process; let a second finish; then let come what is late."""
    world = iceberg_world(directory, job)
    world.start([fault]).run()
    world.clock.sleep(60)
    ended = world.start().run()
    assert ended is None, ended
    world.pending.release()
    assert world.start().run() is None
    check_end(world)


@pytest.mark.parametrize("fault", CATALOG_FAULTS)
def test_every_call_of_the_catalog(fault: str, tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    assert set(CATALOG_CALLS) <= set(calls)
    for number, kind in enumerate(calls, 1):
        if kind in CATALOG_CALLS:
            play(tmp_path, FAULTS[fault](number))


@pytest.mark.parametrize("fault", ["fails after", "late at the end", "stops before"])
def test_every_call_of_the_storage(fault: str, tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    writes = [number for number, kind in enumerate(calls, 1) if kind not in CATALOG_CALLS]
    for number in share_of(writes):
        play(tmp_path, FAULTS[fault](number))


@pytest.mark.parametrize("fault", ["fails after", "late at the end", "stops before"])
def test_every_change_of_a_table_with_partition_transforms(fault: str, tmp_path: Path) -> None:
    """The values of transforms are those of the log, whoever makes the commit."""
    job = build_job(partition_by=["day(at)", "bucket(2, ts)", "truncate(1, date)"])
    kinds = enumerate(number_calls(tmp_path, job), 1)
    changes = [number for number, kind in kinds if kind not in LOOKS]
    for number in share_of(changes):
        play(tmp_path, FAULTS[fault](number), job)


def test_a_batch_loads_its_table_once(tmp_path: Path) -> None:
    calls = number_calls(tmp_path)
    commits = calls.count("commit_table")
    first = calls.index("commit_table")
    assert calls[:first].count("load_table") == 2, "at the start, and for the batch"
    assert (commits, calls[first:].count("load_table")) == (2, 1)


def test_a_commit_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    """It comes when the next batches are there, as a request that a proxy has delayed."""
    calls = number_calls(tmp_path)
    play(tmp_path, FAULTS["late at the end"](calls.index("commit_table") + 1))


# ---- a suite that cannot turn red proves nothing


def without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iceberg_tables, "is_committed", lambda *_: False)


def with_a_new_id(patch: pytest.MonkeyPatch) -> None:
    """Each try draws an id of its own, as writers do that look for nothing."""

    def commit(self: IcebergTables, name: SliceName, step: CommitTable) -> None:
        drawn = replace(step.commit, snapshot_id=secrets.randbits(62))
        whole(self, name, replace(step, commit=drawn))

    whole = IcebergTables.commit
    patch.setattr(IcebergTables, "commit", commit)
    patch.setattr(Marks, "entry", lambda *_: -1)


def strike_commits(directory: Path, calls: list[str]) -> None:
    for number, kind in enumerate(calls, 1):
        if kind == "commit_table":
            play(directory, FAULTS["stops after"](number))
            play(directory, FAULTS["fails after"](number))


@pytest.mark.parametrize("mutate", [without_a_look, with_a_new_id])
def test_a_mutant_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = number_calls(tmp_path)
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        strike_commits(tmp_path, calls)
