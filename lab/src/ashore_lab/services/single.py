"""A service that is one process: what Kafka, Hive and ZooKeeper have in common here.

What it is: stop, kill, freeze and come back, for one server process in one directory.
What it promises: the server keeps its address and its data through all of them.
"""

from abc import abstractmethod
from pathlib import Path
from typing import ClassVar

from ashore.errors import ServiceError
from ashore_lab.services.guard import GuardedServers
from ashore_lab.services.ports import choose_ports, is_free
from ashore_lab.services.process import ServerProcess


class SingleServer(GuardedServers):
    """One server in one directory. As a context manager it is up inside and gone after."""

    name: ClassVar[str]

    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.process = ServerProcess(self.name, self.directory)

    @property
    def processes(self) -> list[ServerProcess]:
        """Return the server processes of this service."""
        return [self.process]

    @abstractmethod
    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""

    def stop(self) -> None:
        """Shut the server down in order; it keeps its data and its port."""
        self.process.stop(grace_s=30)

    def kill(self) -> None:
        """Kill the server with SIGKILL."""
        self.process.kill()

    def restart(self) -> None:
        """Stop and start, on the same port, with the same data."""
        self.stop()
        self.start()

    def _port(self) -> int:
        """Return the port of a server that has one, which is chosen once for a directory."""
        return choose_ports(self.directory / f"{self.name}.json", ("port",))["port"]

    def _check_port(self, port: int) -> None:
        if not self.process.is_alive() and not is_free(port):
            raise ServiceError(f"port {port} of {self.directory} is used by another process")
