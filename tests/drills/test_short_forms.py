"""The short form of every drill, as `ashore drill run NAME` plays it."""

from dataclasses import replace

import pytest
from tests.servers import SharedServers

from ashore.jobs.jars import locked
from ashore_lab.drills import SCENARIOS, Drill, DrillOrder, run_drill
from ashore_lab.drills.page import render_page
from ashore_lab.drills.plan import Server
from ashore_lab.drills.scenarios import broker_restart
from ashore_lab.drills.sites.servers import Servers

SEED = 20_261_121
WITHOUT_SPARK = [each for each in SCENARIOS if not each.short.has_spark]
# Each takes a minute, and what it is for is tried every day where it costs less: lost answers at
# every call of tests/integration/test_hdfs_storage.py, late effects at every call of
# tests/crash/test_crash_points.py, failover of a NameNode in tests/spark/test_hdfs_failures.py, a
# lost checkpoint in tests/spark/test_from_savepoint.py, killed drivers in
# tests/spark/test_processes.py, restarted brokers in tests/integration/test_histories.py,
# metastores that are away in tests/spark/test_hive_lake.py; lost nodes, clusters, executors in
# memory.
LONG = (
    "lost-answers",
    "late-effects",
    "namenode-failover",
    "checkpoint-lost",
    "kill-driver",
    "cluster-gone",
    "storage-nodes-down",
    "kill-executor",
    "rolling-restart",
    "metastore-outage",
)
BROKEN = {Server.HDFS: "hdfs", Server.METASTORE: "hive"}


@pytest.fixture
def ready(drill: Drill, servers: Servers, shared_servers: SharedServers) -> Servers:
    """Have what the drill needs up: it is shared, and its start is not the drill's."""
    if drill.short.is_real:
        with locked(shared_servers.directory / "classes", lambda _: None):  # one writes them
            servers.start(drill.needs, has_spark=drill.short.has_spark)
    return servers


def broken_by(drill: Drill) -> set[str]:
    """Return the servers of the run that a drill breaks, if it is a real one."""
    broken = {name for need, name in BROKEN.items() if need in drill.needs}
    broken |= {"mortal_kafka"} if drill is broker_restart.DRILL else set()
    return broken if drill.short.is_real else set()


@pytest.mark.thirds
@pytest.mark.parametrize(
    "drill",
    [
        pytest.param(
            each,
            marks=[pytest.mark.breaks(*broken_by(each))] + [pytest.mark.long] * (each.name in LONG),
        )
        for each in SCENARIOS
    ],
    ids=lambda drill: drill.name,
)
def test_the_short_form_is_green(drill: Drill, ready: Servers) -> None:
    play(drill, ready)


@pytest.mark.long
@pytest.mark.parametrize(
    "drill",
    [pytest.param(each, marks=pytest.mark.breaks(*broken_by(each))) for each in WITHOUT_SPARK],
    ids=lambda drill: drill.name,
)
def test_the_short_form_is_green_on_spark(drill: Drill, ready: Servers) -> None:
    play(replace(drill, short=replace(drill.short, has_spark=True)), ready)


def play(drill: Drill, ready: Servers) -> None:
    verdict = run_drill(DrillOrder(drill, SEED, drill.short), real_sites=ready.site)
    found = [*verdict.problems, *verdict.doubts, *map(str, verdict.timeline.marks)]
    assert verdict.exit_code == 0, "\n".join([str(verdict.figures), *found])
    assert verdict.figures.records >= drill.short.records
    assert verdict.timeline.samples[-1].lag == 0
    assert verdict.timeline.samples[-1].landed == verdict.figures.records
    assert "green: lost 0, duplicated 0" in render_page(verdict)
