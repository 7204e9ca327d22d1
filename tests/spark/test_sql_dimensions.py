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

from ashore.errors import BatchFailed
from ashore.log.progress import BatchLanded, Quiet
from ashore.queries.spark.sql.validate import describe_queries
from ashore.storage import open_storage
from ashore_lab.services.hdfs import Hdfs, HdfsOptions

WAIT_S = 180.0
NAMES = (
    'CREATE TABLE names ("code" VARCHAR(2), "name" VARCHAR(20))',
    "INSERT INTO names VALUES ('DE', 'Germany')",
)
DRIVER = "org.apache.derby.jdbc.EmbeddedDriver"  # which Spark brings along


@contextmanager
def derby(spark: SparkSession, *statements: str) -> Iterator[str]:
    """Make a database in the memory of the JVM, and return how it is reached."""
    url = f"jdbc:derby:memory:{uuid4().hex}"
    execute(spark, f"{url};create=true", statements)
    try:
        yield url
    finally:
        drop(spark, url)


def drop(spark: SparkSession, url: str) -> None:
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
    with derby(site.spark, *NAMES) as url:
        sql = f"""
            CREATE TEMPORARY VIEW names USING jdbc
                OPTIONS (url '{url}', dbtable 'names', driver '{DRIVER}');
            CREATE TEMPORARY VIEW found AS SELECT *, '${{env:PATH}}' AS known FROM names;
            INSERT INTO ods.named SELECT id, name, known
            FROM clicks LEFT JOIN found ON country = code;
        """
        job_file = sql_job(site, sql, read_only(topic), {"table": "ods.named"})
        with running(site, job_file, topic) as job:
            job.land(2)
            execute(site.spark, url, ["INSERT INTO names VALUES ('CN', 'China')"])
            job.land(2)

        job = site.writer(job_file).job
        (described,) = describe_queries(job)
        stream, table = described.sources
        assert (stream.is_streaming, table.is_streaming) == (True, False)
        assert "names" in table.reads
        assert "derby" not in table.reads  # an address may hold a password

    rows = site.read("ods.named").collect()
    named = {row.id: row.name for row in rows}
    assert named == {0: None, 1: "Germany", 2: "Germany", 3: "China"}
    # What Spark writes as ${env:NAME} is from the environment: the way for a password.
    assert {row.known for row in rows if row.name} == {os.environ["PATH"]}
    site.prove(job_file)


def test_a_database_that_is_away_is_waited_for(site: Site) -> None:
    topic, url = site.topic(1), f"jdbc:derby:memory:{uuid4().hex}"
    job_file = naming_job(
        site, topic, f"USING jdbc OPTIONS (url '{url}', dbtable 'names', driver '{DRIVER}')"
    )
    job = site.writer(job_file).job
    with pytest.raises(BatchFailed, match="does not answer: ") as caught:
        describe_queries(job)
    assert "Couldn't connect" in caught.value.message
    assert "\n" not in caught.value.message

    execute(site.spark, f"{url};create=true", NAMES)
    with running(site, job_file, topic) as job:
        job.land(2)
        drop(site.spark, url)
        job.send(2)
        job.reported.wait_for_warning("ods.named: a source of the SQL does not answer: ")
        execute(site.spark, f"{url};create=true", NAMES)
        job.reported.wait_for(4)
    drop(site.spark, url)
    assert read_named(site) == {0: None, 1: "Germany", 2: "Germany", 3: None}
    site.prove(job_file)


def test_a_table_of_the_lake_is_listed_anew(site: Site) -> None:
    names, topic = site.topic(1), site.topic(1)
    schema = "code STRING, name STRING"
    table = {"topic": names, "table": "dim.names", "schema": schema, "partition_by": []}
    names_job = site.job_file(table, job="names")
    land(site, names_job, names, code="DE", name="Germany")
    job_file = naming_job(site, topic, f"USING parquet OPTIONS (path '{site.lake}/dim.db/names')")
    with running(site, job_file, topic) as job:
        job.land(2)
        land(site, names_job, names, code="CN", name="China")
        until_s = time.monotonic() + WAIT_S
        while not any(row.name == "China" for row in site.read("ods.named").collect()):
            assert time.monotonic() < until_s
            job.land(2)
        last = job.land(4)
    named = read_named(site)
    assert named[0] is None  # nobody had landed it yet
    expected = {number: "Germany" if number % 3 else "China" for number in last}
    assert {number: named[number] for number in last} == expected
    site.prove(job_file)


