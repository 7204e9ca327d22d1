"""A real ZooKeeper from PySpark's jars: one server on the loopback address.

What it is: a standalone server, data and port kept in one directory.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same nodes.
"""

import socket
from dataclasses import dataclass
from pathlib import Path

from ashore.jobs.jars import SHORT_LIVED, find_java, log4j_option, pyspark_classpath
from ashore_lab.services.ports import LOOPBACK
from ashore_lab.services.process import Command
from ashore_lab.services.single import SingleServer

MAIN = "org.apache.zookeeper.server.ZooKeeperServerMain"
PROBE_DEADLINE_S = 2


@dataclass(frozen=True, slots=True)
class ZooKeeperOptions:
    """How to run the server."""

    tick_ms: int = 500  # sessions live for 2 to 20 ticks
    heap: str = "128m"
    start_deadline_s: float = 60


class ZooKeeper(SingleServer):
    """One server in one directory. As a context manager it is up inside and gone after."""

    name = "zookeeper"

    def __init__(self, directory: Path, options: ZooKeeperOptions | None = None) -> None:
        super().__init__(directory)
        self.options = options or ZooKeeperOptions()

    @property
    def connect(self) -> str:
        """Return the server's address as clients expect it."""
        return f"{LOOPBACK}:{self._port()}"

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"connect": self.connect}

    def start(self) -> None:
        """Start the server and wait until it says that it is well."""
        port = self._port()
        self._check_port(port)
        (self.directory / "zoo.cfg").write_text(self._settings(), "utf-8")
        command = (
            str(find_java()),
            f"-Xmx{self.options.heap}",
            *SHORT_LIVED,
            log4j_option(self.directory),
            "-cp",
            pyspark_classpath(),
            MAIN,
            "zoo.cfg",
        )
        self.process.start(
            Command(self.name, command, self.directory),
            lambda _: is_well(port),
            deadline_s=self.options.start_deadline_s,
        )

    def _settings(self) -> str:
        settings = {
            "clientPort": self._port(),
            "clientPortAddress": LOOPBACK,
            "dataDir": self.directory / "data",
            "tickTime": self.options.tick_ms,
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "ruok",
        }
        return "".join(f"{key}={value}\n" for key, value in settings.items())


def is_well(port: int) -> bool:
    """Return whether the server on `port` answers `ruok`."""
    try:
        with socket.create_connection((LOOPBACK, port), PROBE_DEADLINE_S) as connection:
            connection.sendall(b"ruok")
            return connection.recv(4) == b"imok"
    except OSError:
        return False
