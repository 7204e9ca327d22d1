"""`ashore doctor` as a shell sees it."""

import json
from pathlib import Path

import pytest
from tests.unit.cli.test_commands import JOB, invoke

from ashore.log.store.owner import claim_tables
from ashore.storage.local import LocalStorage
from ashore.topics import open_job


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(open_job, "SOURCE_TIMEOUT_S", 0.3)
    path = tmp_path / "job.yaml"
    job = JOB.format(lake=tmp_path / "lake") + "batch: {interval: 10ms}\n"
    path.write_text(job)
    return path


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Put a foreign file into the job's table."""
    storage = LocalStorage(str(tmp_path / "lake"))
    claim_tables(storage, ["ods.clicks"], "clicks", 1)
    storage.create("ods.db/clicks/it's mine.parquet", b"x")
    return tmp_path / "lake" / "ods.db" / "clicks" / "it's mine.parquet"


@pytest.mark.parametrize("options", [(), ("--explain",)])
def test_a_diagnosis_changes_nothing(job_file: Path, foreign: Path, options: tuple[str, ...]):
    code, out, _ = invoke("doctor", job_file, *options)
    assert code == 0
    assert "would move ods.db/clicks/it's mine.parquet aside" in out
    assert "--apply" in out
    assert foreign.exists()


def test_what_is_done_is_reported_with_how_to_undo_it(job_file: Path, foreign: Path):
    code, out, _ = invoke("doctor", job_file, "--apply", "--json")
    document = json.loads(out)
    assert code == 0
    assert not foreign.exists()
    (done,) = document["done"]
    assert done["kind"] == "MoveAside"
    assert done["undo"].startswith("mv -n ")
    assert document["refusals"] == document["steps"] == []
    code, out, _ = invoke("doctor", job_file, "--apply")
    assert (code, out.startswith("nothing to repair")) == (0, True)


def test_what_is_refused_ends_with_4(job_file: Path, tmp_path: Path):
    code, out, _ = invoke("doctor", job_file, "--from-spark", tmp_path / "nothing")
    assert code == 4
    assert "has no offsets" in out
    assert "next: " in out


@pytest.mark.parametrize(
    "options", [("--explain", "--apply"), ("--from-spark", "x", "--from-connect", "y")]
)
def test_options_that_exclude_each_other(job_file: Path, options: tuple[str, ...]):
    assert invoke("doctor", job_file, *options)[0] == 2
