"""`ashore run --from`: what is refused before there is a job process."""

from pathlib import Path

import pytest
from tests.unit.cli.test_commands import invoke
from tests.unit.cli.test_run_command import job_file, stopping

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.landing.log import LandingLog, LogContext
from ashore.protocol.entries import next_version
from ashore.protocol.names import SliceName, checkpoint_directory
from ashore.storage import LocalStorage, MemoryStorage
from ashore.testing import FakeClock

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


def test_what_cannot_be_gone_on_from_is_refused_and_nothing_is_changed(stopping: Path) -> None:
    nowhere = stopping.parent / "nowhere"
    code, _, err = invoke("run", stopping, "--from", nowhere)
    assert (code, f"{nowhere} is not a complete savepoint" in err) == (4, True)
    own(stopping, SliceName("clicks", "ods__big"))
    found = save(stopping)
    before = files(stopping.parent / "lake")
    code, _, err = invoke("run", stopping, "--from", found, "--from", found)
    assert (code, "ods.big has more than one savepoint" in err) == (4, True)
    code, _, err = invoke("run", stopping, "--from", found)
    assert (code, "the log has no batch" in err) == (4, True)
    assert files(stopping.parent / "lake") == before


@pytest.mark.parametrize("owner", [SliceName("other", "ods__big"), SliceName("clicks", "ods__x")])
def test_a_savepoint_of_another_job_or_query_is_refused(stopping: Path, owner: SliceName) -> None:
    own(stopping, owner)
    code, _, err = invoke("run", stopping, "--from", save(stopping))
    assert (code, f"is of {owner}, which is no query of" in err) == (4, True)
    assert "checkpoint-unfit" in err
