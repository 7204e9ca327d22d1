"""The servers of all drills of this folder: each is started once, by the first that needs it."""

from collections.abc import Iterator

import pytest

from ashore.drills.sites.servers import Servers
from ashore.services.kafka import Kafka


@pytest.fixture(scope="package")
def servers(kafka: Kafka, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """Hand out real sites, on the session's broker. What a drill has broken it has mended."""
    directory = tmp_path_factory.mktemp("drills")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ASHORE_HOME", str(directory / "home"))
        with Servers(directory, kafka) as found:
            yield found
