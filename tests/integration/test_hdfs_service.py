"""A real HDFS: it serves, and it fails in the ways that it is there for."""

import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hdfs_native import Client
from tests.hdfs_tools import mend

from ashore.base.clock import SystemClock
from ashore.errors import ServiceError
from ashore.jobs.jars import class_path, find_java
from ashore_lab.services import registry
from ashore_lab.services.hdfs import Hdfs, HdfsOptions
from ashore_lab.services.hdfs_ha import NameNodeRole
from ashore_lab.services.ports import is_free
from ashore_lab.services.process import session_members
from ashore_lab.services.proxy import Mode

CLOCK = SystemClock()
HANG_S = 5


def connect(cluster: Hdfs) -> Client:
    return Client(cluster.uri, cluster.client_options())


def write(client: Client, path: str, data: bytes) -> None:
    with client.create(path) as file:
        file.write(data)


def exists(client: Client, path: str) -> bool:
    try:
        client.get_file_info(path)
    except FileNotFoundError:
        return False
    return True


def wait_for(condition: Callable[[], object], attempts: int = 300) -> None:
    ticks = iter(range(attempts))
    while not condition():
        assert next(ticks, None) is not None, "waited too long"
        signal.sigtimedwait([], 0.1)


class Call:
    """A call in a thread of its own, which may never come back."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.ended = threading.Event()
        self.error: BaseException | None = None
        self._call = call
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._call()
        except BaseException as error:  # noqa: BLE001 -- the test looks at it
            self.error = error
        self.ended.set()


@pytest.fixture
def whole(hdfs: Hdfs) -> Iterator[Hdfs]:
    """Hand over a cluster with both NameNodes at work, and mend it afterwards."""
    mend(hdfs)
    yield hdfs
    mend(hdfs)


def test_files_are_written_and_read_and_seen_in_the_audit_log(whole: Hdfs):
    client = connect(whole)
    since = CLOCK.now_ms()
    write(client, "/audited", b"hello")
    assert client.read("/audited").read() == b"hello"
    client.rename("/audited", "/moved")
    with pytest.raises(FileNotFoundError):
        client.get_file_info("/audited")

    info = client.get_file_info("/moved")
    assert info.replication == 2
    seen = [
        (entry.command, entry.source, entry.target)
        for entry in whole.audit_entries(since)
        if entry.user == whole.superuser
    ]
    assert seen[0] == ("create", "/audited", None)
    assert ("open", "/audited", None) in seen
    assert any(call.startswith("rename") and to == "/moved" for call, _, to in seen)
    assert {entry.namenode for entry in whole.audit_entries(since)} == {whole.active()}
    assert whole.audit_entries(CLOCK.now_ms() + 1000) == []


def test_java_reads_what_was_written_with_the_conf_dir_alone(whole: Hdfs):
    write(connect(whole), "/for-java", b"hello, java")
    class_paths = f"{whole.conf_dir}:{class_path('hdfs')}"
    command = (find_java(), "-cp", class_paths, "org.apache.hadoop.fs.FsShell", "-cat", "/for-java")
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    assert answer.stdout.endswith("hello, java")


def test_other_users_are_reported_apart_and_have_no_rights(whole: Hdfs, monkeypatch):
    since = CLOCK.now_ms()
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    with pytest.raises(RuntimeError, match="AccessControlException"):
        write(connect(whole), "/forbidden", b"x")
    seen = {(entry.user, entry.is_allowed) for entry in whole.audit_entries(since)}
    assert seen == {("somebody", False)}


def test_a_client_goes_on_after_a_switch(whole: Hdfs):
    client = connect(whole)
    was = whole.active()
    write(client, "/before-switch", b"x")
    assert whole.switch() == whole.active() != was
    write(client, "/after-switch", b"y")
    assert exists(client, "/before-switch")
    assert whole.switch() == was
    assert exists(client, "/after-switch")


def test_a_client_goes_on_after_the_active_namenode_was_killed(whole: Hdfs):
    client = connect(whole)
    write(client, "/before-kill", b"x")
    killed = whole.active()
    assert killed is not None
    whole.kill_namenode(killed)
    assert whole.active() is None
    assert whole.switch() == 1 - killed
    write(client, "/after-kill", b"y")
    assert exists(client, "/before-kill")

    whole.start_namenode(killed)
    state = whole.state(killed)
    assert state is not None
    assert state.role is NameNodeRole.STANDBY


@pytest.mark.long  # see test_hdfs_storage.py, which freezes them
def test_a_namenode_that_was_frozen_is_refused_by_the_journal(whole: Hdfs):
    client = connect(whole)
    write(client, "/before-freeze", b"x")
    frozen = whole.active()
    assert frozen is not None
    whole.freeze_namenode(frozen)
    assert whole.describe()[f"nn{frozen}"] == "frozen"
    hung = Call(lambda: client.get_file_info("/before-freeze"))
    assert not hung.ended.wait(HANG_S)

    assert whole.switch() == 1 - frozen
    assert whole.active() == 1 - frozen
    whole.thaw_namenode(frozen)
    assert whole.active() == 1 - frozen, "the one that became active last"
    assert hung.ended.wait(30)

    writer = Client(f"hdfs://127.0.0.1:{whole._ports().namenodes[frozen].proxy}", {})
    with pytest.raises(Exception):  # noqa: B017 -- whatever the library makes of it
        writer.mkdirs("/never")
    wait_for(lambda: not whole.processes[2 + frozen].is_alive())
    assert not exists(connect(whole), "/never")


def test_a_call_to_a_black_holed_namenode_hangs_and_arrives_late(whole: Hdfs):
    client = connect(whole)
    write(client, "/hole", b"x")
    active = whole.active()
    assert active is not None
    whole.black_hole(active)
    hung = Call(lambda: client.rename("/hole", "/hole-moved"))
    assert not hung.ended.wait(HANG_S), "no time-out of its own, no failover"
    assert whole.active() == active, "only clients are cut off"

    whole.restore(active)
    assert hung.ended.wait(30)
    assert exists(connect(whole), "/hole-moved")


def test_an_answer_that_is_dropped_was_applied_all_the_same(whole: Hdfs):
    client = connect(whole)
    write(client, "/dropped", b"x")
    active = whole.active()
    assert active is not None
    whole.drop_answers(active)
    with pytest.raises(OSError):
        client.rename("/dropped", "/dropped-moved")
    whole.restore(active)
    assert exists(connect(whole), "/dropped-moved")
    assert not exists(connect(whole), "/dropped")


def test_one_datanode_serves_while_the_other_is_stopped(whole: Hdfs):
    client = connect(whole)
    write(client, "/both", b"x" * 100_000)
    for stopped in (0, 1):
        whole.stop_datanode(stopped)
        assert client.read("/both").read() == b"x" * 100_000
        whole.start_datanode(stopped)


def test_a_space_quota_is_used_up_and_raised(whole: Hdfs):
    client = connect(whole)
    write(client, "/quota/before", b"x")
    whole.set_space_quota("/quota", 1)
    with pytest.raises(RuntimeError, match="DSQuotaExceeded"):
        write(client, "/quota/during", b"x")
    write(client, "/elsewhere", b"x")
    whole.set_space_quota("/quota", None)
    write(client, "/quota/after", b"x")
    with pytest.raises(ServiceError, match="FileNotFoundException"):
        whole.set_space_quota("/no-such-directory", 1)


@pytest.mark.long
def test_stop_leaves_no_process_and_no_port_and_keeps_the_files(tmp_path: Path):
    cluster = Hdfs(tmp_path, HdfsOptions(namenodes=1, datanodes=1))
    with cluster:
        write(connect(cluster), "/kept", b"x")
        cluster.freeze_namenode(0)
        leaders = [process.id() for process in cluster.processes]
        assert len(leaders) == 3
    assert [session_members(leader) for leader in leaders if leader] == [[], [], []]
    ports = cluster._ports()
    own = (ports.namenodes[0], *ports.datanodes, ports.control)
    used = (own[0].rpc, own[0].http, own[0].proxy, *own[1:])
    assert all(map(is_free, used))

    with cluster:
        assert cluster.uri.endswith(f":{ports.namenodes[0].proxy}")
        assert connect(cluster).read("/kept").read() == b"x"
        with pytest.raises(ServiceError, match="no other NameNode"):
            cluster.switch()


@pytest.mark.long  # a client that survives a killed NameNode is tested every day
def test_another_process_finds_breaks_mends_and_stops_it(tmp_path: Path):
    endpoint = registry.up(["hdfs"], tmp_path)["hdfs"]
    try:
        client = Client(config_dir=endpoint["conf_dir"])
        write(client, "/by-conf-dir", b"x")
        active = registry.command("hdfs", "show", (), tmp_path)
        assert active == {"nn0": "active", "nn1": "standby"}
        registry.command("hdfs", "switch", ["1"], tmp_path)
        registry.command("hdfs", "black-hole", ["1"], tmp_path)
        assert registry.command("hdfs", "freeze", ["0"], tmp_path) == {
            "nn0": "frozen",
            "nn1": f"active, {Mode.BLACK_HOLE}",
        }
        assert registry.status(tmp_path)["hdfs"].to_dict()["frozen"] == ["nn0"]
        for action, arguments in (("kill", ["2"]), ("kill", []), ("kill", ["x"]), ("dance", [])):
            with pytest.raises(ServiceError):
                registry.command("hdfs", action, arguments, tmp_path)
        pids = [each.pid for each in registry.status(tmp_path)["hdfs"].processes]
    finally:
        assert registry.down(("hdfs",), tmp_path) == ["hdfs"]
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
    with pytest.raises(ServiceError, match="hdfs is down"):
        registry.command("hdfs", "switch", (), tmp_path)
