"""A Spark standalone cluster on the loopback address: one master, some workers.

What it is: real master, worker and executor processes, from PySpark's own jars.
What it promises: workers and executors can be killed one by one; nothing of them is left after
`stop`, executors and their Python processes included.
"""

import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from ashore.errors import ServiceError
from ashore.jobs.jars import find_java, find_pyspark_home, pyspark_classpath
from ashore_lab.services.guard import GuardedServers
from ashore_lab.services.ports import LOOPBACK, choose_ports
from ashore_lab.services.process import (
    Command,
    ProcessId,
    ServerProcess,
    children_of,
    signal_process,
)

MASTER_READY = "New state: ALIVE"
WORKER_READY = "Successfully registered with master"


@dataclass(frozen=True, slots=True)
class SparkOptions:
    """How large the cluster is."""

    workers: int = 2
    cores: int = 1  # of each worker
    memory: str = "1g"  # of each worker
    start_deadline_s: float = 60


class SparkCluster(GuardedServers):
    """One cluster in one directory. As a context manager it is up inside and gone after."""

    name = "spark"

    def __init__(self, directory: Path, options: SparkOptions | None = None) -> None:
        self.directory = directory.absolute()
        self.options = options or SparkOptions()
        self._master = ServerProcess("master", self.directory)
        self._workers = [
            ServerProcess(f"worker-{index}", self.directory)
            for index in range(self.options.workers)
        ]

    @property
    def processes(self) -> list[ServerProcess]:
        """Return master and workers."""
        return [self._master, *self._workers]

    @property
    def master_url(self) -> str:
        """Return the master's address as Spark expects it."""
        return f"spark://{LOOPBACK}:{self._ports()['port']}"

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"master": self.master_url, "web": f"http://{LOOPBACK}:{self._ports()['web_port']}"}

    def start(self) -> None:
        """Start the master, then the workers side by side, and wait until all have registered."""
        ports = self._ports()
        try:
            self._start(
                self._master,
                ("master.Master", "--port", str(ports["port"])),
                MASTER_READY,
            )
            with ThreadPoolExecutor(max_workers=self.options.workers) as pool:
                list(pool.map(self.start_worker, range(self.options.workers)))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """End workers, executors and the master."""
        for process in reversed(self.processes):
            process.stop()

    def start_worker(self, index: int) -> None:
        """Start worker `index`, at first or after it was killed."""
        options = self.options
        arguments = ("-c", str(options.cores), "-m", options.memory, "-d", "work", self.master_url)
        self._start(self._workers[index], ("worker.Worker", *arguments), WORKER_READY)

    def kill_worker(self, index: int) -> None:
        """Kill worker `index` and its executors with SIGKILL."""
        self._workers[index].kill()

    def executors(self) -> list[ProcessId]:
        """Return the executor processes that run now."""
        workers = [known for worker in self._workers if (known := worker.id())]
        return [executor for worker in workers for executor in children_of(worker)]

    def kill_executor(self) -> ProcessId:
        """Kill one executor with SIGKILL and return which. Raises ServiceError if there is none."""
        executors = self.executors()
        if not executors:
            raise ServiceError(f"no executor runs on {self.master_url}")
        signal_process(executors[0], signal.SIGKILL)
        return executors[0]

    def _ports(self) -> dict[str, int]:
        """Return the master's ports, which are chosen once for a directory."""
        return choose_ports(self.directory / "spark.json", ("port", "web_port"))

    def _start(self, process: ServerProcess, arguments: tuple[str, ...], ready: str) -> None:
        web_port = self._ports()["web_port"] if process is self._master else 0
        command = (
            str(find_java()),
            "-Xmx256m",
            "-Dspark.master.rest.enabled=false",
            "-cp",
            pyspark_classpath(),
            f"org.apache.spark.deploy.{arguments[0]}",
            *("--host", LOOPBACK, "--webui-port", str(web_port)),
            *arguments[1:],
        )
        process.start(
            Command(process.name, command, self.directory, _environment()),
            lambda log: ready in log,
            deadline_s=self.options.start_deadline_s,
        )


def _environment() -> dict[str, str]:
    """Return what master, workers and executors need beside the class path.

    Without the Scala version executors fail with "Cannot find any build directories"; without the
    interpreter they would use the machine's python3, which has no pyarrow.
    """
    return {
        "SPARK_HOME": str(find_pyspark_home()),
        "SPARK_SCALA_VERSION": "2.13",
        "SPARK_LOCAL_IP": LOOPBACK,
        "JAVA_HOME": os.environ.get("JAVA_HOME") or str(find_java().resolve().parent.parent),
        "PYSPARK_PYTHON": sys.executable,
    }
