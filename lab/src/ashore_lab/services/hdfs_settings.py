"""The settings of the servers and clients of a small HDFS.

What it is: ports, and the settings that follow from them, as Hadoop's XML files name them.
What it promises: pure. Servers know each other's own addresses; clients know the proxies' only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from ashore_lab.services.hdfs_audit import TIME_LAYOUT
from ashore_lab.services.ports import LOOPBACK

NAMESERVICE = "ashore"

# Two DataNodes on one machine: a dead one is stale after 3 s and gone after 12 s, not ten minutes.
# No automatic failover and no checkpoints by the standby: what happens, a test has asked for.
SERVER = {
    "dfs.ha.automatic-failover.enabled": "false",
    "dfs.ha.standby.checkpoints": "false",
    "dfs.ha.tail-edits.period": "1s",
    "dfs.permissions.enabled": "true",
    "dfs.namenode.handler.count": "4",
    "dfs.namenode.safemode.extension": "0",
    "dfs.namenode.heartbeat.recheck-interval": "1000",
    "dfs.namenode.stale.datanode.interval": "3000",
    "dfs.namenode.avoid.read.stale.datanode": "true",
    "dfs.namenode.avoid.write.stale.datanode": "true",
    "dfs.namenode.redundancy.interval.seconds": "1s",
    "dfs.namenode.datanode.registration.ip-hostname-check": "false",
    "dfs.namenode.fs-limits.min-block-size": "1024",
    "dfs.heartbeat.interval": "1",
    "dfs.datanode.handler.count": "2",
    "dfs.datanode.scan.period.hours": "-1",
    "dfs.datanode.directoryscan.interval": "-1",
    "dfs.journalnode.handler.count": "2",
    "ipc.client.connect.max.retries": "50",
    "ipc.client.connect.retry.interval": "200",
}

LOG4J = """\
log4j.rootLogger=INFO, out
log4j.appender.out=org.apache.log4j.ConsoleAppender
log4j.appender.out.layout=org.apache.log4j.PatternLayout
log4j.appender.out.layout.ConversionPattern=%d{ISO8601} %p %m (%c{1})%n
log4j.logger.org.apache.hadoop.metrics2=ERROR
log4j.logger.BlockStateChange=WARN
"""

AUDIT_LOG4J = f"""\
log4j.logger.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=INFO, audit
log4j.additivity.org.apache.hadoop.hdfs.server.namenode.FSNamesystem.audit=false
log4j.appender.audit=org.apache.log4j.FileAppender
log4j.appender.audit.File=audit.log
log4j.appender.audit.layout=org.apache.log4j.PatternLayout
log4j.appender.audit.layout.ConversionPattern={TIME_LAYOUT} %m%n
"""


@dataclass(frozen=True, slots=True)
class NameNodePorts:
    """Where one NameNode is: its own ports, and the proxy's, which clients use."""

    rpc: int
    http: int
    proxy: int


@dataclass(frozen=True, slots=True)
class Ports:
    """Every port of one HDFS."""

    namenodes: tuple[NameNodePorts, ...]
    datanodes: tuple[int, ...]
    journal_rpc: int
    journal_http: int
    control: int  # of the proxy

    @property
    def is_ha(self) -> bool:
        """Return whether there is more than one NameNode."""
        return len(self.namenodes) > 1


def namenode_name(index: int) -> str:
    """Return the id of NameNode `index` in the nameservice."""
    return f"nn{index}"


def build_uri(ports: Ports) -> str:
    """Return the file system's address for clients."""
    return f"hdfs://{NAMESERVICE if ports.is_ha else f'{LOOPBACK}:{ports.namenodes[0].proxy}'}"


def build_client(ports: Ports) -> dict[str, str]:
    """Return what a client needs: hdfs-native as a dictionary, Java as XML."""
    settings = {"fs.defaultFS": build_uri(ports)}
    if not ports.is_ha:
        return settings
    provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
    return {
        **settings,
        f"dfs.client.failover.proxy.provider.{NAMESERVICE}": provider,
        **_nameservice(ports, [namenode.proxy for namenode in ports.namenodes]),
    }


def build_namenode(ports: Ports, index: int, directory: Path) -> dict[str, str]:
    """Return the settings of NameNode `index`, which keeps its image in `directory`."""
    own = ports.namenodes[index]
    settings = {
        **_servers(ports),
        "dfs.namenode.name.dir": directory.as_uri(),
        "dfs.namenode.http-address": f"{LOOPBACK}:{own.http}",
    }
    if not ports.is_ha:
        return settings
    return {
        **settings,
        **{
            f"dfs.namenode.http-address.{NAMESERVICE}.{namenode_name(each)}": (
                f"{LOOPBACK}:{ports.namenodes[each].http}"
            )
            for each in range(len(ports.namenodes))
        },
        "dfs.ha.namenode.id": namenode_name(index),
        "dfs.namenode.shared.edits.dir": (
            f"qjournal://{LOOPBACK}:{ports.journal_rpc}/{NAMESERVICE}"
        ),
    }


def build_journalnode(ports: Ports, directory: Path) -> dict[str, str]:
    """Return the settings of the JournalNode, which keeps the edits in `directory`."""
    return {
        **_servers(ports),
        "dfs.journalnode.edits.dir": str(directory),
        "dfs.journalnode.rpc-address": f"{LOOPBACK}:{ports.journal_rpc}",
        "dfs.journalnode.http-address": f"{LOOPBACK}:{ports.journal_http}",
    }


def build_datanode(ports: Ports, index: int, directory: Path) -> dict[str, str]:
    """Return the settings of DataNode `index`, which keeps its blocks in `directory`.

    Its port for data stays when it is started again; clients use no other.
    """
    return {
        **_servers(ports),
        "dfs.datanode.data.dir": directory.as_uri(),
        "dfs.datanode.address": f"{LOOPBACK}:{ports.datanodes[index]}",
        "dfs.datanode.ipc.address": f"{LOOPBACK}:0",
        "dfs.datanode.http.address": f"{LOOPBACK}:0",
    }


def to_xml(settings: Mapping[str, str]) -> str:
    """Return settings as Hadoop's configuration file."""
    properties = "".join(
        f"  <property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
        for key, value in sorted(settings.items())
    )
    return f"<configuration>\n{properties}</configuration>\n"


def _servers(ports: Ports) -> dict[str, str]:
    own = [namenode.rpc for namenode in ports.namenodes]
    if ports.is_ha:
        return {**SERVER, "fs.defaultFS": f"hdfs://{NAMESERVICE}", **_nameservice(ports, own)}
    return {**SERVER, "fs.defaultFS": f"hdfs://{LOOPBACK}:{own[0]}"}


def _nameservice(ports: Ports, addresses: list[int]) -> dict[str, str]:
    names = [namenode_name(index) for index in range(len(ports.namenodes))]
    prefix = f"dfs.namenode.rpc-address.{NAMESERVICE}"
    return {
        "dfs.nameservices": NAMESERVICE,
        f"dfs.ha.namenodes.{NAMESERVICE}": ",".join(names),
        **{
            f"{prefix}.{name}": f"{LOOPBACK}:{port}"
            for name, port in zip(names, addresses, strict=True)
        },
    }
