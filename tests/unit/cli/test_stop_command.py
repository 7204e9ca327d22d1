"""`ashore stop`: its arguments, and savepoints of a job that has stopped."""

import json
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack
from tests.unit.cli.test_checkpoint_commands import JOB
from tests.unit.cli.test_commands import JOB as LANDING
from tests.unit.cli.test_commands import invoke

from ashore.log.names import SliceName, checkpoint_directory
from ashore.queries.state.attempts import Attempts
from ashore.storage import LocalStorage


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job that does not run; one of its two queries has a checkpoint."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    path, lake = tmp_path / "job.yaml", tmp_path / "lake"
    path.write_text(JOB.format(lake=lake))
    directory = checkpoint_directory(SliceName("clicks", "ods__big"))
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb-changelog", lake / directory).rename(lake / attempts.attempt(1).path)
    return path


def test_a_savepoint_of_each_query_is_taken_once_the_job_has_stopped(
    job_file: Path, tmp_path: Path
) -> None:
    shelf = tmp_path / "saved"
    code, out, err = invoke("stop", job_file, "--savepoint", shelf, "--json")
    assert code == 0, err
    document = json.loads(out)
    assert "never started" in document["sentence"]
    (saved,) = document["savepoints"]
    assert (saved["query"], saved["batch"]) == ("ods.big", 11)
    assert "ods.small has no checkpoint yet" in err
    assert invoke("checkpoint", "verify", saved["path"])[0] == 0
    code, out, _ = invoke("stop", job_file, "--savepoint", shelf)
    assert code == 0
    assert f"ods.big: savepoint {shelf}/savepoint-11-" in out


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["--now", "--savepoint", "x"], 2, "--now excludes"),
        (["--now", "--finish-batch"], 2, "--now excludes"),
        (["--now", "--drain"], 2, "--now excludes"),
        (["--timeout", "5"], 2, "5"),
        (["--savepoint", "/"], 2, "below the root"),
        (["--savepoint", "/proc/nowhere"], 1, "never started; "),
    ],
)
def test_what_cannot_be_is_reported(
    job_file: Path, arguments: list[str], code: int, said: str
) -> None:
    found, out, err = invoke("stop", job_file, *arguments)
    assert (found, out) == (code, "")
    assert said in err


def test_a_job_without_queries_is_not_stopped_for_a_savepoint(job_file: Path) -> None:
    job_file.write_text(LANDING.format(lake=job_file.parent / "lake"))
    found, _, err = invoke("stop", job_file, "--savepoint", "/tmp/nowhere")
    assert found == 2
    assert "has no query" in err
