"""One Spark session a worker, and a lake of its own for each test of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.spark import tasks
from tests.spark.programs import Use
from tests.spark.site import SHARED, Site

from ashore.jobs.class_archive import find_options
from ashore.jobs.jars import jar_paths
from ashore.topics.run.spark.session import start_session, with_java_options
from ashore_lab.drills.sites.ahead import Ahead
from ashore_lab.services.kafka import Kafka

cloudpickle.register_pickle_by_value(tasks)  # executors cannot import tests


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start the session that all tests in this process share. Tasks are tried three times."""
    conf = with_java_options(SHARED, find_options())
    session = start_session("tests", "local[2,3]", conf, jar_paths("spark-kafka"))
    yield session
    session.stop()


@pytest.fixture
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    return tmp_path


@pytest.fixture
def site(kafka: Kafka, spark: SparkSession, own_home: Path) -> Iterator[Site]:
    """Lay out a lake of its own, with writers in this process."""
    with Site(own_home, kafka.bootstrap_servers, spark) as site:
        yield site


@pytest.fixture
def mortal_site(mortal_kafka: Kafka, spark: SparkSession, own_home: Path) -> Iterator[Site]:
    """Lay out a lake of its own, whose broker may be killed."""
    with Site(own_home, mortal_kafka.bootstrap_servers, spark) as site:
        yield site


@pytest.fixture
def ahead() -> Iterator[Ahead]:
    """Start processes of jobs before it is their turn: while others are at work."""
    ahead = Ahead({})
    yield ahead
    ahead.close()


@pytest.fixture
def use(spark: SparkSession) -> Iterator[Use]:
    """Set settings of the session, until the test ends."""
    before: dict[str, str | None] = {}

    def set_all(wanted: dict[str, str]) -> None:
        for name, value in wanted.items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, value)

    yield set_all
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)
