"""Amazon Glue as far as moto has it, in this process.

What it is: `run_glue`, moto's server with what it lacks: the comparison of versions.
What it promises: an update of a table names the version that it was computed from, or changes
nothing, as Amazon documents UpdateTable. moto itself takes no notice of that version, so that this
is no witness of what Amazon's service does.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from moto.glue.exceptions import GlueClientError
from moto.glue.responses import GlueResponse
from moto.server import ThreadedMotoServer

_ONE_AT_A_TIME = threading.Lock()


@contextmanager
def run_glue() -> Iterator[Mapping[str, str]]:
    """Yield the properties of a catalog in it."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(GlueResponse, "update_table", _compare(GlueResponse.update_table))
        server.start()
        try:
            host, port = server.get_host_and_port()
            yield {
                "type": "glue",
                "glue.endpoint": f"http://{host}:{port}",
                "glue.region": "us-east-1",
                "glue.access-key-id": "test",
                "glue.secret-access-key": "not-shown",
            }
        finally:
            server.stop()


def _compare(update: Any) -> Any:
    def update_table(self: GlueResponse) -> Any:
        with _ONE_AT_A_TIME:
            named = self.parameters["DatabaseName"], self.parameters["TableInput"]["Name"]
            there = self.glue_backend.get_table(*named).as_dict()["VersionId"]
            if self.parameters.get("VersionId", there) != there:
                raise GlueClientError(
                    "ConcurrentModificationException",
                    "Update table failed due to concurrent modifications.",
                )
            return update(self)

    return update_table
