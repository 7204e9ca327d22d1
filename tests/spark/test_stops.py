"""What stops a job for a decision, and how it goes on afterwards."""

import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.kafka_tools import delete_records
from tests.spark.site import Around, At, Site, events, table_of

from ashore.errors import BadRecord, FilesLost, OffsetsGone, RecordsTooLarge, StorageError
from ashore.log.entries import Prepare, Skip
from ashore.storage.open import LakeAddress
from ashore.topics.loop.recovery import open_and_find_lost, reland
from ashore.topics.open_job import open_job
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.run.spark.runner import SparkRunner
from ashore.topics.use.take_over import accept_losses
from ashore.topics.write.batch import BatchRunner


def test_a_bad_record_stops_the_job_at_once(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, [*events(0, 7), b"{broken", *events(8, 3)], partition=1)
    job_file = site.job_file(table_of(topic, on_invalid="fail"))
    writer = site.writer(job_file, wrap=Around)

    with pytest.raises(BadRecord) as caught:
        writer.drain()

    assert f"{topic}/1, offset 7" in caught.value.message
    fields = caught.value.fields
    assert (fields["topic"], fields["partition"], fields["offset"]) == (topic, 1, 7)
    assert caught.value.exit_code == 4
    assert writer.parts.runner.runs == 1
    assert site.files() == []

    site.job_file(table_of(topic, on_invalid="dead_letter"))  # what the hint says
    site.writer(job_file).drain()
    assert len(site.landed_ids()) == 10
    site.prove(job_file)


def test_a_record_that_is_too_large_for_the_limits_is_not_decoded_by_spark(site: Site) -> None:
    """Key, value and headers count. What comes before it lands first."""
    topic, large = site.topic(2), b"x" * 1_025
    select = {"select": ["id", "id % 2 AS parity"], "provenance": "headers"}
    limits: dict[str, object] = {"record": "1KB"}

    site.produce(topic, events(0, 2), partition=1)
    writer = site.writer(site.job_file(table_of(topic, **select), limits=limits))
    writer.drain()  # the batch after a start is looked through without Spark
    site.produce(topic, [*events(2, 3), large, *events(6, 4)], partition=1)
    site.produce(topic, events(10, 3), partition=0)

    with pytest.raises(RecordsTooLarge) as caught:
        writer.drain()

    assert f"record at offset 5 of {topic}/1" in caught.value.message
    assert sorted(site.landed_ids().values()) == [*range(5), *range(10, 13)]
    skipping = site.job_file(table_of(topic, **select), limits={**limits, "on_too_large": "skip"})
    site.writer(skipping).drain()
    assert sorted(site.landed_ids().values()) == [*range(5), *range(6, 13)]
    site.prove(skipping)


def test_a_lake_that_executors_do_not_share_is_found_before_the_first_batch(
    site: Site, tmp_path: Path
) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 3))
    other = LakeAddress(f"file://{tmp_path / 'other'}", deadline_s=10)

    def astray(_runner: BatchRunner) -> BatchRunner:
        return SparkRunner(site.spark, KafkaAddress(site.servers, {}), other, "astray")

    with pytest.raises(StorageError) as caught:
        site.writer(site.job_file(table_of(topic)), wrap=astray).drain()

    assert "driver cannot see" in caught.value.message
    assert "on every node" in caught.value.hint
    assert not any(isinstance(entry.body, Prepare) for entry in site.history())


def test_ctrl_c_stays_ours(spark: SparkSession) -> None:
    """PySpark takes SIGINT for itself when a session starts; an orderly stop needs it back."""
    handler = signal.getsignal(signal.SIGINT)  # a process in the background may ignore it
    assert not str(getattr(handler, "__module__", "")).startswith("pyspark")


# --- lost files ----------------------------------------------------------------------------------


def land_and_lose(site: Site, topic: str, job_file: Path) -> FilesLost:
    """Land a batch whose largest pending file vanishes between prepare and move."""

    def lose() -> None:
        max(site.staged(), key=lambda path: path.stat().st_size).unlink()

    with pytest.raises(FilesLost) as caught:
        site.writer(job_file, At("move", lose)).drain()
    return caught.value


def several_files(site: Site) -> tuple[str, Path]:
    """Return a topic and a job whose one batch makes three files, dead letters aside."""
    topic = site.topic(2)
    for partition in range(2):
        values = [
            value.replace(b'"DE"', b'"DE"' if number % 3 else b'"CN"')
            for number, value in enumerate(events(partition * 1_000, 200))
        ]
        values[17:17] = [b"{broken"]
        site.produce(topic, values, partition)
    return topic, site.job_file(table_of(topic, partition_by=["country"], where="id % 50 <> 49"))


def test_lost_files_are_landed_again_from_kafka(site: Site) -> None:
    topic, job_file = several_files(site)
    lost_files = land_and_lose(site, topic, job_file)
    assert len(lost_files.unique) == 1
    assert "--reland" in lost_files.hint
    with pytest.raises(FilesLost):
        site.writer(job_file).drain()  # a restart does not help, and keeps everything
    assert site.verify(job_file).exit_code == 5

    helper = site.writer(job_file)
    lost = open_and_find_lost(helper.parts.committer())
    assert lost is not None
    rows = reland(helper.loop.plan, helper.parts, lost)

    assert rows == sum(file.rows for file in lost.files) > 200
    site.produce(topic, events(5_000, 3))
    site.writer(job_file).drain()
    assert sorted(site.landed_ids().values()) == [
        *(
            number
            for start in (0, 1_000)
            for number in range(start, start + 200)
            if number % 50 != 49
        ),
        *range(5_000, 5_003),
    ]
    assert site.read("ods.events__dead").count() == 2
    totals = site.prove(job_file).totals
    assert (totals.landed, totals.dead, totals.filtered) == (395, 2, 8)


def test_lost_files_that_kafka_no_longer_has_can_only_be_given_up(site: Site) -> None:
    topic, job_file = several_files(site)
    land_and_lose(site, topic, job_file)
    delete_records(site.servers, topic, 0, 150)
    helper = site.writer(job_file)
    lost = open_and_find_lost(helper.parts.committer())
    assert lost is not None
    with pytest.raises(OffsetsGone) as caught:
        reland(helper.loop.plan, helper.parts, lost)
    assert "--accept-loss" in caught.value.hint

    with open_job(job_file) as opened:
        given_up = accept_losses(opened, "retention was faster", takes_over=True)

    assert (given_up.files, given_up.rows) == (1, sum(file.rows for file in lost.files))
    [skip] = [entry.body for entry in site.history() if isinstance(entry.body, Skip)]
    assert skip.why == "retention was faster"
    site.produce(topic, events(5_000, 3))
    site.writer(job_file).drain()
    assert len(site.landed_ids()) == 395 - given_up.rows
    verdict = site.verify(job_file)
    assert (verdict.totals.given_up, verdict.totals.lost) == (given_up.rows, 0)