def test_a_directory_that_is_gone_is_not_an_empty_table(site: Site, tmp_path: Path) -> None:
    names, away = tmp_path / "names", tmp_path / "away"
    write_names(site, names, DE="Germany")
    topic = site.topic(1)
    job_file = naming_job(site, topic, f"USING parquet OPTIONS (path '{names}')")
    with running(site, job_file, topic) as job:
        job.land(2)
        names.rename(away)
        reported = job.reported.wait_for_warning("cannot be listed, so the previous list is used: ")
        away.rename(names)
        job.land(2)
    assert str(names) in reported
    assert read_named(site) == {0: None, 1: "Germany", 2: "Germany", 3: None}


@pytest.mark.long  # a directory that is gone is tested every day
def test_files_that_cannot_be_listed_are_reported_of(site: Site, tmp_path: Path) -> None:
    topic = site.topic(1)
    with Hdfs(tmp_path / "hdfs", HdfsOptions(namenodes=1, datanodes=1, heap="512m")) as hdfs:
        open_storage(f"{hdfs.uri}/dim", options=hdfs.client_options()).open_write("_any").close()
        files = f"(code STRING, name STRING) USING parquet OPTIONS (path '{hdfs.uri}/dim')"
        job_file = naming_job(site, topic, files)
        with running(site, job_file, topic) as job:
            job.land(2)
            hdfs.stop()
            reported = job.reported.wait_for_warning(
                "cannot be listed, so the previous list is used: "
            )
            job.land(2)
    assert hdfs.uri.rpartition(":")[2] in reported  # who did not answer
    assert "\n" not in reported


def naming_job(site: Site, topic: str, names: str) -> Path:
    """A job that looks up the name of each click's country in a view: what comes after its name."""
    sql = f"""
        CREATE TEMPORARY VIEW names {names};
        INSERT INTO ods.named SELECT id, name FROM clicks LEFT JOIN names ON country = code;
    """
    return sql_job(site, sql, read_only(topic), {"table": "ods.named"}, refresh="100ms")


def read_named(site: Site) -> dict[int, str | None]:
    return {row.id: row.name for row in site.read("ods.named").collect()}


@contextmanager
def running(site: Site, job_file: Path, topic: str) -> Iterator["Running"]:
    """Run a job that turns each click of a topic into a row, in another thread."""
    reported = Reported()
    job = site.writer(job_file, reported).job.loop(until_drained=False)
    thread = threading.Thread(target=job.run)
    thread.start()
    try:
        yield Running(site, topic, reported)
    finally:
        job.stop()
        thread.join()


class Running:
    """A running job, and the clicks that it was given."""

    def __init__(self, site: Site, topic: str, reported: "Reported") -> None:
        self.reported = reported
        self._site = site
        self._topic = topic
        self._count = 0

    def land(self, count: int) -> range:
        """Produce the next clicks, and wait for their rows. Returns their numbers."""
        numbers = self.send(count)
        self.reported.wait_for(self._count)
        return numbers

    def send(self, count: int) -> range:
        """Produce the next clicks. Returns their numbers."""
        numbers = range(self._count, self._count + count)
        self._site.produce(self._topic, encode(clicks(numbers.start, count)))
        self._count = numbers.stop
        return numbers


def write_names(site: Site, path: Path, **names: str) -> None:
    site.spark.createDataFrame(list(names.items()), "code STRING, name STRING").write.parquet(
        str(path)
    )


def land(site: Site, job_file: Path, topic: str, **row: str) -> None:
    site.produce(topic, [json.dumps(row).encode()])
    run(site, job_file)


class Reported(Quiet):
    """A progress that counts rows, and keeps what it is told of."""

    def __init__(self) -> None:
        self._rows = 0
        self.warnings: list[str] = []
        self._changed = threading.Condition()

    def landed(self, slice_name: str, batch: BatchLanded) -> None:
        with self._changed:
            self._rows += batch.rows
            self._changed.notify_all()

    def wait_for(self, rows: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= rows, WAIT_S), self._rows

    def warn(self, slice_name: str, message: str) -> None:
        with self._changed:
            self.warnings.append(message)
            self._changed.notify_all()

    def wait_for_warning(self, words: str) -> str:
        def find() -> list[str]:
            return [message for message in self.warnings if words in message]

        with self._changed:
            assert self._changed.wait_for(find, WAIT_S), self.warnings
            return find()[0]
