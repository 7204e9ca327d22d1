"""A whole job on a lake in HDFS, while files are written and while moves are in flight.

NameNodes are frozen, cut off and killed, with and without another one to go on with; a DataNode
stops. Each fault is made at the moment that it is for: `strike` sees to it. The jobs run without
Spark, whose tasks would write by the same code: test_hdfs_lake.py has jobs on Spark.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from tests.hdfs_tools import active_of, mend
from tests.spark.hdfs_lake import Lake, Running, is_writing, now_ms, wait_until

from ashore.jobs.failure import Failed
from ashore.log.names import SliceName
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.kafka import Kafka

PARTS = 40  # so many files a task: writing and moving take long enough to be interrupted
COUNT = 400  # records to each partition of the topic, a batch
DEADLINE_S = 6.0
NAMENODE_S = DEADLINE_S / 2  # what each NameNode has of it
SILENCE_S = 1.5  # longer than what was struck takes when nothing is broken
STRIKES_MAX = 5


@pytest.fixture
def cluster(hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Hdfs]:
    """Hand over a cluster with both NameNodes at work, and mend it afterwards."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(hdfs.conf_dir))
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    mend(hdfs)
    yield hdfs
    mend(hdfs)


@pytest.fixture
def lake(kafka: Kafka, cluster: Hdfs, tmp_path: Path) -> Lake:
    """Hand over a job of its own, with a short deadline and some records to begin with."""
    name = f"failures_{uuid4().hex[:8]}"
    lake = Lake(kafka, name, tmp_path, parts=PARTS, deadline=f"{DEADLINE_S:g}s")
    lake.produce(COUNT)
    return lake


@dataclass(frozen=True)
class Moment:
    """When a fault is made: after `begins` is told, before `ends` is."""

    begins: str
    ends: str


WRITE = Moment("write", "prepare")  # step 2: files are written
MOVE = Moment("move", "landed")  # step 4: an entry is unclosed, its moves are in flight
Fault = Callable[[Hdfs], object]


def strike(lake: Lake, job: Running, cluster: Hdfs, moment: Moment, fault: Fault) -> None:
    """Produce a batch and break the cluster in the middle of a step.

    Where the step was over before the fault was made, mend it and try with another batch.
    """
    for _ in range(STRIKES_MAX):
        job.forget()
        began_ms = now_ms()
        lake.produce(COUNT)
        job.wait_for(moment.begins)
        if moment is WRITE:
            wait_until(lambda: is_writing(cluster, lake, began_ms), "a file is begun")  # noqa: B023
        fault(cluster)
        if job.find(moment.ends, SILENCE_S) is None:
            return
        mend(cluster)
        if moment.ends != "landed":
            job.wait_for("landed")
    raise AssertionError(f"{moment.begins} was over before the fault, {STRIKES_MAX} times")


@dataclass(frozen=True)
class Outage:
    """How one NameNode stops answering, and how it comes back with what hung there."""

    begin: Callable[[Hdfs, int], None]
    end: Callable[[Hdfs, int], None]


FROZEN = Outage(Hdfs.freeze_namenode, Hdfs.thaw_namenode)
BLACK_HOLED = Outage(Hdfs.black_hole, Hdfs.restore)


@pytest.mark.thirds("a job on HDFS")
@pytest.mark.parametrize(
    "outage",
    [
        pytest.param(FROZEN, id="frozen"),
        pytest.param(BLACK_HOLED, id="black_holed", marks=pytest.mark.long),
    ],
)
def test_a_job_goes_on_with_the_other_namenode(lake: Lake, cluster: Hdfs, outage: Outage) -> None:
    with lake.running() as job:
        job.wait_for("landed")
        for moment in (WRITE, MOVE):
            gone = active_of(cluster)
            strike(lake, job, cluster, moment, lambda hdfs: outage.begin(hdfs, gone))  # noqa: B023
            cluster.switch(1 - gone)
            landed = job.wait_for("landed")
            assert landed.hanging, "what was given up and still hangs is counted"
            outage.end(cluster, gone)  # what hung there arrives now, where nobody heeds it
            mend(cluster)
        lake.wait_until_read()
        assert job.stop() == 0
    lake.prove()


@pytest.mark.thirds("a job on HDFS")
def test_moves_that_are_applied_late_harm_nothing(lake: Lake, cluster: Hdfs) -> None:
    frozen = active_of(cluster)
    with lake.running() as job:
        job.wait_for("landed")
        strike(lake, job, cluster, MOVE, lambda hdfs: hdfs.freeze_namenode(frozen))
        time.sleep(NAMENODE_S)  # and no other one is active: the moves are given up
        cluster.thaw_namenode(frozen)
        job.wait_for("landed")
        lake.wait_until_read()
        assert job.stop() == 0
    lake.prove()
    assert count_moved_already(lake) > 0


def count_moved_already(lake: Lake) -> int:
    with open_job(lake.job_file) as opened:
        entries = list(read_history(opened.storage, SliceName(lake.topic, "main")))
    return sum(entry.closing.already_moved for entry in entries if entry.closing)


@pytest.mark.long
def test_a_job_outlasts_both_namenodes(lake: Lake, cluster: Hdfs) -> None:
    with lake.running() as job:
        job.wait_for("landed")
        strike(lake, job, cluster, WRITE, black_hole_both)
        time.sleep(DEADLINE_S + 1)
        mend(cluster)
        job.wait_for("landed")
        strike(lake, job, cluster, MOVE, kill_both)
        time.sleep(DEADLINE_S + 1)
        mend(cluster)
        job.wait_for("landed")
        lake.wait_until_read()
        assert job.stop() == 0
    lake.prove()


def black_hole_both(hdfs: Hdfs) -> None:
    for index in (0, 1):
        hdfs.black_hole(index)


def kill_both(hdfs: Hdfs) -> None:
    for index in (0, 1):
        hdfs.kill_namenode(index)


@pytest.mark.long
def test_a_start_without_a_namenode_fails_and_the_next_one_lands(lake: Lake, cluster: Hdfs) -> None:
    black_hole_both(cluster)
    with lake.running() as job:
        assert job.wait() == 1  # "failed; a later try may succeed"
        error = job.seen[-1]
        assert isinstance(error, Failed)
        assert "no answer within" in error.message
    mend(cluster)
    lake.drain()
    lake.prove()


@pytest.mark.long
def test_a_datanode_stops_while_files_are_written(lake: Lake, cluster: Hdfs) -> None:
    with lake.running() as job:
        job.wait_for("landed")
        strike(lake, job, cluster, WRITE, lambda hdfs: hdfs.stop_datanode(0))
        job.wait_for("landed")
        lake.produce(COUNT)
        job.wait_for("landed")  # with the one that is left
        cluster.start_datanode(0)
        lake.wait_until_read()
        assert job.stop() == 0
    lake.prove()
