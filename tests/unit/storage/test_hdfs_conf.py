"""Where the NameNodes are, by Hadoop's files and by keys that are handed in."""

import pickle
from collections.abc import Mapping
from pathlib import Path
from xml.sax.saxutils import escape

import pytest

import ashore.storage.open as storage_open
from ashore.errors import JobFileInvalid
from ashore.storage.failover import ActiveServer
from ashore.storage.hdfs_conf import HdfsConf, load_conf
from ashore.storage.open import LakeAddress, lake_address

HA = {
    "dfs.nameservices": "east, west",
    "dfs.ha.namenodes.east": "nn1, nn2",
    "dfs.namenode.rpc-address.east.nn1": "one:8020",
    "dfs.namenode.rpc-address.east.nn2": "two:8020",
    "dfs.namenode.rpc-address.west": "three:8020",
}


def write_conf(directory: Path, name: str, settings: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{key}</name><value> {escape(value)}\n</value></property>"
        for key, value in settings.items()
    )
    text = f'<?xml version="1.0"?>\n<configuration>{properties}</configuration>\n'
    (directory / name).write_text(text, "utf-8")


@pytest.fixture(autouse=True)
def _no_conf_dir(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)


def load(**options: str) -> HdfsConf:
    return load_conf("host:8020", {key.replace("__", "."): text for key, text in options.items()})


def test_namenodes_of_a_nameservice_in_their_order() -> None:
    conf = load_conf("east", HA)
    assert conf.namenodes == {"nn1": "one:8020", "nn2": "two:8020"}
    assert conf.uri == "hdfs://east"
    settings = conf.client_settings(["nn2"])
    assert settings["dfs.ha.namenodes.east"] == "nn2"
    assert settings["dfs.namenode.rpc-address.east.nn2"] == "two:8020"
    assert conf.client_settings(["nn2", "nn1"])["dfs.ha.namenodes.east"] == "nn2,nn1"


def test_a_nameservice_without_a_standby() -> None:
    conf = load_conf("west", HA)
    assert conf.namenodes == {"nn": "three:8020"}
    assert conf.client_settings(["nn"])["dfs.namenode.rpc-address.west.nn"] == "three:8020"


def test_a_host_needs_no_configuration() -> None:
    conf = load_conf("host:8020")
    assert conf.namenodes == {"host:8020": "host:8020"}
    assert conf.client_settings(["host:8020"]) == {}


@pytest.mark.parametrize("door", ["option", "environment"])
def test_files_are_read_and_options_win(
    door: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_conf(tmp_path, "core-site.xml", {"fs.defaultFS": "hdfs://east", "dfs.replication": "1"})
    write_conf(tmp_path, "hdfs-site.xml", {**HA, "dfs.replication": "2", "a.b": "<&>"})
    options = {"dfs.replication": "3"}
    if door == "option":
        options["conf_dir"] = str(tmp_path)
    else:
        monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    conf = load_conf("east", options)
    assert conf.namenodes == {"nn1": "one:8020", "nn2": "two:8020"}
    assert conf.replication == 3
    assert conf.hadoop["a.b"] == "<&>"
    assert conf.hadoop["dfs.namenode.rpc-address.east.nn1"] == "one:8020", "stripped"


def test_what_the_namenode_decides_stays_open() -> None:
    conf = load()
    assert (conf.replication, conf.block_size, conf.is_synced) == (None, None, False)
    assert (conf.file_mode, conf.directory_mode) == (0o644, 0o755)


def test_sizes_modes_and_durability() -> None:
    conf = load(dfs__blocksize="64m", durability="disk")
    assert (conf.block_size, conf.is_synced) == (64 << 20, True)
    conf = load_conf("host:8020", {"fs.permissions.umask-mode": "000", "dfs.blocksize": "1024"})
    assert (conf.file_mode, conf.directory_mode, conf.block_size) == (0o666, 0o777, 1024)
    assert load(durability="disk").block_size == 128 << 20, "known where blocks are synced"


@pytest.mark.parametrize(
    ("authority", "options", "message", "hint"),
    [
        ("nord", HA, "not a nameservice .* known: east, west", "hdfs://nord:8020/"),
        ("nord", {}, "known: none", "HADOOP_CONF_DIR"),
        ("east", {"dfs.ha.namenodes.east": "nn1"}, "rpc-address.east.nn1", "HADOOP_CONF_DIR"),
        ("host:1", {"durability": "paper"}, "'paper'", "close or disk"),
        ("host:1", {"replication": "3"}, "'replication' is not", "dfs.replication"),
        ("host:1", {"dfs.blocksize": "large"}, "dfs.blocksize is 'large'", "correct"),
        ("host:1", {"dfs.replication": "x"}, "dfs.replication is 'x'", "correct"),
        ("host:1", {"fs.permissions.umask-mode": "u=rwx"}, "octal", "correct"),
    ],
)
def test_what_cannot_be_used_is_reported(
    authority: str, options: Mapping[str, str], message: str, hint: str
) -> None:
    with pytest.raises(JobFileInvalid, match=message) as caught:
        load_conf(authority, options)
    assert hint in caught.value.hint


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(JobFileInvalid, match=r"neither core-site.xml nor hdfs-site.xml"):
        load_conf("host:1", {"conf_dir": str(tmp_path)})
    (tmp_path / "core-site.xml").write_text("<configuration>", "utf-8")
    with pytest.raises(JobFileInvalid, match=r"core-site.xml cannot be read"):
        load_conf("host:1", {"conf_dir": str(tmp_path)})


def test_an_executor_needs_no_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_conf(tmp_path, "hdfs-site.xml", {**HA, "dfs.replication": "2"})
    options = {"conf_dir": str(tmp_path), "dfs.replication": "3", "durability": "disk"}
    here = lake_address("hdfs://east/lake", 7, options)
    (tmp_path / "hdfs-site.xml").unlink()
    there: LakeAddress = pickle.loads(pickle.dumps(here))
    assert there.open().describe() == "hdfs://east/lake"
    conf = load_conf("east", dict(there.options))
    assert (conf.replication, conf.is_synced) == (3, True)
    assert conf.namenodes == {"nn1": "one:8020", "nn2": "two:8020"}


def test_a_local_lake_needs_no_options() -> None:
    address = lake_address("file:///lake", 7, {"conf_dir": "/nowhere"})
    assert address == LakeAddress("file:///lake", 7)


def test_an_executor_asks_the_namenode_first_that_served_the_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    address = LakeAddress("hdfs://east/lake", 7, tuple(HA.items()))
    namenodes = ("one:8020", "two:8020")
    monkeypatch.setattr(storage_open, "_ACTIVE", {namenodes: ActiveServer(1)})
    travels = address.with_active()
    assert travels.active == 1
    monkeypatch.setattr(storage_open, "_ACTIVE", {})  # another process
    travels.open()
    assert storage_open._ACTIVE[namenodes].index == 1
    storage_open._ACTIVE[namenodes].set(0)
    travels.open()
    assert storage_open._ACTIVE[namenodes].index == 0, "it knows better meanwhile"
