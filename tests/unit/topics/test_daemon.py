"""The daemon that forks Python workers, started as Spark's JVM starts it, without the JVM."""

import os
import socket
import struct
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ashore import __version__
from ashore.topics.run.spark.daemon import MODULE, PLAIN, WORKER, prefer_installed, why_no_worker
from ashore.topics.write.environment import TASK_ENVIRONMENT

SITE = "/venv/lib/python3.12/site-packages"
LIBRARY = f"{SITE}/pyspark/python/lib"
PACKED = [f"{LIBRARY}/pyspark.zip", f"{LIBRARY}/py4j-0.10.9.9-src.zip"]
STARTS_A_THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=[60]).start()"


class Daemon:
    """A daemon that waits for connections, each of which makes it fork."""

    def __init__(self, directory: Path, worker: str, shadows: Path) -> None:
        environment = {
            **os.environ,
            **TASK_ENVIRONMENT,
            "OMP_NUM_THREADS": "1",  # as Spark sets it
            "PYTHON_UNIX_DOMAIN_ENABLED": "true",
            "PYTHON_WORKER_FACTORY_SOCK_DIR": str(directory),
            "PYTHONPATH": str(shadows),
        }
        self.process = subprocess.Popen(
            [sys.executable, "-m", MODULE, worker],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        (length,) = struct.unpack("!i", self._read(4))
        self.address = self._read(length).decode()
        self.pid = self.process.pid

    def _read(self, size: int) -> bytes:
        assert self.process.stdout
        found = self.process.stdout.read(size)
        assert len(found) == size, self.close()
        return found

    def fork(self) -> tuple[socket.socket, int]:
        """Have it fork a worker; return the connection to that and its process id."""
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(self.address)
        (pid,) = struct.unpack("!i", connection.recv(4))
        return connection, pid

    def words(self) -> list[str]:
        return Path(f"/proc/{self.pid}/cmdline").read_text().split("\0")

    def close(self) -> str:
        """Let it end, as the JVM does; return what it has said."""
        _, said = self.process.communicate(timeout=30)
        return said.decode()


Start = Callable[..., Daemon]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start daemons whose native module is other Python code, where a test gives it."""
    daemons = []
    sockets = tempfile.TemporaryDirectory(prefix="ashore-")  # a socket's path must be short

    def start_one(native: str | None = None, worker: str = WORKER) -> Daemon:
        if native is not None:
            (tmp_path / "ashore_native.py").write_text(native, "utf-8")
        daemons.append(Daemon(Path(sockets.name), worker, tmp_path))
        return daemons[-1]

    yield start_one
    for daemon in daemons:
        if daemon.process.returncode is None:
            daemon.process.kill()
            daemon.process.communicate()
    sockets.cleanup()


def open_files(pid: int) -> dict[int, str]:
    found = Path(f"/proc/{pid}/fd").iterdir()
    return {int(each.name): str(each.readlink()) for each in found}


def threads(pid: int) -> int:
    return len(list(Path(f"/proc/{pid}/task").iterdir()))


def libraries(pid: int) -> str:
    return Path(f"/proc/{pid}/maps").read_text()


def test_it_forks_with_arrow_and_the_kafka_client_loaded_one_thread_and_no_open_file(
    start: Start,
) -> None:
    daemon = start()
    assert (threads(daemon.pid), daemon.words()[2]) == (1, MODULE)
    files = open_files(daemon.pid)
    listening = files.pop(max(files))
    assert listening.startswith("socket:")
    assert set(files) == {0, 1, 2}
    connection, worker = daemon.fork()
    with connection:
        for library in ("libarrow", "librdkafka"):
            assert library in libraries(daemon.pid)
            assert library in libraries(worker)
        assert threads(worker) == 1


@pytest.mark.parametrize(
    "native",
    [
        "raise ImportError('built for another Python')",
        "raise RuntimeError('another CPU')",
        "raise SystemExit(1)",
    ],
)
def test_what_cannot_be_loaded_is_left_to_tasks(start: Start, native: str) -> None:
    daemon = start(native)
    connection, worker = daemon.fork()
    with connection:
        assert "librdkafka" in libraries(worker)


def test_what_a_library_prints_is_not_taken_for_an_address(start: Start) -> None:
    daemon = start("print('hello')")
    assert daemon.address.endswith(".sock")
    assert daemon.close() == "hello\n"


def test_it_is_the_plain_daemon_where_a_library_has_started_a_thread(start: Start) -> None:
    daemon = start(STARTS_A_THREAD)
    assert (threads(daemon.pid), daemon.words()[2:4]) == (1, [PLAIN, WORKER])
    assert "libarrow" not in libraries(daemon.pid)
    assert "has a thread" in daemon.close()


def test_workers_that_run_no_tasks_of_ashore_wait_for_nothing(start: Start) -> None:
    daemon = start(worker="pyspark.sql.worker.plan_data_source_read")
    assert "libarrow" not in libraries(daemon.pid)
    assert daemon.close() == ""


@pytest.mark.parametrize(
    ("paths", "preferred"),
    [
        pytest.param(
            ["", *PACKED, "/lib", SITE], ["", "/lib", SITE, *PACKED], id="the same PySpark"
        ),
        pytest.param(
            ["", "/opt/spark/python/lib/pyspark.zip", SITE],
            ["", "/opt/spark/python/lib/pyspark.zip", SITE],
            id="a Spark of the cluster",
        ),
        pytest.param(["", *PACKED, "/lib"], ["", *PACKED, "/lib"], id="not installed here"),
        pytest.param(
            ["", "/jobs/own.zip", SITE], ["", "/jobs/own.zip", SITE], id="another archive"
        ),
    ],
)
def test_archives_of_pyspark_come_last_where_it_is_installed(
    paths: list[str], preferred: list[str]
) -> None:
    assert prefer_installed(paths) == preferred


NO_DAEMON = """An error occurred while calling z:PythonRDD.collectAndServe.
: org.apache.spark.SparkException: Job aborted: org.apache.spark.SparkException:\x20
Error from python worker:
{said}
PYTHONPATH was:
  /opt/spark/python/lib/pyspark.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from stdout.
Caused by: org.apache.spark.SparkException:\x20
"""
NOT_FOUND = (
    "/usr/bin/python3: Error while finding module specification for "
    "'ashore.topics.run.spark.daemon' "
)


@pytest.mark.parametrize(
    ("said", "why"),
    [
        pytest.param(
            f"  {NOT_FOUND}(ModuleNotFoundError: No module named 'ashore')",
            f"the Python of the executors has no Ashore {__version__}: {NOT_FOUND}"
            "(ModuleNotFoundError: No module named 'ashore')",
            id="no Ashore",
        ),
        pytest.param(
            "  /usr/bin/python3: No module named ashore.topics.run.spark.daemon",
            f"the Python of the executors has no Ashore {__version__}: "
            "/usr/bin/python3: No module named ashore.topics.run.spark.daemon",
            id="an older Ashore",
        ),
        pytest.param(
            '  Traceback (most recent call last):\n    File "x.py", line 1\n  OSError: no space',
            "OSError: no space",
            id="another error",
        ),
    ],
)
def test_why_no_daemon_runs_is_found_in_the_error(said: str, why: str) -> None:
    assert why_no_worker(NO_DAEMON.format(said=said)) == why


CANCELLED = """Job aborted due to stage failure: Lost task 1.0: java.lang.NullPointerException
\tat java.base/java.util.Objects.requireNonNull(Objects.java:209)
\tat java.base/sun.nio.fs.UnixFileSystem.getPath(UnixFileSystem.java:263)
\tat java.base/java.nio.file.Path.of(Path.java:147)
\tat java.base/java.net.UnixDomainSocketAddress.of(UnixDomainSocketAddress.java:146)
\tat org.apache.spark.api.python.PythonWorkerFactory.createWorker$1(PythonWorkerFactory.scala:167)
"""


def test_a_daemon_that_has_failed_before_is_no_null_pointer() -> None:
    said = why_no_worker(CANCELLED)
    assert said.endswith("earlier error says why")
    assert (
        why_no_worker("java.lang.NullPointerException\n\tat org.apache.hadoop.X.y(X.java:1)\n")
        is None
    )


def test_other_errors_are_no_failures_of_the_daemon() -> None:
    assert why_no_worker("Caused by: java.io.IOException: disk full\n") is None
