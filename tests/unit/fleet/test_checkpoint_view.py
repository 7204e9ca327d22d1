"""The page of checkpoints: a query that has just started has none, which is no error."""

import pytest
from tests.unit.jobs.test_sql import SQL_JOB
from tests.unit.jobs.texts import job
from tests.unit.proof.test_queries import World

from ashore.errors import CheckpointUnfit
from ashore.fleet.server.pages import checkpoint_view
from ashore.fleet.server.pages.checkpoint_view import look_at_checkpoints
from ashore.storage import MemoryStorage
from ashore.topics.open_job import OpenJob
from ashore_lab.testing import FakeClock, RecordedSource


def test_a_query_without_a_batch_has_no_checkpoint_yet(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_checkpoint(*_: object) -> None:
        raise CheckpointUnfit("the query that fills ods.big has no checkpoint yet")

    monkeypatch.setattr(checkpoint_view, "inspect", no_checkpoint)
    clock = FakeClock()
    source = RecordedSource("kafka", clock)
    opened = OpenJob(job(SQL_JOB), MemoryStorage(clock), source, clock)
    (view,) = look_at_checkpoints(opened)
    assert (view["is_new"], view["error"]) == (True, None)


def test_a_query_with_a_batch_and_without_a_checkpoint_is_an_error() -> None:
    (view,) = look_at_checkpoints(World().opened)
    assert view["is_new"] is False
    assert view["error"] is not None
