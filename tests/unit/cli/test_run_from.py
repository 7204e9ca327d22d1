"""`ashore run --from`: what is refused before there is a job process."""

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke
from tests.unit.cli.test_run_command import job_file, stopping

from ashore.errors import JavaMissing
from ashore.log.entries import next_version
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.store.log import LandingLog, LogContext
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.state.later_batches import AnotherTable
from ashore.queries.tools import another_table
from ashore.queries.tools.another_table import BegunElsewhere
from ashore.storage import LocalStorage, MemoryStorage
from ashore_lab.testing import FakeClock

__all__ = ["job_file", "stopping"]  # fixtures


def attempt(job: Path) -> Checkpoint:
    path = f"{checkpoint_directory(SliceName('clicks', 'ods__big'))}/1"
    return Checkpoint(LocalStorage(str(job.parent / "lake")), path, "")


def own(job: Path, owner: SliceName) -> None:
    """Let the checkpoint say whose it is."""
    storage = MemoryStorage()
    log = LandingLog(LogContext(storage, FakeClock(), lambda: "0" * 16), owner)
    log.open()
    document = f'{{"job":"{owner.job}","slice":"{owner.slice}"}}'
    log.append(next_version(log.fold, "d", document), None)
    known = log.fold.version
    assert known is not None
    path = storage.list(f".ashore/{owner.job}/{owner.slice}/log")[known.entry].path
    attempt(job).keep_version(1, storage.read(path))


def save(job: Path) -> str:
    shelf = job.parent / "saved"
    code, _, err = invoke(
        "checkpoint", "savepoint", job, "--query", "ods.big", "--to", shelf, "--batch", "10"
    )
    assert code == 0, err
    (found,) = shelf.iterdir()
    return str(found)


def files(root: Path) -> set[Path]:
    return {each for each in root.rglob("*") if each.is_file()}


def test_choices_without_a_savepoint_are_no_command(stopping: Path) -> None:
    assert invoke("run", stopping, "--output", "catch-up")[0] == 2
    assert invoke("run", stopping, "--take-over")[0] == 2
    assert invoke("run", stopping, "--from", "x", "--output", "delete")[0] == 2
    for told in ("--of-another-job", "--same-sql"):
        assert invoke("run", stopping, "--from", "x", told)[0] == 2
        assert invoke("run", stopping, "--from", "x", "--output", "catch-up", told)[0] == 2


def test_what_cannot_be_gone_on_from_is_refused_and_nothing_is_changed(stopping: Path) -> None:
    nowhere = stopping.parent / "nowhere"
    code, _, err = invoke("run", stopping, "--from", nowhere)
    assert (code, f"{nowhere} is not" in err) == (4, True)
    own(stopping, SliceName("clicks", "ods__big"))
    found = save(stopping)
    before = files(stopping.parent / "lake")
    code, _, err = invoke("run", stopping, "--from", found, "--from", found)
    assert (code, "more than one savepoint" in err) == (4, True)
    code, _, err = invoke("run", stopping, "--from", found)
    assert (code, "has no batch" in err) == (4, True)
    assert files(stopping.parent / "lake") == before


@pytest.mark.parametrize("owner", [SliceName("other", "ods__big"), SliceName("clicks", "ods__x")])
def test_a_savepoint_of_another_job_or_query_is_refused(stopping: Path, owner: SliceName) -> None:
    own(stopping, owner)
    code, _, err = invoke("run", stopping, "--from", save(stopping))
    assert (code, f"is of {owner}, " in err) == (4, True)
    assert "checkpoint-unfit" in err
    assert ("--of-another-job" in err) == (owner.job != "clicks")
    assert "--output another-table" in err


def begin(job: Path, *told: str) -> tuple[int, str]:
    before = files(job.parent / "lake")
    code, _, err = invoke("run", job, "--from", save(job), "--output", "another-table", *told)
    assert files(job.parent / "lake") == before
    return code, err


def test_another_table_goes_on_from_a_savepoint_of_another_job_only_when_told(
    stopping: Path,
) -> None:
    code, err = begin(stopping)
    assert (code, "which job" in err) == (4, True)
    assert "add `--of-another-job`" in err


@pytest.mark.parametrize(
    ("owner", "told"),
    [
        (SliceName("other", "ods__big"), ("--of-another-job",)),
        (SliceName("clicks", "ods__x"), ()),
    ],
)
def test_which_of_two_empty_tables_goes_on_is_not_guessed(
    stopping: Path, owner: SliceName, told: tuple[str, ...]
) -> None:
    own(stopping, owner)
    if told:
        code, err = begin(stopping)
        assert (code, f"is of {owner}, " in err) == (4, True)
        shutil.rmtree(stopping.parent / "saved")
    code, err = begin(stopping, *told)
    assert (code, "2 queries of" in err, "have an empty log" in err) == (2, True, True)


def test_a_table_that_holds_something_is_refused_before_spark_is_asked(stopping: Path) -> None:
    own(stopping, SliceName("clicks", "ods__big"))
    code, err = begin(stopping)
    assert (code, JavaMissing.code in err) == (JavaMissing.exit_code, True), "its plan is needed"
    shutil.rmtree(stopping.parent / "saved")
    table = stopping.parent / "lake" / "ods.db" / "big"
    table.mkdir(parents=True)
    (table / "part-0.parquet").write_bytes(b"PAR1")
    code, err = begin(stopping)
    assert (code, "table ods.big is not empty: part-0.parquet" in err) == (4, True)


def test_the_command_tells_what_the_table_gets_and_what_was_not_checked(
    stopping: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[AnotherTable] = []

    def begun(_opened: object, wanted: AnotherTable, *given: Callable[[object], None]) -> None:
        asked.append(wanted)
        owner, notes = SliceName("other", "ods__x"), ("ods.big gets what comes after",)
        given[-1](BegunElsewhere("ods.big", "/saved/savepoint-1", 1, owner, notes))

    monkeypatch.setattr(another_table, "begin_in_another_table", begun)
    told = ("--output", "another-table", "--of-another-job", "--same-sql")
    code, _, err = invoke("run", stopping, "--from", "/saved/savepoint-1", *told)
    assert code == 0, err
    assert "ods.big continues from" in err
    assert "/saved/savepoint-1 of other/ods__x" in err
    assert "ods.big gets what comes after" in err
    assert asked == [AnotherTable(("/saved/savepoint-1",), True, True)]
