"""The doctor after real queries of Spark's: what they wrote is neither landed again nor lost."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming import StreamingQuery
from tests.spark.site import SCHEMA, Site, event, events, table_of

from ashore.base.clock import SystemClock
from ashore.proof.doctor.apply import Done, diagnose, treat
from ashore.proof.doctor.observe import FormerAt
from ashore.proof.doctor.repair_plan import Diagnosis
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address
from ashore.topics.open_job import open_job
from ashore_lab.services.hive import Hive

TABLE = "ods.events"
ROOT = Path(__file__).parents[2]


def start_query(site: Site, topic: str, records_a_batch: int = 40) -> StreamingQuery:
    """Start what users have: Kafka, `from_json`, the Parquet file sink."""
    read = (
        site.spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", site.servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", records_a_batch)
    )
    rows = read.load().select(from_json(col("value").cast("string"), SCHEMA).alias("row"))
    writer = rows.select("row.*").writeStream.format("parquet")
    return (
        writer.option("checkpointLocation", str(checkpoint_of(site)))
        .option("path", str(site.path_of(TABLE)))
        .trigger(availableNow=True)
        .start()
    )


def run_query(site: Site, topic: str) -> None:
    query = start_query(site, topic)
    assert query.awaitTermination(120), "the query hangs"


def checkpoint_of(site: Site) -> Path:
    return site.directory / "checkpoint"


def former(site: Site) -> FormerAt:
    return FormerAt(spark_checkpoint=str(checkpoint_of(site)))


def adopt(site: Site, job_file: Path) -> tuple[Diagnosis, list[Done]]:
    """Diagnose, and do it; return what was said before, and what was done."""
    done: list[Done] = []
    with open_job(job_file) as opened:
        said = diagnose(opened, former(site))
        assert not said.refusals, said.refusals
        left = treat(opened, former(site), done.append, takes_over=False)
        assert not left.refusals, left.refusals
    assert [type(each.step) for each in done] == [type(each) for each in said.steps]
    return said, done


def ids(frame: DataFrame) -> Counter[int]:
    return Counter(row[0] for row in frame.select("id").collect())


def sink_log(site: Site) -> set[str]:
    """Return the names in `_spark_metadata`, the hidden ones left out."""
    directory = site.path_of(TABLE) / "_spark_metadata"
    return {path.name for path in directory.iterdir() if not path.name.startswith(".")}


def fetched(site: Site) -> int:
    return sum(shard.fetched for shard in site.fold().shards.values())


def test_after_a_query_that_stopped_the_rest_is_landed(site: Site) -> None:
    """Its log is partly packed, and its batches are of two partitions."""
    topic = site.topic(2)
    site.produce(topic, events(0, 100), partition=0)
    site.produce(topic, events(100, 60), partition=1)
    site.spark.conf.set("spark.sql.streaming.fileSink.log.compactInterval", "3")
    run_query(site, topic)
    assert "2.compact" in sink_log(site)
    site.produce(topic, events(160, 50), partition=0)
    site.produce(topic, events(210, 30), partition=1)
    job_file = site.job_file(table_of(topic))

    adopt(site, job_file)
    site.writer(job_file).drain()

    assert ids(site.read()) == Counter(range(240))  # old and new files, as Spark reads them
    assert fetched(site) == 80
    site.prove(job_file)
    with open_job(job_file) as opened:
        assert not diagnose(opened, FormerAt()).refusals
        (refusal,) = diagnose(opened, former(site)).refusals
    assert "_spark_metadata" in refusal.text


def test_a_batch_that_was_readable_before_the_query_ended_is_not_landed_again(site: Site) -> None:
    """What a kill after the sink's commit, and before the query's, leaves."""
    topic = site.topic()
    site.produce(topic, events(0, 120))
    run_query(site, topic)
    for path in (checkpoint_of(site) / "commits").glob("*2*"):
        path.unlink()
    assert ids(site.read()) == Counter(range(120))
    site.produce(topic, events(120, 10))
    job_file = site.job_file(table_of(topic))

    said, _ = adopt(site, job_file)
    site.writer(job_file).drain()

    assert any("batch 2 is in _spark_metadata" in note for note in said.notes)
    assert ids(site.read()) == Counter(range(130))
    assert fetched(site) == 10
    site.prove(job_file)


KILLED_QUERY = """
import sys
from pyspark.sql.functions import expr
from tests.spark.site import SHORT_LIVED
from ashore.jobs.jars import jar_paths
from ashore.topics.run.spark.session import start_session

