"""`ashore run` before there is a job process."""

import json
from pathlib import Path

import pytest
from tests.checkpoint_files import unpack
from tests.unit.cli.test_checkpoint_commands import JOB as QUERIES
from tests.unit.cli.test_commands import JOB, invoke

from ashore.cli import run_view
from ashore.errors import JavaMissing, TableOwned
from ashore.jobs.jars import find_java
from ashore.log.names import SliceName, checkpoint_directory
from ashore.log.store.owner import claim_tables
from ashore.queries.state.attempts import Attempts
from ashore.queries.tools import savepoint_request
from ashore.storage.local import LocalStorage
from ashore.topics import open_job
from ashore_lab.testing import FakeClock, RecordedSource


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job whose topic is there, on a machine without Java."""
    source = RecordedSource("kafka", FakeClock())
    source.create("clicks")
    monkeypatch.setattr(open_job, "open_later", lambda *_: source)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    find_java.cache_clear()
    (tmp_path / "lake").mkdir()
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(lake=tmp_path / "lake"))
    return path


def test_a_table_of_another_job_is_reported_before_spark_is_started(
    job_file: Path, tmp_path: Path
) -> None:
    code, _, err = invoke("run", job_file)
    assert (code, JavaMissing.code in err) == (JavaMissing.exit_code, True), "Spark would start now"
    claim_tables(LocalStorage(str(tmp_path / "lake")), ["ods.clicks"], "other", 1)
    code, _, err = invoke("run", job_file)
    assert (code, TableOwned.code in err) == (TableOwned.exit_code, True)
    assert JavaMissing.code not in err
    assert err.startswith("20")
    assert "of job clicks" in err.splitlines()[0]


@pytest.fixture
def stopping(job_file: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job with two queries, one of them with a checkpoint, that stops gracefully."""
    lake = job_file.parent / "lake"
    job_file.write_text(QUERIES.format(lake=lake))
    directory = checkpoint_directory(SliceName("clicks", "ods__big"))
    attempts = Attempts(LocalStorage(str(lake)), directory, f"file://{lake}/{directory}")
    attempts.take(1, is_mine=False)
    unpack("rocksdb-changelog", lake / directory).rename(lake / attempts.attempt(1).path)
    monkeypatch.setattr(run_view, "show_run", lambda *_: 0)
    return job_file


def test_savepoints_are_taken_before_the_command_ends(stopping: Path, tmp_path: Path) -> None:
    shelf = tmp_path / "saved"
    code, out, err = invoke("run", stopping, "--savepoint", shelf)
    assert code == 0, err
    assert f"ods.big: savepoint {shelf}/savepoint-11-" in out
    assert "ods.small has no checkpoint yet" in err
    code, out, err = invoke("run", stopping, "--savepoint", shelf, "--json")
    assert code == 0, err
    event = json.loads(out.splitlines()[-1])
    assert (event["event"], event["query"], event["batch"]) == ("savepoint", "ods.big", 11)
    assert invoke("checkpoint", "verify", event["path"])[0] == 0


def test_without_a_graceful_stop_there_is_none_and_the_command_says_so(
    stopping: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf = tmp_path / "saved"
    code, _, err = invoke("run", stopping, "--savepoint", "/")
    assert (code, "below the root" in err) == (2, True)
    monkeypatch.setattr(run_view, "show_run", lambda *_: 137)
    code, out, err = invoke("run", stopping, "--savepoint", shelf)
    assert (code, "no savepoint was taken" in err) == (137, True)
    assert not shelf.exists()

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(run_view, "show_run", lambda *_: 0)
    monkeypatch.setattr(savepoint_request, "save_each_query", interrupt)
    code, out, err = invoke("run", stopping, "--savepoint", shelf)
    assert (code, "before its savepoints" in err) == (1, True)
    assert out == ""
