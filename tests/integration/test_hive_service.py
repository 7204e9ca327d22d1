"""A real Hive metastore and a real ZooKeeper: they serve, come back, and leave nothing behind."""

import socket
import struct
import subprocess
from pathlib import Path
from typing import BinaryIO

import pytest
from hdfs_native import Client

from ashore.errors import ServiceError
from ashore.jobs.jars import find_java, pyspark_classpath
from ashore_lab.services import registry
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import CALL, REPLY, Hive, HiveOptions, is_answering
from ashore_lab.services.ports import is_free, is_listening
from ashore_lab.services.process import session_members
from ashore_lab.services.zookeeper import ZooKeeper, is_well

STRING, STRUCT, LIST, STOP = 11, 12, 15, b"\0"


def text(value: str) -> bytes:
    return struct.pack(">i", len(value)) + value.encode()


def call(hive: Hive, method: str, arguments: bytes = b"") -> BinaryIO:
    """Speak Thrift's binary protocol as any client does; return the result's stream."""
    with socket.create_connection(("127.0.0.1", port_of(hive.uri)), 60) as connection:
        head = struct.pack(">I", CALL) + text(method) + struct.pack(">i", 0)
        connection.sendall(head + arguments + STOP)
        answer = connection.makefile("rb")
        kind, name_size = struct.unpack(">Ii", answer.read(8))
        assert (kind, answer.read(name_size)) == (REPLY, method.encode())
        answer.read(4)
        return answer


def list_databases(hive: Hive) -> list[str]:
    with call(hive, "get_all_databases") as answer:
        field, _, element, count = struct.unpack(">bhbi", answer.read(8))
        assert (field, element) == (LIST, STRING)
        sizes = (struct.unpack(">i", answer.read(4))[0] for _ in range(count))
        return sorted(answer.read(size).decode() for size in sizes)


def create_database(hive: Hive, name: str, location: str) -> None:
    database = struct.pack(">bh", STRING, 1) + text(name)
    database += struct.pack(">bh", STRING, 3) + text(location) + STOP
    with call(hive, "create_database", struct.pack(">bh", STRUCT, 1) + database) as answer:
        assert answer.read(1) == STOP, "no error"


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def run_zookeeper(server: ZooKeeper, *words: str) -> str:
    main = "org.apache.zookeeper.ZooKeeperMain"
    command = (find_java(), "-cp", pyspark_classpath(), main, "-server", server.connect, *words)
    answer = subprocess.run(command, capture_output=True, text=True, check=True)
    return answer.stdout


def test_databases_last_through_a_kill(hive: Hive):
    before = list_databases(hive)
    assert "default" in before
    create_database(hive, "killed", hive.warehouse.as_uri() + "/killed.db")
    hive.kill()
    assert not is_answering(port_of(hive.uri))
    hive.start()
    assert list_databases(hive) == sorted([*before, "killed"])


def test_a_database_on_hdfs_gets_its_directory(hive: Hive, hdfs: Hdfs):
    create_database(hive, "lake", f"{hdfs.uri}/hive-lake/lake.db")
    assert Client(hdfs.uri, hdfs.client_options()).get_file_info("/hive-lake/lake.db").isdir


def test_a_metastore_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path):
    with pytest.raises(ServiceError, match="Too small maximum heap"):
        Hive(tmp_path, HiveOptions(heap="1k")).start()


def test_nodes_last_through_a_kill(zookeeper: ZooKeeper):
    run_zookeeper(zookeeper, "create", "/harbour", "ships")
    zookeeper.kill()
    assert not is_well(port_of(zookeeper.connect))
    zookeeper.start()
    assert "ships" in run_zookeeper(zookeeper, "get", "/harbour")


@pytest.mark.long  # see test_services.py
def test_another_process_finds_and_stops_them(tmp_path: Path):
    endpoints = registry.up(["hive", "zookeeper"], tmp_path)
    try:
        assert endpoints["hive"]["uri"].startswith("thrift://127.0.0.1:")
        assert is_answering(port_of(endpoints["hive"]["uri"]))
        assert is_well(port_of(endpoints["zookeeper"]["connect"]))
        hive = Hive(tmp_path / "hive")
        hive.process.freeze()
        assert is_listening(port_of(hive.uri))
        assert not is_answering(port_of(hive.uri))
        assert registry.status(tmp_path)["hive"].to_dict()["frozen"] == ["hive"]
        leaders = [hive.process.id(), ZooKeeper(tmp_path / "zookeeper").process.id()]
    finally:
        assert registry.down((), tmp_path) == ["hive", "zookeeper"]
    assert [session_members(leader) for leader in leaders if leader] == [[], []]
    assert is_free(port_of(endpoints["hive"]["uri"]))
    assert is_free(port_of(endpoints["zookeeper"]["connect"]))
