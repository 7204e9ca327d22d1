"""Real servers for tests, one of each a run. See tests/servers.py.

Who asks for `hdfs`, `hive`, `zookeeper` or `mortal_kafka` has it alone: others may break it; and
who asks for `steady_hdfs`, which nobody breaks, for the sake of those who count its calls. Such
tests are a group for xdist (`--dist loadgroup`), so that no worker waits for another; and so are
the tests that share what a module has made.
"""

from pathlib import Path
from typing import Any

import pytest
from tests.azure import Azure
from tests.servers import ALONE, SharedServers

from ashore.topics.read import native
from ashore.topics.read.reading import ANY
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.s3 import S3
from ashore_lab.services.zookeeper import ZooKeeper

SERVERS = pytest.StashKey[SharedServers]()


def pytest_sessionstart(session: pytest.Session) -> None:
    config = session.config
    given = getattr(config, "workerinput", {}).get("servers")
    directory = Path(given) if given else config._tmp_path_factory.mktemp("servers")  # type: ignore[attr-defined]
    config.stash[SERVERS] = SharedServers(directory)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a worker of xdist where the servers of the run are."""
    node.workerinput["servers"] = str(node.config.stash[SERVERS].directory)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Stop the servers when the workers have ended, also by Ctrl-C, or have crashed."""
    if not hasattr(session.config, "workerinput") and SERVERS in session.config.stash:
        session.config.stash[SERVERS].stop()


def breaks(item: pytest.Item) -> set[str]:
    """Return the servers that a test has alone."""
    marked = {name for mark in item.iter_markers("breaks") for name in mark.args}
    return marked.union(ALONE) & marked.union(getattr(item, "fixturenames", ()))


def group_of(item: pytest.Item) -> str | None:
    """Return what a test is kept together with, if anything."""
    for name in ALONE:
        if name in breaks(item):
            return name
    info = getattr(item, "_fixtureinfo", None)
    found = [each[-1] for each in info.name2fixturedefs.values()] if info else []
    return str(item.path) if any(each.scope == "module" for each in found) else None


def turn_of(item: pytest.Item) -> int:
    """Return when a test comes: a group is for one worker, so a late one would be waited for.

    The run has to hand out tests in their order (`--no-loadscope-reorder`). Lower ones come first.
    """
    if item.get_closest_marker("early"):
        return 0
    group = group_of(item)
    if group is None:
        return len(ALONE) + 2
    return 1 + (ALONE.index(group) if group in ALONE else len(ALONE))


@pytest.hookimpl(tryfirst=True)  # xdist reads the groups in a hook of its own
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    items.sort(key=turn_of)
    for item in items:
        if group := group_of(item):
            item.add_marker(pytest.mark.xdist_group(group))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Any:
    """Wait for servers before the time of a test begins to run."""
    with item.config.stash[SERVERS].alone(breaks(item)):
        return (yield)


@pytest.fixture(scope="session")
def shared_servers(request: pytest.FixtureRequest) -> SharedServers:
    return request.config.stash[SERVERS]


@pytest.fixture(scope="session")
def kafka(shared_servers: SharedServers) -> Kafka:
    """The broker of the run. Tests share it: topics need names of their own."""
    return shared_servers.kafka()


@pytest.fixture
def mortal_kafka(shared_servers: SharedServers) -> Kafka:
    """Another broker, for one test at a time, which may kill it."""
    return shared_servers.mortal_kafka()


@pytest.fixture(scope="session")
def hdfs(shared_servers: SharedServers) -> Hdfs:
    """The HDFS of the run, for one test at a time: who breaks it mends it."""
    return shared_servers.hdfs()


@pytest.fixture(scope="session")
def steady_hdfs(shared_servers: SharedServers) -> Hdfs:
    """Another HDFS, for one test at a time, which leaves it whole."""
    return shared_servers.steady_hdfs()


@pytest.fixture(scope="session")
def hive(shared_servers: SharedServers) -> Hive:
    """The metastore of the run, for one test at a time. Databases need names of their own."""
    return shared_servers.hive()


@pytest.fixture(scope="session")
def s3(shared_servers: SharedServers) -> S3:
    """The server of S3 of the run. Tests share it: lakes need prefixes of their own."""
    return shared_servers.s3()


@pytest.fixture(scope="session")
def azure(shared_servers: SharedServers) -> Azure:
    """The server of Azure of the run. Tests share it: lakes need prefixes of their own."""
    return shared_servers.azure()


@pytest.fixture(scope="session")
def zookeeper(shared_servers: SharedServers) -> ZooKeeper:
    """The ZooKeeper of the run, for one test at a time. Paths need names of their own."""
    return shared_servers.zookeeper()


READERS = ("native", "python")


@pytest.fixture(params=READERS)
def consumer(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read by each reader, in this process; `native` gives up only what it must."""
    if request.param == "native":
        assert native.load_module() is not None, (
            "the package ashore-native is not built: make setup"
        )
        monkeypatch.setattr("ashore.topics.read.reading.AGAIN", ANY)
        return
    monkeypatch.setattr("ashore.topics.read.native.load_module", lambda: None)
