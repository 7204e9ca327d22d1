"""Real servers for tests, one of each per session."""

from collections.abc import Iterator

import pytest

from ashore.services.hdfs import Hdfs
from ashore.services.hive import Hive
from ashore.services.kafka import Kafka
from ashore.services.zookeeper import ZooKeeper
from ashore.sources.consumer import is_native


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Run one broker for the session. Tests share it: topics need names of their own."""
    with Kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker


@pytest.fixture(scope="session")
def hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    """Run one HDFS for the session. Tests share it: who breaks it mends it."""
    with Hdfs(tmp_path_factory.mktemp("hdfs")) as cluster:
        yield cluster


@pytest.fixture(scope="session")
def hive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hive]:
    """Run one Hive metastore for the session. Tests share it: databases need names of their own."""
    with Hive(tmp_path_factory.mktemp("hive")) as metastore:
        yield metastore


@pytest.fixture(scope="session")
def zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeper]:
    """Run one ZooKeeper for the session. Tests share it: paths need names of their own."""
    with ZooKeeper(tmp_path_factory.mktemp("zookeeper")) as server:
        yield server


@pytest.fixture(params=["native", "messages"])
def consumer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read through either consumer, in this process."""
    if request.param == "messages":
        monkeypatch.setattr("ashore.sources.consumer.load", lambda: None)
    else:
        assert is_native(), "no C compiler built the native consumer"
