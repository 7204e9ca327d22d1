"""Streams joined with what changes while they run."""

import json
import os
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from tests.spark.site import Site
from tests.spark.sql_jobs import clicks, encode, read_only, run, sql_job

from ashore.landing.committer import Quiet
from ashore.services.hdfs import Hdfs, HdfsOptions
from ashore.spark.sql.validate import describe_queries
from ashore.storage import open_storage

WAIT_S = 180.0
DRIVER = "org.apache.derby.jdbc.EmbeddedDriver"  # which Spark brings along


@contextmanager
def derby(spark: SparkSession, *statements: str) -> Iterator[str]:
    """Make a database in the memory of the JVM, and return how it is reached."""
    url = f"jdbc:derby:memory:{uuid4().hex}"
    execute(spark, f"{url};create=true", statements)
    try:
        yield url
    finally:
        with pytest.raises(Exception, match="dropped"):  # which is how Derby says that it is gone
            execute(spark, f"{url};drop=true", ())


def execute(spark: SparkSession, url: str, statements: Sequence[str]) -> None:
    manager: JavaObject = spark._jvm.java.sql.DriverManager
    connection = manager.getConnection(url)
    try:
        for each in statements:
            connection.createStatement().execute(each)
    finally:
        connection.close()


def test_a_table_of_a_database_is_read_anew_with_each_batch(site: Site) -> None:
    topic = site.topic(1)
    create = 'CREATE TABLE names ("code" VARCHAR(2), "name" VARCHAR(20))'
    first = "INSERT INTO names VALUES ('DE', 'Germany')"
    with derby(site.spark, create, first) as url:
        sql = f"""
            CREATE TEMPORARY VIEW names USING jdbc
                OPTIONS (url '{url}', dbtable 'names', driver '{DRIVER}');
            CREATE TEMPORARY VIEW found AS SELECT *, '${{env:PATH}}' AS known FROM names;
            INSERT INTO ods.named SELECT id, name, known
            FROM clicks LEFT JOIN found ON country = code;
        """
        job_file = sql_job(site, sql, read_only(topic), {"table": "ods.named"})
        landed = Landed()
        with running(site, job_file, landed):
            site.produce(topic, encode(clicks(0, 2)))
            landed.wait_for(2)
            execute(site.spark, url, ["INSERT INTO names VALUES ('CN', 'China')"])
            site.produce(topic, encode(clicks(2, 2)))
            landed.wait_for(4)

        assembly = site.writer(job_file).assembly
        (described,) = describe_queries(assembly.job, assembly.shared, 0.0)
        stream, table = described["sources"]
        assert (stream["is_streaming"], table["is_streaming"]) == (True, False)
        assert "names" in table["reads"]
        assert "derby" not in table["reads"]  # an address may hold a password

    rows = site.read("ods.named").collect()
    named = {row.id: row.name for row in rows}
    assert named == {0: None, 1: "Germany", 2: "Germany", 3: "China"}
    # What Spark writes as ${env:NAME} is from the environment: the way for a password.
    assert {row.known for row in rows if row.name} == {os.environ["PATH"]}
    site.prove(job_file)


def test_a_table_of_the_lake_is_listed_anew(site: Site) -> None:
    names, topic = site.topic(1), site.topic(1)
    schema = "code STRING, name STRING"
    table = {"topic": names, "table": "dim.names", "schema": schema, "partition_by": []}
    names_job = site.job_file(table, job="names")
    land(site, names_job, names, code="DE", name="Germany")
    sql = f"""
        CREATE TEMPORARY VIEW names USING parquet OPTIONS (path '{site.lake}/dim.db/names');
        INSERT INTO ods.named SELECT id, name FROM clicks LEFT JOIN names ON country = code;
    """
    job_file = sql_job(site, sql, read_only(topic), {"table": "ods.named"}, refresh="100ms")
    landed = Landed()
    with running(site, job_file, landed):
        site.produce(topic, encode(clicks(0, 2)))
        landed.wait_for(2)
        land(site, names_job, names, code="CN", name="China")
        count = 2
        until_s = time.monotonic() + WAIT_S
        while not any(row.name == "China" for row in site.read("ods.named").collect()):
            assert time.monotonic() < until_s
            site.produce(topic, encode(clicks(count, 2)))
            count += 2
            landed.wait_for(count)
        site.produce(topic, encode(clicks(count, 4)))
        landed.wait_for(count + 4)
    named = {row.id: row.name for row in site.read("ods.named").collect()}
    assert named[0] is None  # nobody had landed it yet
    last = {number: named[number] for number in range(count, count + 4)}
    assert last == {number: "Germany" if number % 3 else "China" for number in last}
    site.prove(job_file)


def test_files_that_cannot_be_listed_are_told_of(site: Site, tmp_path: Path) -> None:
    topic = site.topic(1)
    with Hdfs(tmp_path / "hdfs", HdfsOptions(namenodes=1, datanodes=1, heap="512m")) as hdfs:
        open_storage(f"{hdfs.uri}/dim", options=hdfs.client_options()).open_write("_any").close()
        sql = f"""
            CREATE TEMPORARY VIEW names (code STRING, name STRING) USING parquet
                OPTIONS (path '{hdfs.uri}/dim');
            INSERT INTO ods.named SELECT id, name FROM clicks LEFT JOIN names ON country = code;
        """
        job_file = sql_job(site, sql, read_only(topic), {"table": "ods.named"}, refresh="100ms")
        landed = Landed()
        with running(site, job_file, landed):
            site.produce(topic, encode(clicks(0, 2)))
            landed.wait_for(2)
            hdfs.stop()
            landed.wait_for_trouble("cannot be listed, the list from before holds: ")
            site.produce(topic, encode(clicks(2, 2)))
            landed.wait_for(4)
    assert hdfs.uri.rpartition(":")[2] in landed.troubles[0]  # who did not answer
    assert "\n" not in landed.troubles[0]


@contextmanager
def running(site: Site, job_file: Path, landed: "Landed") -> Iterator[None]:
    """Run the job in another thread."""
    job = site.writer(job_file, landed).assembly.run(until_drained=False)
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        yield
    finally:
        job.stop()
        thread.join()


def land(site: Site, job_file: Path, topic: str, **row: str) -> None:
    site.produce(topic, [json.dumps(row).encode()])
    run(site, job_file)


class Landed(Quiet):
    """A progress that counts rows, and keeps what it is told of."""

    def __init__(self) -> None:
        self._rows = 0
        self.troubles: list[str] = []
        self._changed = threading.Condition()

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        with self._changed:
            self._rows += rows
            self._changed.notify_all()

    def wait_for(self, rows: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= rows, WAIT_S), self._rows

    def trouble(self, slice_name: str, message: str) -> None:
        with self._changed:
            self.troubles.append(message)
            self._changed.notify_all()

    def wait_for_trouble(self, words: str) -> None:
        def is_told() -> bool:
            return any(words in message for message in self.troubles)

        with self._changed:
            assert self._changed.wait_for(is_told, WAIT_S), self.troubles
