"""A job that runs cleans the checkpoint of its query, and counts on as if nothing had been."""

import os
import shutil
import time
from pathlib import Path

import pytest
from tests.spark.site import At, Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.log.progress import CheckpointCleaned, Measure

QUERY = "ods__per_minute"


class Told(At):
    """A progress that keeps what it was told of cleaning."""

    def __init__(self) -> None:
        super().__init__("never", lambda: None)
        self.cleaned: list[CheckpointCleaned] = []

    def measured(self, measure: Measure) -> None:
        if isinstance(measure, CheckpointCleaned):
            self.cleaned.append(measure)


def age(root: Path, hours: int) -> None:
    for each in root.rglob("*"):
        os.utime(each, (time.time() - hours * 3600,) * 2)


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_a_job_cleans_its_checkpoint_and_counts_on(site: Site) -> None:
    topic, told = site.topic(1), Told()
    tables = (read_only(topic), PER_MINUTE_TABLE)
    job_file = sql_job(site, PER_MINUTE, *tables, clean={"every": "1s", "ttl": "1s"})
    site.produce(topic, encode(clicks(0, 180)))
    run(site, job_file, told)
    root = checkpoint(site, QUERY)
    # What a dead task and another number of partitions leave; all is as old as if nobody had run
    # it for two days.
    shutil.copytree(root / "state/0/1", root / "state/0/9")
    (root / "state/0/0/.7.changelog.a-b.TID7.tmp").write_bytes(b"half")
    age(root, 48)
    stale = sum(1 for each in (root / "state/0/9").rglob("*") if each.is_file()) + 1
    assert told.cleaned == []

    site.produce(topic, encode(clicks(180, 120)))
    run(site, job_file, told)

    assert checkpoint(site, QUERY) == root, "the job has taken another attempt"
    assert not (root / "state/0/9").exists()
    assert not (root / "state/0/0/.7.changelog.a-b.TID7.tmp").exists()
    assert sum(each.files for each in told.cleaned) >= stale
    assert {each.left_alone for each in told.cleaned} == {0}
    assert told.warnings == []
    site.produce(topic, encode(clicks(300, 120)))
    run(site, job_file, told)  # from the checkpoint that was cleaned
    watermark_ms = START_MS + 419_000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 420), watermark_ms=watermark_ms)
