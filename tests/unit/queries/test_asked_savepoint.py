"""A savepoint of a job: by its process where one answers, else of the files that it has left."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack
from tests.frozen import freeze
from tests.unit.cli.test_checkpoint_commands import JOB
from tests.unit.cli.test_commands import invoke
from tests.unit.jobs.test_ask import ROOT

from ashore.log.names import SliceName, checkpoint_directory
from ashore.queries.state.attempts import Attempts
from ashore.storage import LocalStorage


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job of two queries; the first has a checkpoint that has finished batch 11."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    path, lake = tmp_path / "job.yaml", tmp_path / "lake"
    path.write_text(JOB.format(lake=lake))
    directory = checkpoint_directory(SliceName("clicks", "ods__big"))
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb-changelog", lake / directory).rename(lake / attempts.attempt(1).path)
    return path


@pytest.fixture
def process(job_file: Path) -> Iterator["subprocess.Popen[str]"]:
    """A process of the job that beats, and can be asked to count, not for savepoints."""
    lake = f"file://{job_file.parent / 'lake'}"
    command = [sys.executable, "-m", "tests.unit.proof.asked_job", "clicks", lake]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "listens\n"
            yield process
        finally:
            process.kill()


def save(job_file: Path, *more: str) -> tuple[int, str, str]:
    shelf = job_file.parent / "saved"
    return invoke("checkpoint", "savepoint", job_file, "--query", "ods.big", "--to", shelf, *more)


def saved(job_file: Path) -> list[str]:
    shelf = job_file.parent / "saved"
    return [each.name for each in shelf.iterdir()] if shelf.is_dir() else []


def test_a_job_that_never_ran_here_is_not_asked(job_file: Path) -> None:
    code, out, err = save(job_file)
    assert code == 0, err
    assert "batch 11" in out
    assert "no heartbeat" in err


def test_of_a_job_that_has_died_its_files_are_taken(
    job_file: Path, process: "subprocess.Popen[str]"
) -> None:
    process.kill()
    process.wait()
    code, out, err = save(job_file)
    assert code == 0, err
    assert "batch 11" in out
    assert f"{process.pid} of job clicks exited" in err
    assert len(saved(job_file)) == 1


def test_one_that_runs_is_asked_and_what_it_refuses_is_said(
    job_file: Path, process: "subprocess.Popen[str]"
) -> None:
    code, out, err = save(job_file)
    assert (code, out) == (1, "")
    assert "take a savepoint" in err
    root = job_file.parent / "lake" / checkpoint_directory(SliceName("clicks", "ods__big")) / "1"
    assert f"name {root} instead" in err
    assert saved(job_file) == []
    assert process.poll() is None
    # A batch that is done does not change: nobody is asked for it, and for a plan neither.
    assert save(job_file, "--batch", "10")[0] == 0
    assert save(job_file, "--explain")[0] == 0


@pytest.mark.slow
def test_one_that_is_frozen_is_an_error_within_seconds(
    job_file: Path, process: "subprocess.Popen[str]"
) -> None:
    freeze(process.pid)
    code, out, err = save(job_file)
    assert (code, out) == (1, "")
    assert f"process {process.pid} is there" in err
    assert "without asking it" in err
    assert saved(job_file) == []
