"""Streams joined with what changes while they run."""

import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import uuid4

import pytest
from py4j.java_gateway import JavaObject
from pyspark.sql import SparkSession
from tests.spark.site import Site
from tests.spark.sql_jobs import clicks, encode, read_only, sql_job

from ashore.landing.committer import Quiet
from ashore.spark.sql.validate import describe_queries

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
        job = site.writer(job_file, landed).assembly.run(until_drained=False)
        thread = threading.Thread(target=job.run)
        thread.start()
        try:
            site.produce(topic, encode(clicks(0, 2)))
            landed.wait_for(2)
            execute(site.spark, url, ["INSERT INTO names VALUES ('CN', 'China')"])
            site.produce(topic, encode(clicks(2, 2)))
            landed.wait_for(4)
        finally:
            job.stop()
            thread.join()

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


class Landed(Quiet):
    """A progress that counts rows."""

    def __init__(self) -> None:
        self._rows = 0
        self._changed = threading.Condition()

    def landed(self, slice_name: str, rows: int, files: int, lag: int) -> None:
        with self._changed:
            self._rows += rows
            self._changed.notify_all()

    def wait_for(self, rows: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: self._rows >= rows, WAIT_S), self._rows
