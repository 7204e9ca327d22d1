"""Settings and audit lines of the hdfs service, without a server."""

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from ashore.errors import ServiceError
from ashore_lab.services.hdfs_audit import AuditEntry, parse_line, parse_log
from ashore_lab.services.hdfs_settings import (
    NameNodePorts,
    Ports,
    build_client,
    build_datanode,
    build_journalnode,
    build_namenode,
    build_uri,
    to_xml,
)

PORTS = Ports(
    namenodes=(NameNodePorts(1, 2, 3), NameNodePorts(4, 5, 6)),
    datanodes=(7, 8),
    journal_rpc=9,
    journal_http=10,
    control=11,
)
SINGLE = Ports(PORTS.namenodes[:1], PORTS.datanodes, 9, 10, 11)
HOME = Path("/h")


def test_clients_know_the_proxies_and_servers_know_each_other():
    names = [f"dfs.namenode.rpc-address.ashore.nn{index}" for index in (0, 1)]
    client = build_client(PORTS)
    assert client["fs.defaultFS"] == build_uri(PORTS) == "hdfs://ashore"
    assert [client[name] for name in names] == ["127.0.0.1:3", "127.0.0.1:6"]
    for server in (
        build_namenode(PORTS, 0, HOME),
        build_namenode(PORTS, 1, HOME),
        build_journalnode(PORTS, HOME),
        build_datanode(PORTS, 0, HOME),
    ):
        assert [server[name] for name in names] == ["127.0.0.1:1", "127.0.0.1:4"]
    assert build_namenode(PORTS, 1, HOME)["dfs.ha.namenode.id"] == "nn1"


def test_one_namenode_is_no_nameservice():
    assert build_client(SINGLE) == {"fs.defaultFS": "hdfs://127.0.0.1:3"}
    server = build_namenode(SINGLE, 0, HOME)
    assert server["fs.defaultFS"] == "hdfs://127.0.0.1:1"
    assert not [key for key in server if "shared.edits" in key or "nameservices" in key]


def test_xml_says_what_was_set():
    settings = {"a": "1 < 2 & 3", "b": ""}
    properties = ET.fromstring(to_xml(settings)).findall("property")
    assert {each.findtext("name"): each.findtext("value") for each in properties} == settings


RENAME = (
    "2026-11-21T11:56:09.570+0000 allowed=true\tugi=job (auth:SIMPLE)\tip=/127.0.0.1\t"
    "cmd=rename (options=[NONE])\tsrc=/a b=c\tdst=/d\tperm=job:supergroup:rw-r--r--\tproto=rpc"
)


def test_an_audit_line_is_parsed():
    assert parse_line(RENAME, 1) == AuditEntry(
        time_ms=1795262169570,
        namenode=1,
        is_allowed=True,
        user="job",
        command="rename (options=[NONE])",
        source="/a b=c",
        target="/d",
    )
    refused = parse_line(RENAME.replace("=true", "=false").replace("dst=/d", "dst=null"), 0)
    assert (refused.is_allowed, refused.target) == (False, None)


def test_a_log_is_parsed_back_to_a_time_and_not_further():
    at_ms = parse_line(RENAME, 0).time_ms
    old, later, earlier = (RENAME.replace("09.5", each) for each in ("01.5", "11.5", "09.0"))
    text = f"not a line\n{old}\n{later}\n{earlier}\n{RENAME}\n2026-"
    found = parse_log(text, 0, at_ms)
    assert [entry.time_ms - at_ms for entry in found] == [0, 2000], "the torn line is not yet one"
    with pytest.raises(ServiceError):
        parse_log(text, 0, 0)


@pytest.mark.parametrize("line", ["", RENAME[:40], RENAME.replace("2026-11", "soon"), "x y"])
def test_another_line_is_named(line: str):
    with pytest.raises(ServiceError, match="audit log"):
        parse_line(line, 0)
