"""The servers of a drill: those of the run that it needs, and what it starts besides."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures_servers import breaks
from tests.servers import SharedServers

from ashore_lab.drills.sites.servers import Servers


@pytest.fixture
def servers(
    request: pytest.FixtureRequest,
    shared_servers: SharedServers,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Servers]:
    """Hand out real sites. What a drill has broken it has mended."""
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    alone = breaks(request.node)
    with Servers(
        tmp_path / "drills",
        shared_servers.mortal_kafka() if "mortal_kafka" in alone else shared_servers.kafka(),
        shared_servers.hdfs() if "hdfs" in alone else None,
        shared_servers.hive() if "hive" in alone else None,
    ) as found:
        yield found