servers, topic, checkpoint, path, schema = sys.argv[1:]
spark = start_session("killed", "local[2]", SHORT_LIVED, jar_paths("spark-kafka"))
read = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
read = read.option("subscribe", topic).option("startingOffsets", "earliest")
rows = read.option("maxOffsetsPerTrigger", 40).load().selectExpr(
    f"from_json(cast(value as string), '{schema}') as row",
    "if(offset < 40, 'at once', reflect('java.lang.Thread', 'sleep', 200L)) as slowly",
).where("slowly is not null").select("row.*")
query = rows.writeStream.format("parquet").option("checkpointLocation", checkpoint)
query.option("path", path).start().awaitTermination()
"""


@pytest.mark.long
def test_after_a_query_that_was_killed_in_a_batch(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 120))
    command = [sys.executable, "-c", KILLED_QUERY, site.servers, topic]
    command += [str(checkpoint_of(site)), str(site.path_of(TABLE)), SCHEMA]
    with subprocess.Popen(command, cwd=ROOT, start_new_session=True) as process:
        try:
            wait_until((checkpoint_of(site) / "offsets" / "1").exists, process)
            wait_until(lambda: len(site.files()) > len(named(site)), process)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
    assert sink_log(site) == {"0"}
    strays = set(site.files()) - named(site)
    assert strays
    site.produce(topic, events(120, 10))
    job_file = site.job_file(table_of(topic))

    said, done = adopt(site, job_file)
    site.writer(job_file).drain()

    assert any("batch 1 was begun" in note for note in said.notes)
    assert not any(path.exists() for path in strays)
    assert ids(site.read()) == Counter(range(130))
    assert fetched(site) == 90
    site.prove(job_file)
    aside = next(each for each in done if each.undo)
    subprocess.run(shlex.split(aside.undo), check=True)
    assert any(path.exists() for path in strays)


# --- Connect, and a catalog


def connect_file(site: Site, topic: str, country: str, numbers: range, first: int) -> None:
    """Write a file by hand, with a name as the HDFS sink of Kafka Connect gives it."""
    directory = site.path_of(TABLE) / f"country={country}"
    directory.mkdir(parents=True, exist_ok=True)
    last = first + len(numbers) - 1
    rows = pa.table({"id": list(numbers), "ts": [0] * len(numbers)})
    pq.write_table(rows, directory / f"{topic}+0+{first:010}+{last:010}.parquet")


@pytest.mark.long
def test_after_a_sink_of_connect_the_rest_is_landed_and_its_partitions_are_registered(
    site: Site, hive: Hive
) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 100), partition=0)
    site.produce(topic, [event(number, "FR") for number in range(100, 110)], partition=1)
    connect_file(site, topic, "DE", range(50), 0)
    connect_file(site, topic, "IT", range(50, 80), 50)
    catalog = {"hive": {"uri": hive.uri}}
    job_file = site.job_file(table_of(topic, partition_by=["country"]), catalog=catalog)
    at = FormerAt(connect_table=TABLE)

    with open_job(job_file) as opened:
        assert not treat(opened, at, lambda _: None, takes_over=False).refusals
    assert partitions(hive) == {"DE", "IT"}
    site.writer(job_file).drain()

    assert ids(site.read()) == Counter(range(110))
    assert fetched(site) == 30
    assert partitions(hive) == {"DE", "FR", "IT"}
    site.prove(job_file)


def client_of(hive: Hive) -> HiveClient:
    host, port = hive.uri.removeprefix("thrift://").split(":")
    return HiveClient((Address(host, int(port)),), 60, SystemClock())


def partitions(hive: Hive) -> set[str]:
    """Return the countries that the metastore has partitions of."""
    client = client_of(hive)
    try:
        return {each.values[0] for each in client.call("get_partitions", *TABLE.split("."), 100)}
    finally:
        client.close()


def named(site: Site) -> set[Path]:
    """Return the files that the sink's first batch names."""
    path = site.path_of(TABLE) / "_spark_metadata" / "0"
    lines = path.read_text("utf-8").splitlines()[1:] if path.exists() else []
    return {Path(urlsplit(json.loads(line)["path"]).path) for line in lines}


def wait_until(is_so: Callable[[], bool], process: subprocess.Popen[bytes]) -> None:
    deadline_s = time.monotonic() + 120
    while not is_so():
        assert process.poll() is None, "the query ended"
        assert time.monotonic() < deadline_s, "the query hangs"
        time.sleep(0.01)
