"""Job files that are opened again and again: read once, and again with every change."""

import os
from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.fleet.records.job_files import SETTLED_NS, KnownJobs
from ashore.jobs.file import Job
from ashore.topics.loop.job import load_job_file
from ashore_lab.testing.simulation import write_simulated_job


def age(*paths: Path) -> None:
    """Let files have changed a while ago."""
    for path in paths:
        before_ns = path.stat().st_mtime_ns - 2 * SETTLED_NS
        os.utime(path, ns=(before_ns, before_ns))


def test_a_file_is_read_again_when_it_or_its_sql_has_changed(tmp_path: Path) -> None:
    reads = []

    def load(path: Path) -> Job:
        reads.append(path)
        return load_job_file(path)

    known, path = KnownJobs(load), write_simulated_job(tmp_path, "clicks")
    assert known.load(path) is not known.load(path), "it may change once more in this moment"
    age(path)
    assert known.load(path) is known.load(path)
    assert len(reads) == 3

    path.write_text(
        path.read_text()
        .replace("spark: none\n", "sql: {file: clicks.sql}\n")
        .replace("tables: [", "tables: [{table: ods.ids}, ")
    )
    sql = tmp_path / "clicks.sql"
    sql.write_text("INSERT INTO ods.ids SELECT id FROM clicks;")
    age(path, sql)
    known.load(path)
    known.load(path)
    assert len(reads) == 4
    sql.write_text("INSERT INTO ods.ids SELECT id + 1 AS id FROM clicks;")
    os.utime(sql, ns=(1, 1))
    known.load(path)
    assert len(reads) == 5, "its SQL is a part of it"
    path.write_text("job: 7")
    with pytest.raises(JobFileInvalid):
        known.load(path)
