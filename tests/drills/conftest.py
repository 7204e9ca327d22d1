"""One broker for all drills on real servers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ashore.drills.sites.servers import Servers
from ashore.services.kafka import Kafka


@pytest.fixture
def servers(kafka: Kafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    """Hand out real sites in a directory of this test, on the session's broker."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    with Servers(tmp_path / "servers", kafka) as found:
        yield found
