"""A REST catalog of Iceberg on the loopback address: Iceberg's own Java code, over SQLite.

What it is: the servlet by which Iceberg tests its clients, in the Jetty that Spark has.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same tables.
Metadata files of tables are where the tables are, on a local disk.

Its one source file is compiled at each start: Java is a JDK here.
"""

from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from ashore.jobs.jars import (
    SHORT_LIVED,
    Progress,
    class_path,
    find_java,
    log4j_option,
    pyspark_classpath,
)
from ashore_lab.services.ports import LOOPBACK, is_listening
from ashore_lab.services.process import Command
from ashore_lab.services.single import SingleServer


@dataclass(frozen=True, slots=True)
class IcebergRestOptions:
    """How to run the server."""

    heap: str = "256m"
    start_deadline_s: float = 60


class IcebergRest(SingleServer):
    """One server in one directory. As a context manager it is up inside and gone after."""

    name = "iceberg-rest"

    def __init__(
        self,
        directory: Path,
        options: IcebergRestOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(directory)
        self.options = options or IcebergRestOptions()
        self.progress = progress

    @property
    def uri(self) -> str:
        """Return the catalog's address."""
        return f"http://{LOOPBACK}:{self._port()}"

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"uri": self.uri}

    def start(self) -> None:
        """Start the server and wait until it listens. The first start makes the database."""
        port = self._port()
        self._check_port(port)
        self.directory.mkdir(parents=True, exist_ok=True)
        jars = class_path("iceberg-rest", progress=self.progress)
        with as_file(files("ashore_lab.services") / "IcebergRest.java") as source:
            command = (
                str(find_java()),
                f"-Xmx{self.options.heap}",
                *SHORT_LIVED,
                log4j_option(self.directory),
                "-cp",
                f"{jars}:{pyspark_classpath()}",
                str(source),
                str(port),
                str(self.directory / "catalog.db"),
            )
            self.process.start(
                Command(self.name, command, self.directory),
                lambda _: is_listening(port),
                deadline_s=self.options.start_deadline_s,
            )
