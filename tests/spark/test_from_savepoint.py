"""The checkpoint of a query is deleted; the job goes on from its last savepoint."""

import shutil
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    checkpoint,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit
from ashore.log.entries import Rollback
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.queries.state.later_batches import LandedSince, OutputSince
from ashore.queries.tools.from_savepoint import ResumedQuery, ResumeOptions, resume_from
from ashore.queries.tools.savepoint_request import save_each_query
from ashore.topics.open_job import open_job

PART = 150
QUERY = "ods__per_minute"


def silent(*_: object) -> None:
    """Show no progress."""


def come(site: Site, topic: str, number: int) -> None:
    """Produce a part of the records to both partitions."""
    records = encode(clicks(number * PART, PART))
    for partition in (0, 1):
        site.produce(topic, records[partition::2], partition)


def go_on(job_file: Path, savepoint: str, output: OutputSince | None) -> LandedSince:
    found: list[ResumedQuery] = []
    with open_job(job_file) as opened:
        asked = ResumeOptions((savepoint,), output, takes_over=True)
        resume_from(opened, asked, silent, found.append)
    return found[0].since


@pytest.mark.thirds("a job whose checkpoint is changed")
@pytest.mark.parametrize(
    "output",
    [OutputSince.ROLL_BACK, pytest.param(OutputSince.CATCH_UP, marks=pytest.mark.long)],
)
def test_nothing_is_lost_or_doubled_where_the_checkpoint_is_deleted_half_way(
    site: Site, tmp_path: Path, output: OutputSince
) -> None:
    topic, clock = site.topic(2), SystemClock()
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    come(site, topic, 0)
    run(site, job_file)
    (saved,) = save_each_query(str(job_file), str(tmp_path / "saved"), clock, silent, silent)
    savepoint = saved.saved.savepoint.place
    come(site, topic, 1)
    run(site, job_file)
    shutil.rmtree(checkpoint(site, QUERY).parent)

    with pytest.raises(CheckpointUnfit, match="there is no checkpoint") as lost:
        run(site, job_file)
    assert "--from" in (lost.value.hint or "")
    with pytest.raises(CheckpointUnfit, match=r"landed \d+ rows in \d+ batches"):
        go_on(job_file, savepoint, None)
    since = go_on(job_file, savepoint, output)
    assert since.batch == saved.saved.manifest.batch
    assert since.batches > 0
    assert since.rows > 0
    come(site, topic, 2)
    run(site, job_file)

    watermark_ms = max(at_ms for _, _, at_ms in clicks(0, 3 * PART)) - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 3 * PART), watermark_ms=watermark_ms)
    site.prove(job_file)
    history = read_history(site.storage, SliceName("landing", QUERY))
    rollbacks = [each.body for each in history if isinstance(each.body, Rollback)]
    assert len(rollbacks) == (output is OutputSince.ROLL_BACK)
