"""What tasks go through: failures and retries, skew, many tiny ranges, large values."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.kafka_tools import Sender
from tests.spark import tasks
from tests.spark.site import Site, event, events, table_of
from tests.specs import OUTPUT

from ashore.errors import BatchFailed
from ashore.log.entries import Prepare
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime
from ashore.queries.spark.sql import row_writer as written
from ashore.storage.open import LakeAddress
from ashore.topics.loop.worker import Tick
from ashore.topics.open_job import open_job
from ashore.topics.run.spark import runner
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore.topics.write.batch import RowsOrder

MB = 1_000_000


def last_prepare(site: Site) -> Prepare:
    return [entry.body for entry in site.history() if isinstance(entry.body, Prepare)][-1]


def rows_of_tasks(site: Site) -> Counter[int]:
    rows: Counter[int] = Counter()
    for file in last_prepare(site).files:
        rows[file.task] += file.rows
    return rows


# --- failures ------------------------------------------------------------------------------------


def test_files_of_failed_attempts_are_never_seen(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task dies once after its files are closed; Spark tries again, the counts are right."""
    topic = site.topic(2)
    for partition in range(2):
        site.produce(topic, events(partition * 20_000, 15_000), partition)
        site.produce(topic, [b"{broken"], partition)
    job_file = site.job_file(table_of(topic), clean={"every": "1h", "ttl": "1ms"})
    monkeypatch.setattr(runner, "land_splits", tasks.fail_first_attempt)

    site.writer(job_file).drain()

    totals = site.prove(job_file).totals
    assert (totals.fetched, totals.landed, totals.dead) == (30_002, 30_000, 2)
    assert len(site.landed_ids()) == 30_000
    assert len(rows_of_tasks(site)) == 2
    assert len(site.staged()) == len(site.staged("ods.events__dead")) == 2  # one of each attempt

    with open_job(job_file) as opened:
        clean_job(opened, plan_clean_job(opened))
    assert site.staged() == site.staged("ods.events__dead") == []
    site.prove(job_file)


def test_a_batch_that_failed_is_planned_again(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 10))
    job_file = site.job_file(table_of(topic))
    writer = site.writer(job_file)
    writer.loop.open()
    with monkeypatch.context() as broken:
        broken.setattr(runner, "land_splits", tasks.fail_always)
        with pytest.raises(BatchFailed) as caught:
            writer.loop.tick()
    assert "every attempt fails" in caught.value.message
    assert not site.staged()  # each attempt has left a file, which went with the batch

    assert writer.loop.tick() is Tick.LANDED  # the same writer, without a new open

    assert site.fold().epoch == 1
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


def workers_of_attempt(site: Site, what: str, attempt: int) -> set[int]:
    """Return processes. A note says what was done, in which attempt, by whom, whose child."""
    return {int(note.name.split("-")[3]) for note in site.lake.glob(f"_worker-{what}-{attempt}-*")}


def is_running(pid: int) -> bool:
    return Path(f"/proc/{pid}/exe").exists()  # one that has ended and is not reaped has none


def wait_until_gone(pids: set[int]) -> None:
    end_s = time.monotonic() + 30
    while any(is_running(pid) for pid in pids):
        assert time.monotonic() < end_s, "a worker in which too many calls hang is kept"
        time.sleep(0.05)


@pytest.mark.thirds("slow by itself")
def test_a_worker_in_which_too_many_calls_hang_is_replaced(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Workers outlive their tasks: such a one would fail every task that comes to it."""
    topic = site.topic()
    site.produce(topic, events(0, 10))
    job_file = site.job_file(table_of(topic, where="id >= 0", on_invalid="drop"))
    monkeypatch.setattr(runner, "land", tasks.land_where_calls_hang)
    monkeypatch.setattr(runner, "land_probes", tasks.probe_where_calls_hang)

    site.writer(job_file).drain()  # a probe and a batch, each tried again

    for what in ("probe", "batch"):
        hanging, fresh = (workers_of_attempt(site, what, attempt) for attempt in (0, 1))
        assert len(hanging) == len(fresh) == 1
        assert not fresh & hanging
        wait_until_gone(hanging)
    parents = {note.name.split("-")[4] for note in site.lake.glob("_worker-*")}
    assert len(parents) == 1, "the probe's worker is of the kind that the first batch needs"
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


# --- splits --------------------------------------------------------------------------------------


def test_a_partition_with_most_of_the_backlog_becomes_many_tasks(site: Site) -> None:
    """Nine tenths in one partition of four: no task has more than its part of the whole."""
    topic = site.topic(4)
    for partition, count in enumerate((90_000, 4_000, 3_000, 3_000)):
        site.produce(topic, events(partition * 100_000, count), partition)
    job_file = site.job_file(table_of(topic))

    site.writer(job_file).drain()

    rows = rows_of_tasks(site)
    parallelism = site.spark.sparkContext.defaultParallelism
    assert sum(rows.values()) == 100_000
    assert max(rows.values()) <= 100_000 / parallelism
    assert len(rows) >= parallelism
    assert len(site.landed_ids()) == 100_000
    site.prove(job_file)


def test_tiny_partitions_share_tasks(site: Site) -> None:
    topic = site.topic(40)
    with Sender(site.servers, topic) as sender:
        sender.send(events(0, 400))  # round-robin
    job_file = site.job_file(table_of(topic))

    site.writer(job_file).drain()

    assert rows_of_tasks(site) == {0: 400}
    assert len(site.files()) == 1
    assert len(last_prepare(site).shards) == 40
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


# --- large values --------------------------------------------------------------------------------


def test_large_values_come_in_bounded_batches(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """As rows alone bound a batch, 65,536 such values would overflow its binary column."""
    topic = site.topic()
    pad = b"x" * 32_000
    values = (event(number)[:-1] + b', "pad": "' + pad + b'"}' for number in range(6_000))
    with Sender(site.servers, topic, **{"compression.type": "lz4"}) as sender:
        sender.send(values, partition=0)
    job_file = site.job_file(table_of(topic))
    monkeypatch.setattr(runner, "land_splits", tasks.measured)

    site.writer(job_file).drain()

    notes = [path.read_text("utf-8").split() for path in site.lake.glob("_measured-*")]
    largest = max(int(batch) for batch, _ in notes)
    memory = max(int(memory) for _, memory in notes)
    assert last_prepare(site).shards[0].size_bytes > 190 * MB
    assert largest < 100 * MB
    assert memory < 900 * MB
    assert site.read().count() == 6_000
    site.prove(job_file)


def test_a_task_of_a_query_that_does_not_tell_is_missed(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its result the rows that it has written would be nowhere, and the batch done."""
    lake = LakeAddress(f"file://{tmp_path}")
    output = replace(OUTPUT, schema="id BIGINT", event_column=None)
    order = RowsOrder(lake, SliceName("job", "numbers"), 1, 0, BatchTime(1), output=output)
    rows = spark.range(0, 30, 1, 3)
    assert [each.task for each in written.run_tasks(written.land_frame(rows, order))] == [0, 1, 2]
    monkeypatch.setattr(written, "land_rows", tasks.land_rows_but_one)
    with pytest.raises(BatchFailed, match=r"tasks \[1\] have not reported"):
        written.run_tasks(written.land_frame(rows, order))
