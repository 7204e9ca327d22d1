"""A job goes on from a savepoint of another one, in a table that gets what comes after."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest
from pyspark.sql import Row, functions
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    checkpoint,
    clicks,
    encode,
    per_minute,
    plan_here,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.base.clock import SystemClock
from ashore.errors import AshoreError, CheckpointUnfit, QueryRefused
from ashore.log.entries import Begin, Open, Prepare
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history, read_log
from ashore.plans.query import PlannedQuery
from ashore.queries.state.later_batches import AnotherTable
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.tools.addresses import find_checkpoint
from ashore.queries.tools.another_table import BegunElsewhere, begin_in_another_table
from ashore.queries.tools.savepoint_request import save_each_query
from ashore.queries.tools.savepoints import take_savepoint
from ashore.topics.open_job import open_job

PART = 150
OLD, NEW = "ods__per_minute", "ods__anew"
INTO_ANEW = PER_MINUTE.replace("ods.per_minute", "ods.anew")
ANEW = {**PER_MINUTE_TABLE, "table": "ods.anew"}


def silent(*_: object) -> None:
    """Show no progress."""


def come(site: Site, topic: str, number: int) -> None:
    """Produce a part of the records to both partitions."""
    records = encode(clicks(number * PART, PART))
    for partition in (0, 1):
        site.produce(topic, records[partition::2], partition)


def read_anew(site: Site) -> dict[tuple[int, str], int]:
    """Return what is in the new table. Fails where a minute appears twice."""
    columns = ("unix_millis(minute)", "country", "clicks")
    rows = site.read("ods.anew").selectExpr(*columns).collect()
    found = {(row[0] // MINUTE_MS, row[1]): row[2] for row in rows}
    assert len(found) == len(rows), "a minute appears twice"
    return found


class Moving:
    """A savepoint of a job, and the file of another one."""

    def __init__(self, site: Site, tmp_path: Path, text: str = INTO_ANEW) -> None:
        self.site, self.topic = site, site.topic(2)
        self.old = sql_job(site, PER_MINUTE, read_only(self.topic), PER_MINUTE_TABLE)
        come(site, self.topic, 0)
        run(site, self.old)
        saved = str(tmp_path / "saved")
        (found,) = save_each_query(str(self.old), saved, SystemClock(), silent, silent)
        self.manifest, self.savepoint = found.saved.manifest, found.saved.savepoint.place
        self.new = self.job(text)
        self._planned: Sequence[PlannedQuery] | None = None

    def job(self, text: str) -> Path:
        return sql_job(self.site, text, read_only(self.topic), ANEW, job="moved")

    def begin(self, job_file: Path | None = None, **told: bool) -> BegunElsewhere:
        found: list[BegunElsewhere] = []
        asked = AnotherTable((self.savepoint,), takes_over=True, **told)
        with open_job(job_file or self.new) as opened:
            begin_in_another_table(opened, asked, self.plan, silent, found.append)
        return found[0]

    def plan(self) -> Sequence[PlannedQuery]:
        """Return what the new job would do, as the process of the command plans it."""
        if self._planned is None:
            self._planned = plan_here(self.site, self.new)
        return self._planned

    def files(self, job: str) -> dict[Path, bytes]:
        root = self.site.lake / ".ashore" / job
        return {each: each.read_bytes() for each in root.rglob("*") if each.is_file()}

    def read_new(self) -> dict[tuple[int, str], int]:
        return read_anew(self.site)

    def slices(self) -> SliceName:
        return SliceName("moved", NEW)


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_two_tables_have_each_record_once_the_old_one_up_to_the_savepoint(
    site: Site, tmp_path: Path
) -> None:
    moving = Moving(site, tmp_path)
    batch, before = moving.manifest.batch, read_per_minute(site)
    kept = moving.files("landing")
    assert before
    come(site, moving.topic, 1)

    begun = moving.begin(of_another_job=True)

    assert (begun.query, begun.batch, str(begun.owner)) == ("ods.anew", batch, f"landing/{OLD}")
    assert "nothing before" in begun.notes[0]
    assert len(begun.notes) == 1
    run(site, moving.new)
    come(site, moving.topic, 2)
    run(site, moving.new)
    watermark_ms = max(at_ms for _, _, at_ms in clicks(0, 3 * PART)) - 10_000
    after = moving.read_new()
    assert after
    assert not before.keys() & after.keys()
    assert before | after == per_minute(clicks(0, 3 * PART), watermark_ms=watermark_ms)
    assert read_per_minute(site) == before
    assert moving.files("landing") == kept, "the old job is as it was"

    history = [each.body for each in read_history(site.storage, moving.slices())]
    assert [type(each) for each in history[:2]] == [Open, Begin]
    numbers = [each.query.batch_id for each in history if isinstance(each, Prepare) and each.query]
    assert numbers == list(range(batch + 1, batch + 1 + len(numbers)))
    result = site.prove(moving.new)
    assert [each for each in result.notes if f"begins after batch {batch}" in each]
    assert checkpoint(site, NEW, "moved").exists()

    # Its own savepoint is its own, and a copy of before its beginning is refused.
    (own,) = save_each_query(str(moving.new), str(tmp_path / "own"), SystemClock(), silent, silent)
    assert own.saved.manifest.query_id == moving.manifest.query_id
    moving.savepoint = own.saved.savepoint.place
    with pytest.raises(CheckpointUnfit, match="log is empty"):
        moving.begin()


@pytest.mark.long  # every day without Spark: tests/crash/test_another_table.py
def test_it_is_refused_unless_told_and_with_other_sql_and_nothing_is_changed(
    site: Site, tmp_path: Path
) -> None:
    other = INTO_ANEW.replace("count(*) AS clicks", "count(country) AS clicks")
    moving = Moving(site, tmp_path, other)
    kept = moving.files("landing")
    with pytest.raises(CheckpointUnfit, match=f"is of landing/{OLD}, .* job moved") as no:
        moving.begin()
    assert "--of-another-job" in (no.value.hint or "")
    with pytest.raises(QueryRefused, match="was made by different SQL"):
        moving.begin(of_another_job=True, same_sql=True)
    with pytest.raises(CheckpointUnfit, match="log is empty"):
        moving.begin(moving.old)
    assert moving.files("moved") == {}

    # Where no log says which SQL made the state, a person has to.
    shutil.rmtree(site.lake / ".ashore" / "landing")
    with pytest.raises(QueryRefused, match="nothing here says which SQL") as unknown:
        moving.begin(of_another_job=True)
    assert "--same-sql" in (unknown.value.hint or "")
    assert moving.files("moved") == {}
    assert kept
    begun = moving.begin(of_another_job=True, same_sql=True)
    assert "not checked" in begun.notes[1]
    fold = read_log(site.storage, moving.slices())
    assert fold.plan is None
    assert fold.query is not None
    assert fold.query.first == moving.manifest.batch + 1
    come(site, moving.topic, 1)
    run(site, moving.new)
    assert moving.read_new()
    with pytest.raises(AshoreError):
        moving.begin(of_another_job=True, same_sql=True)


@pytest.mark.long
def test_a_query_of_plain_spark_goes_on_as_a_job(site: Site, tmp_path: Path) -> None:
    topic, place = site.topic(2), tmp_path / "plain"
    come(site, topic, 0)
    before = run_plain(site, topic, str(place))
    assert before
    clock = SystemClock()
    shelf = open_shelf(str(tmp_path / "saved"), clock, links=True)
    plain = find_checkpoint(str(place), None, clock)
    saved = take_savepoint(plain, None, shelf, clock, silent).savepoint
    job_file = sql_job(site, INTO_ANEW, read_only(topic), ANEW, job="moved")
    planned = plan_here(site, job_file)
    found: list[BegunElsewhere] = []

    def begin(**told: bool) -> None:
        asked = AnotherTable((saved.place,), takes_over=True, **told)
        with open_job(job_file) as opened:
            begin_in_another_table(opened, asked, lambda: planned, silent, found.append)

    with pytest.raises(CheckpointUnfit, match="which job it"):
        begin()
    with pytest.raises(QueryRefused, match="nothing here says which SQL"):
        begin(of_another_job=True)
    begin(of_another_job=True, same_sql=True)
    assert found[0].owner is None
    come(site, topic, 1)
    run(site, job_file)
    watermark_ms = max(at_ms for _, _, at_ms in clicks(0, 2 * PART)) - 10_000
    after = read_anew(site)
    assert after
    assert not before.keys() & after.keys()
    assert before | after == per_minute(clicks(0, 2 * PART), watermark_ms=watermark_ms)
    site.prove(job_file)


def run_plain(site: Site, topic: str, place: str) -> dict[tuple[int, str], int]:
    """Count clicks per minute as a program without Ashore does, and return what it gave."""
    spark, rows = site.spark.newSession(), list[Row]()
    spark.conf.set("spark.sql.shuffle.partitions", "2")
    columns = "id BIGINT, country STRING, ts BIGINT"
    minute = functions.window("event_time", "1 minute")
    frame = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", site.servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr(f"from_json(CAST(value AS STRING), '{columns}') AS j")
        .selectExpr("j.*", "timestamp_millis(j.ts) AS event_time")
        .withWatermark("event_time", "10 seconds")
        .groupBy(minute, "country")
        .agg(functions.count("*").alias("clicks"), functions.sum("id").alias("ids"))
        .selectExpr("unix_millis(window.start) AS minute", "country", "clicks", "ids")
    )
    started = (
        frame.writeStream.option("checkpointLocation", place)
        .outputMode("append")
        .trigger(availableNow=True)
        .foreachBatch(lambda batch, _: rows.extend(batch.collect()))
        .start()
    )
    started.awaitTermination()
    return {(row[0] // MINUTE_MS, row[1]): row[2] for row in rows}
