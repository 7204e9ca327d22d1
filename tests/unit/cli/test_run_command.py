"""`ashore run` before there is a job process."""

from pathlib import Path

import pytest
from tests.unit.cli.test_commands import JOB, invoke

from ashore.control import jobs
from ashore.errors import JavaMissing, TableOwned
from ashore.jobs.java import find_java
from ashore.landing.owner import claim_tables
from ashore.storage.local import LocalStorage
from ashore.testing import FakeClock, RecordedSource


@pytest.fixture
def job_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a job whose topic is there, on a machine without Java."""
    source = RecordedSource("kafka", FakeClock())
    source.create("clicks")
    monkeypatch.setattr(jobs, "open_later", lambda *_: source)
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
    assert "checking lake, log and topics of job clicks" in err.splitlines()[0]
