"""A query that runs is asked: to wait between two batches, for a savepoint, and to stop."""

import threading
import time
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import clicks, encode, read_only, sql_job

from ashore.base.clock import SystemClock
from ashore.errors import NotDone
from ashore.jobs.requests import (
    TAKE_SAVEPOINT,
    SavepointDone,
    SavepointRequest,
    read_request,
    write_request,
)
from ashore.log.entries import Prepare
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.queries.spark.main import verbs_of
from ashore.queries.spark.sql.batches import QueryBatches
from ashore.queries.spark.sql.sql_query import SqlQuery
from ashore.queries.state.checkpoint import Checkpoint
from ashore.queries.tools.savepoints import find_savepoint, verify_savepoint

ALL = "INSERT INTO ods.all SELECT id, country FROM clicks;"
GRACE_S = 1.0
WITHIN_S = 120.0


class Held:
    """Batches that wait until they may go on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.began, self.go = threading.Event(), threading.Event()
        land = QueryBatches._land

        def held(query: QueryBatches, *batch: object) -> None:
            self.began.set()
            assert self.go.wait(WITHIN_S)
            land(query, *batch)

        monkeypatch.setattr(QueryBatches, "_land", held)

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
        assert looked == [query._batches.checkpoint.path]

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


def test_a_savepoint_is_that_of_the_batch_under_way_and_the_job_goes_on(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(clicks(0, 10)))
    job_file = sql_job(site, ALL, read_only(topic), {"table": "ods.all"}, grace="1s")
    held = Held(monkeypatch)
    job = site.writer(job_file).job
    loop = job.loop(until_drained=False)
    act = verbs_of(job, loop)[TAKE_SAVEPOINT].act
    with pytest.raises(NotDone, match="runs no query ods__other"):
        act(write_request(SavepointRequest("ods__other", f"file://{tmp_path}/saved", True)))
    asked = write_request(SavepointRequest("ods__all", f"file://{tmp_path}/saved", True))
    answers: list[str] = []
    runner = threading.Thread(target=loop.run)
    asker = threading.Thread(target=lambda: answers.append(act(asked)))
    runner.start()
    try:
        held.wait()
        asker.start()
        time.sleep(1)
        assert answers == [], "the batch under way is waited for"
        held.go.set()
        asker.join(WITHIN_S)
        site.produce(topic, encode(clicks(10, 10)))
        until_s = time.monotonic() + WITHIN_S
        while loop.queries[0].batches_landed < 2 and time.monotonic() < until_s:
            time.sleep(0.1)
        assert runner.is_alive()
    finally:
        held.go.set()
        loop.stop()
        runner.join(WITHIN_S)
    done = read_request(SavepointDone, answers[0])
    manifest, wrong = verify_savepoint(find_savepoint(done.place, SystemClock()), lambda *_: None)
    assert (manifest.batch, wrong) == (0, [])
    assert sorted(row["id"] for row in site.read("ods.all").collect()) == list(range(20))
