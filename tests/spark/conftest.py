"""One Spark session, one broker and one lake for each test of this folder."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark import cloudpickle
from pyspark.sql import SparkSession
from tests.spark import tasks
from tests.spark.site import SHORT_LIVED, Site

from ashore.jobs.jars import jar_paths
from ashore.services.kafka import Kafka, KafkaOptions
from ashore.spark.session import start_session

# Compaction would otherwise be waited for; and some tests restart the broker.
IMPATIENT = KafkaOptions(
    settings={
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "100",
    }
)

cloudpickle.register_pickle_by_value(tasks)  # executors cannot import tests


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Run the folder's own broker. Tests share it: topics need names of their own."""
    with Kafka(tmp_path_factory.mktemp("kafka"), IMPATIENT) as broker:
        yield broker


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Start the session that all tests in this process share. Tasks are tried three times."""
    session = start_session("tests", "local[2,3]", SHORT_LIVED, jar_paths("spark-kafka"))
    yield session
    session.stop()


@pytest.fixture
def site(
    kafka: Kafka, spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    """Lay out a lake of its own, with writers in this process."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    with Site(tmp_path, kafka.bootstrap_servers, spark) as site:
        yield site
