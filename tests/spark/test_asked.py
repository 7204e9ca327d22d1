"""A query that runs is asked: to wait between two batches, and to stop once its batch is over."""

import threading
import time

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import clicks, encode, read_only, sql_job

from ashore.checkpoints.checkpoint import Checkpoint
from ashore.landing.log_reader import read_history
from ashore.protocol.entries import Prepare
from ashore.protocol.names import SliceName
from ashore.spark.sql.query import SqlQuery

ALL = "INSERT INTO ods.all SELECT id, country FROM clicks;"
GRACE_S = 1.0
WITHIN_S = 120.0


class Held:
    """Batches that wait until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        land = SqlQuery._land

        def held(query: SqlQuery, *batch: object) -> None:
            self.began.set()
            assert self.go.wait(WITHIN_S)
            land(query, *batch)

        monkeypatch.setattr(SqlQuery, "_land", held)

    def wait(self) -> None:
        assert self.began.wait(WITHIN_S)


def test_somebody_looks_between_two_batches_and_a_stop_finishes_the_second(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 10)))
    grace = f"{GRACE_S:.0f}s"
    job_file = sql_job(site, ALL, read_only(topic), {"table": "ods.all"}, grace=grace)
    held = Held(monkeypatch)
    loop = site.writer(job_file).job.loop(until_drained=False)
    (query,) = loop.queries
    assert isinstance(query, SqlQuery)
    seen: list[int] = []

    def landed() -> int:
        history = read_history(site.storage, SliceName("landing", "ods__all"))
        return sum(isinstance(entry.body, Prepare) for entry in history)

    def look(checkpoint: Checkpoint) -> str:
        held.go.clear()
        held.began.clear()
        seen.append(landed())
        time.sleep(2)  # records wait, and a batch is due each 300 ms
        seen.append(landed())
        assert not held.began.is_set()
        return checkpoint.path

    looked: list[str] = []
    runner = threading.Thread(target=loop.run)
    looker = threading.Thread(target=lambda: looked.append(query.between_batches(look)))
    runner.start()
    try:
        held.wait()
        looker.start()
        site.produce(topic, encode(clicks(10, 10)))
        time.sleep(0.5)
        assert seen == [], "a batch is under way"
        held.go.set()
        looker.join(WITHIN_S)
        assert seen == [1, 1]
        assert looked == [query._checkpoint.path]

        held.wait()
        loop.stop(finishes=True)
        time.sleep(2 * GRACE_S)
        assert runner.is_alive()
        held.go.set()
        runner.join(WITHIN_S)
    finally:
        held.go.set()
        loop.stop()
        runner.join(WITHIN_S)
    assert not runner.is_alive()
    assert landed() == 2
    assert sorted(row["id"] for row in site.read("ods.all").collect()) == list(range(20))
