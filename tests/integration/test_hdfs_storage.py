"""A lake on a real HDFS whose NameNodes are switched, killed, frozen and cut off."""

import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hdfs_native import Client
from tests.hdfs_tools import active_of, mend
from tests.integration.hdfs_calls import Calls, content
from tests.marks import but

import ashore.storage.open as storage_open
from ashore.base.clock import SystemClock
from ashore.errors import AnswerUnknown, NotApplied, PathExists, PathMissing, StorageError
from ashore.storage import Storage, count_hanging_calls, open_storage
from ashore.storage.base import Staged
from ashore.storage.hdfs_conf import HdfsConf, load_conf
from ashore_lab.services.hdfs import Hdfs

CLOCK = SystemClock()
DEADLINE_S = 6.0  # of a call, with both NameNodes
NAMENODE_S = DEADLINE_S / 2
SLACK_S = 6.0  # two busy cores


@pytest.fixture
def cluster(hdfs: Hdfs) -> Iterator[Hdfs]:
    """Hand over a cluster with both NameNodes at work, and mend it afterwards."""
    mend(hdfs)
    yield hdfs
    mend(hdfs)


def open_lake(
    hdfs: Hdfs, root: str = "", deadline_s: float = DEADLINE_S, **options: str
) -> Storage:
    root = root or f"/lakes/{uuid.uuid4().hex}"
    options = {**hdfs.client_options(), **options}
    return open_storage(f"{hdfs.uri}{root}", deadline_s=deadline_s, options=options)


def load_conf_of(hdfs: Hdfs) -> HdfsConf:
    return load_conf(hdfs.uri.removeprefix("hdfs://"), hdfs.client_options())


def write(storage: Storage, path: str, data: bytes) -> None:
    writer = storage.open_write(path)
    writer.write(data)
    writer.close()


def switch(hdfs: Hdfs) -> None:
    hdfs.switch()
    time.sleep(0.5)
    hdfs.switch()


def kill(hdfs: Hdfs) -> None:
    killed = active_of(hdfs)
    hdfs.kill_namenode(killed)
    time.sleep(1)
    hdfs.switch(1 - killed)
    time.sleep(1)
    hdfs.start_namenode(killed)


def freeze(hdfs: Hdfs) -> None:
    frozen = active_of(hdfs)
    hdfs.freeze_namenode(frozen)
    time.sleep(1)
    hdfs.switch(1 - frozen)
    time.sleep(NAMENODE_S)
    hdfs.thaw_namenode(frozen)  # what hung there arrives now, at one that thinks it is active


def freeze_without_failover(hdfs: Hdfs) -> None:
    frozen = active_of(hdfs)
    hdfs.freeze_namenode(frozen)
    time.sleep(NAMENODE_S + 1)
    hdfs.thaw_namenode(frozen)  # what hung there is applied late, at the active one


def black_hole(hdfs: Hdfs) -> None:
    lost = active_of(hdfs)
    hdfs.black_hole(lost)
    time.sleep(1)
    hdfs.switch(1 - lost)
    time.sleep(NAMENODE_S)
    hdfs.restore(lost)


def drop_answers(hdfs: Hdfs) -> None:
    active = active_of(hdfs)
    for _ in range(30):
        hdfs.drop_answers(active, 1)
        time.sleep(0.05)


EVERYDAY = ("frozen",)  # killed is what the drills and tests/spark/test_hdfs_failures do
FAULTS: dict[str, Callable[[Hdfs], None]] = {
    "switched": switch,
    "killed": kill,
    "frozen": freeze,
    "slow": freeze_without_failover,
    "black-holed": black_hole,
    "answers-dropped": drop_answers,
}


