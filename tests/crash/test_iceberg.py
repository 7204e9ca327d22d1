"""Each call of storage and catalog of a job with an Iceberg table, under every fault."""

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.crash.harness import FAULTS
from tests.crash.iceberg_job import (
    CATALOG_CALLS,
    IcebergWorld,
    check_end,
    iceberg_world,
    read_offsets,
)
from tests.shares import share_of

from ashore.tables.iceberg.commit import SnapshotWriter
from ashore.tables.iceberg import iceberg_tables
from ashore_lab.testing import Fault

CATALOG_FAULTS = tuple(FAULTS)


def number_calls(directory: Path) -> list[str]:
    process = iceberg_world(directory).start()
    assert process.run() is None
    return [call.kind for call in process.faulty.calls]


def play(directory: Path, fault: Fault) -> None:
    """Strike one process; let a second finish; then let come what is late."""
    world = iceberg_world(directory)
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


def test_a_commit_that_comes_late_changes_nothing(tmp_path: Path) -> None:
    """It comes when the next batches are there, as a request that a proxy has delayed."""
    calls = number_calls(tmp_path)
    play(tmp_path, FAULTS["late at the end"](calls.index("commit_table") + 1))


# ---- a suite that cannot turn red proves nothing


def without_a_look(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(iceberg_tables, "is_committed", lambda *_: False)


def without_requirements(patch: pytest.MonkeyPatch) -> None:
    def append(self: SnapshotWriter, *given: object) -> None:
        catalog = self._catalog
        commit_table = catalog.commit_table
        patch.setattr(
            catalog,
            "commit_table",
            lambda table, _, updates: commit_table(table, (), updates),
            False,
        )
        whole(self, *given)

    whole = SnapshotWriter.append
    patch.setattr(SnapshotWriter, "append", append)


@pytest.mark.parametrize("mutate", [without_a_look])
def test_a_mutant_is_found(
    mutate: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    calls = number_calls(tmp_path)
    mutate(monkeypatch)
    with pytest.raises(AssertionError):
        for number, kind in enumerate(calls, 1):
            if kind == "commit_table":
                play(tmp_path, FAULTS["fails after"](number))
