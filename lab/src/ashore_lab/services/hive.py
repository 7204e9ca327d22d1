"""A real Hive metastore from PySpark's jars, with Derby, on the loopback address.

What it is: the metastore server, its database and port kept in one directory.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same tables.
It is up when it has answered a call, so its schema is made by then.
"""

import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ashore.jobs.jars import SHORT_LIVED, find_java, log4j_option, pyspark_classpath
from ashore_lab.services.hdfs_settings import to_xml
from ashore_lab.services.ports import LOOPBACK
from ashore_lab.services.process import Command
from ashore_lab.services.single import SingleServer

MAIN = "org.apache.hadoop.hive.metastore.HiveMetaStore"
PROBE_DEADLINE_S = 5

# Thrift's binary protocol: version 1 with the kind of message in the last byte.
CALL, REPLY = 0x80010001, 0x80010002


@dataclass(frozen=True, slots=True)
class HiveOptions:
    """How to run the metastore."""

    hadoop_conf: Path | None = None  # a directory with core-site.xml, for tables on HDFS
    settings: Mapping[str, str] = field(default_factory=dict)  # hive-site.xml; they win
    heap: str = "512m"
    start_deadline_s: float = 120


class Hive(SingleServer):
    """One metastore in one directory. As a context manager it is up inside and gone after."""

    name = "hive"

    def __init__(self, directory: Path, options: HiveOptions | None = None) -> None:
        super().__init__(directory)
        self.options = options or HiveOptions()

    @property
    def uri(self) -> str:
        """Return the metastore's address as clients expect it."""
        return f"thrift://{LOOPBACK}:{self._port()}"

    @property
    def warehouse(self) -> Path:
        """Return where databases without a location of their own are."""
        return self.directory / "warehouse"

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"uri": self.uri}

    def start(self) -> None:
        """Start the metastore and wait until it answers. The first start makes its schema."""
        port = self._port()
        self._check_port(port)
        conf = self.directory / "conf"
        conf.mkdir(parents=True, exist_ok=True)
        (conf / "hive-site.xml").write_text(to_xml(self._settings()), "utf-8")
        class_path = [conf, self.options.hadoop_conf, pyspark_classpath()]
        command = (
            str(find_java()),
            f"-Xmx{self.options.heap}",
            *SHORT_LIVED,
            log4j_option(self.directory),
            "-cp",
            ":".join(str(entry) for entry in class_path if entry),
            MAIN,
            *("-p", str(port)),
        )
        self.process.start(
            Command(self.name, command, self.directory),
            lambda _: is_answering(port),
            deadline_s=self.options.start_deadline_s,
        )

    def _settings(self) -> dict[str, str]:
        database = f"jdbc:derby:;databaseName={self.directory / 'derby'};create=true"
        return {
            "javax.jdo.option.ConnectionURL": database,
            "datanucleus.schema.autoCreateAll": "true",
            "hive.metastore.schema.verification": "false",
            "hive.metastore.warehouse.dir": self.warehouse.as_uri(),
            "hive.async.log.enabled": "false",
            **self.options.settings,
        }


def is_answering(port: int) -> bool:
    """Return whether the metastore on `port` answers `get_all_databases`."""
    method = b"get_all_databases"
    head = struct.pack(">Ii", CALL, len(method)) + method
    try:
        with socket.create_connection((LOOPBACK, port), PROBE_DEADLINE_S) as connection:
            connection.sendall(head + struct.pack(">ib", 0, 0))
            with connection.makefile("rb") as answer:
                return answer.read(4) == struct.pack(">I", REPLY)
    except OSError:
        return False