@pytest.mark.parametrize("fault", but(pytest.mark.long, FAULTS, EVERYDAY.__contains__))
def test_every_kind_of_call_goes_on_or_ends(cluster: Hdfs, fault: str) -> None:
    calls = Calls(open_lake(cluster))
    calls.wait_for_progress()
    FAULTS[fault](cluster)
    calls.wait_for_progress()
    calls.stop()
    print(f"{fault}: done {dict(calls.done)}, failed {dict(calls.failed)}")  # noqa: T201
    print({kind: round(longest, 2) for kind, longest in calls.longest_s.items()})  # noqa: T201
    calls.check()
    # Some kinds make several calls a round, each within the deadline.
    for kind in ("stat", "list", "read", "sync"):
        assert calls.longest_s[kind] < DEADLINE_S + SLACK_S


def test_no_namenode_is_active_for_a_while(cluster: Hdfs) -> None:
    calls = Calls(open_lake(cluster, deadline_s=30))
    calls.wait_for_progress()
    active = active_of(cluster)
    cluster._step_down(active)
    assert cluster.active() is None
    time.sleep(3)
    cluster.switch(active)
    calls.wait_for_progress()
    calls.stop()
    calls.check()
    assert calls.errors == [], "whoever is turned away by all waits for one"


def test_both_namenodes_are_away_and_come_back(cluster: Hdfs) -> None:
    storage = open_lake(cluster, deadline_s=90)
    storage.create("a", b"content")
    for index in (0, 1):
        cluster.kill_namenode(index)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(storage.read, "a")
        cluster.start()
        assert reading.result(90) == b"content"
    storage.create("b", b"")
    assert storage.stat("b") is not None


def test_both_namenodes_stay_away(cluster: Hdfs) -> None:
    storage = open_lake(cluster)
    storage.create("a", b"content")
    for index in (0, 1):
        cluster.black_hole(index)
    began, hanging = time.monotonic(), count_hanging_calls()
    with pytest.raises(NotApplied, match="no answer within 3 s"):
        storage.read("a")
    with pytest.raises(AnswerUnknown):
        storage.create("b", b"")
    assert time.monotonic() - began < 2 * DEADLINE_S + SLACK_S
    assert count_hanging_calls() - hanging >= 3
    for index in (0, 1):
        cluster.restore(index)
    assert storage.read("a") == b"content", "by a new connection: the old ones may be dead"
    wait_until(lambda: count_hanging_calls() <= hanging)


def wait_until(condition: Callable[[], bool], within_s: float = 20) -> None:
    end = time.monotonic() + within_s
    while not condition():
        assert time.monotonic() < end, "the condition never came true"
        time.sleep(0.02)


@pytest.mark.parametrize("answers", range(1, 8))
def test_lost_answers_leave_a_created_file_whole_or_absent(cluster: Hdfs, answers: int) -> None:
    storage = open_lake(cluster)
    storage.stat("warm")
    cluster.drop_answers(active_of(cluster), answers)
    try:
        storage.create("log/1", b"x" * 1000)
    except AnswerUnknown:
        assert storage.stat("log/1") is None or storage.read("log/1") == b"x" * 1000
        with suppress(PathExists):
            storage.create("log/1", b"x" * 1000)
    finally:
        cluster.restore(active_of(cluster))
    assert storage.read("log/1") == b"x" * 1000
    with pytest.raises(PathExists):
        storage.create("log/1", b"other")


def test_a_move_whose_answer_was_lost_is_done(cluster: Hdfs) -> None:
    storage = open_lake(cluster)
    write(storage, "pending/a", b"content")
    storage.create("final/there", b"")
    storage.publish(
        Staged("final/there"), "final/known"
    )  # its directory is known: the next is one call
    cluster.drop_answers(active_of(cluster), 1)
    with pytest.raises(AnswerUnknown):
        storage.publish(Staged("pending/a"), "final/a")
    assert storage.read("final/a") == b"content"
    with pytest.raises(PathMissing):
        storage.publish(Staged("pending/a"), "final/a")


