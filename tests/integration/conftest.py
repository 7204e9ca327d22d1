"""What several tests of servers begin with."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.served import ServedJob, kill_jobs

from ashore_lab.services.kafka import Kafka


@pytest.fixture
def site(kafka: Kafka, tmp_path: Path) -> Iterator[ServedJob]:
    """Return a directory with the file of one job; what a server has left of it is killed."""
    made = ServedJob(tmp_path, kafka.bootstrap_servers)
    try:
        yield made
    finally:
        kill_jobs(made.files)
