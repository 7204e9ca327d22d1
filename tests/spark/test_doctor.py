"""The doctor after real queries of Spark's: what they wrote is neither landed again nor lost."""

from collections import Counter
from pathlib import Path

from pyspark.sql import DataFrame
from pyspark.sql.functions import col, from_json
from pyspark.sql.streaming import StreamingQuery
from tests.spark.site import SCHEMA, Site, events, table_of

from ashore.control.doctor import Diagnosis, Done, FormerAt, diagnose, treat
from ashore.control.jobs import open_job

TABLE = "ods.events"


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


def test_after_a_query_that_stopped_the_rest_is_landed(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 100), partition=0)
    site.produce(topic, events(100, 60), partition=1)
    run_query(site, topic)
    site.produce(topic, events(160, 50), partition=0)
    site.produce(topic, events(210, 30), partition=1)
    job_file = site.job_file(table_of(topic))

    adopt(site, job_file)
    site.writer(job_file).drain()

    assert ids(site.read()) == Counter(range(240))  # old and new files, as Spark reads them
    assert sum(read.fetched for read in site.fold().shards.values()) == 80
    site.prove(job_file)