@pytest.mark.parametrize(
    "call", but(pytest.mark.long, ["stat", "list", "read"], lambda call: call == "list")
)
def test_what_a_replaced_namenode_tells_does_not_count(cluster: Hdfs, call: str) -> None:
    """It was frozen, another took its place, it wakes: it has a file that was moved meanwhile."""
    root = f"/lakes/{uuid.uuid4().hex}"
    storage = open_lake(cluster, root)
    write(storage, "pending/a", b"content")
    replaced = active_of(cluster)
    active = storage_open._ACTIVE[tuple(load_conf_of(cluster).namenodes.values())]
    cluster.freeze_namenode(replaced)
    cluster.switch(1 - replaced)
    active.set(1 - replaced)
    open_lake(cluster, root).publish(Staged("pending/a"), "final/a")
    cluster.thaw_namenode(replaced)

    # As in a process that asked the replaced one last, and had no answer to one call.
    active.set(replaced)
    active.fail()

    if call == "stat":
        assert storage.stat("pending/a") is None
        assert storage.stat("final/a") is not None
    elif call == "list":
        assert [each.path for each in storage.list("final")] == ["final/a"]
        assert storage.list("pending") == []
    else:
        assert storage.read("final/a") == b"content"
    assert active.doubt is None


def test_a_file_outlives_switches_while_it_is_written(cluster: Hdfs) -> None:
    storage = open_lake(cluster, **{"dfs.blocksize": "1m"})
    writer = storage.open_write("a")
    for _ in range(3):
        writer.write(b"x" * 1_500_000)
        cluster.switch()
    writer.close()
    assert storage.read("a") == b"x" * 4_500_000


@pytest.mark.parametrize("action", [pytest.param("write", marks=pytest.mark.long), "close"])
def test_a_file_does_not_hang_with_its_namenode(cluster: Hdfs, action: str) -> None:
    storage = open_lake(cluster, **{"dfs.blocksize": "1m"})
    writer = storage.open_write("a")
    writer.write(b"x" * 100_000)
    frozen = active_of(cluster)
    cluster.freeze_namenode(frozen)
    began = time.monotonic()
    with pytest.raises(AnswerUnknown):
        writer.write(b"x" * 3_000_000) if action == "write" else writer.close()
    assert time.monotonic() - began < NAMENODE_S + SLACK_S
    with pytest.raises(StorageError):
        writer.close()
    writer.abandon()
    cluster.switch(1 - frozen)
    write(storage, "b", b"written again")
    assert storage.read("b") == b"written again"


def test_an_abandoned_file_is_never_finished(cluster: Hdfs) -> None:
    root = f"/lakes/{uuid.uuid4().hex}"
    storage = open_lake(cluster, root)
    for name in ("finished", "abandoned"):
        writer = storage.open_write(name)
        writer.write(b"half")
        writer.close() if name == "finished" else writer.abandon()
        del writer
    client = Client(cluster.uri, cluster.client_options())
    assert client.recover_lease(f"{root}/finished"), "nobody has it open"
    assert not client.recover_lease(f"{root}/abandoned")


@pytest.mark.long
def test_a_datanode_stops_during_a_write(cluster: Hdfs) -> None:
    storage = open_lake(cluster)
    writer = storage.open_write("a")
    writer.write(b"x" * 1_000_000)
    cluster.stop_datanode(0)
    try:
        writer.write(b"y" * 1_000_000)
        writer.close()
        assert storage.read("a") == b"x" * 1_000_000 + b"y" * 1_000_000
        # The client does not pass over a dead DataNode where a file begins: until the NameNode
        # has noticed, files fail, and are tried again under other names.
        wait_until(lambda: succeeds(lambda: storage.create("log/1", b"entry")), within_s=40)
        assert storage.read("log/1") == b"entry"
    finally:
        cluster.start_datanode(0)


def succeeds(call: Callable[[], object]) -> bool:
    try:
        call()
    except PathExists:
        return True
    except StorageError:
        return False
    return True


def test_many_small_files_are_closed_side_by_side(steady_hdfs: Hdfs) -> None:
    storage = open_lake(steady_hdfs)
    began = time.monotonic()
    with ThreadPoolExecutor(32) as pool:
        list(pool.map(lambda n: write(storage, f"t/{n:03}", content("many", n)), range(64)))
    passed_s = time.monotonic() - began
    assert len(storage.list("t")) == 64
    assert all(storage.read(f"t/{n:03}") == content("many", n) for n in range(64))
    assert passed_s < 15, "one by one it would be 64 waits for the DataNodes"


