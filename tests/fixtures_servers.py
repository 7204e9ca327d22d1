"""Real servers for tests, one of each per session."""

from collections.abc import Iterator

import pytest

from ashore.services.kafka import Kafka


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kafka]:
    """Run one broker for the session. Tests share it: topics need names of their own."""
    with Kafka(tmp_path_factory.mktemp("kafka")) as broker:
        yield broker