def test_processes_race_for_one_number(steady_hdfs: Hdfs) -> None:
    root = f"/lakes/{uuid.uuid4().hex}"
    storages = [open_lake(steady_hdfs, root) for _ in range(6)]
    barrier = threading.Barrier(len(storages))

    def append(number: int) -> bool:
        barrier.wait()
        try:
            storages[number].create("log/7", b"%d" % number)
        except PathExists:
            return False
        return True

    with ThreadPoolExecutor(len(storages)) as pool:
        won = list(pool.map(append, range(len(storages))))
    assert sum(won) == 1
    assert storages[0].read("log/7") == b"%d" % won.index(True)
    assert [each.path for each in storages[0].list("log")] == ["log/7"]


def test_the_calls_of_a_steady_commit(steady_hdfs: Hdfs) -> None:
    storage = open_lake(steady_hdfs)
    for name in ("a", "b"):
        write(storage, f"staging/{name}", b"content")
    storage.create("log/1", b"entry")
    storage.sync(["staging"])
    since = CLOCK.now_ms()
    storage.publish(Staged("staging/a"), "final/hour=08/a")
    storage.publish(Staged("staging/b"), "final/hour=08/b")
    storage.sync(["staging", "final/hour=08"])
    storage.create("log/2", b"entry")
    seen = [
        (each.command.partition(" ")[0], each.target) for each in steady_hdfs.audit_entries(since)
    ]
    commands = [command for command, _ in seen]
    assert commands == ["mkdirs", "rename", "rename", "create", "rename"], seen


def test_many_moves_at_once_make_their_directory_once(steady_hdfs: Hdfs) -> None:
    storage = open_lake(steady_hdfs)
    with ThreadPoolExecutor(16) as pool:
        list(pool.map(lambda number: write(storage, f"staging/{number}", b""), range(64)))
        since = CLOCK.now_ms()
        moves = pool.map(
            lambda n: storage.publish(Staged(f"staging/{n}"), f"final/{n % 2}/{n}"), range(64)
        )
        list(moves)
    seen = [each.command.partition(" ")[0] for each in steady_hdfs.audit_entries(since)]
    assert Counter(seen) == {"mkdirs": 2, "rename": 64}


def test_no_right_to_write_is_reported_at_once(
    steady_hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody")
    storage = open_lake(steady_hdfs)
    began = time.monotonic()
    for attempt in (
        lambda: storage.create("a", b""),
        lambda: storage.open_write("a"),
        lambda: storage.publish(Staged("a"), "b"),
    ):
        with pytest.raises(StorageError, match="Permission denied") as caught:
            attempt()
        assert "the process permission" in caught.value.hint
    assert time.monotonic() - began < SLACK_S


def test_files_on_disk_are_synced_block_by_block(steady_hdfs: Hdfs) -> None:
    storage = open_lake(steady_hdfs, **{"dfs.blocksize": "1m", "durability": "disk"})
    data = b"0123456789abcdef" * (2_500_000 // 16)
    write(storage, "a", data)
    write(storage, "full", data[: 1 << 20])
    write(storage, "empty", b"")
    storage.create("entry", b"entry")
    assert storage.read("a") == data
    assert storage.read("full") == data[: 1 << 20]
    assert storage.read("empty") == b""
    assert storage.read("entry") == b"entry"


def test_another_process_opens_by_address_and_conf_dir(
    steady_hdfs: Hdfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = f"/lakes/{uuid.uuid4().hex}"
    open_lake(steady_hdfs, root).create("a", b"content")
    monkeypatch.setenv("HADOOP_CONF_DIR", str(steady_hdfs.conf_dir))
    assert open_storage(f"{steady_hdfs.uri}{root}").read("a") == b"content"
    rpc = steady_hdfs.client_options()[f"dfs.namenode.rpc-address.ashore.nn{steady_hdfs.active()}"]
    assert open_storage(f"hdfs://{rpc}{root}").read("a") == b"content"
