"""The real servers of a run of tests: one of each, whatever the number of workers.

What it is: `SharedServers`, over a directory that the workers of a run share.
What it promises: the first that asks for a server starts it, whoever asks later gets that one;
after `stop`, by whichever process, none is left. A test that is `alone` with a server shares it
with no other test of the run.
"""

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TypeVar

from tests.azure import Azure

from ashore.jobs.jars import SHORT_LIVED, locked
from ashore_lab.services.hdfs import Hdfs
from ashore_lab.services.hive import Hive, HiveOptions
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.s3 import S3
from ashore_lab.services.zookeeper import ZooKeeper

# Compaction would otherwise be waited for, and so would the start.
IMPATIENT = BrokerOptions(
    java=SHORT_LIVED,
    settings={
        "log.cleaner.backoff.ms": "100",
        "log.initial.task.delay.ms": "100",
        "log.segment.delete.delay.ms": "100",
    },
)
# What tests switch, freeze and kill, and what they count the calls of: each is for one test at a
# time.
ALONE = ("hdfs", "hive", "mortal_kafka", "steady_hdfs", "zookeeper")

Server = TypeVar("Server", Azure, Kafka, Hdfs, Hive, S3, ZooKeeper)


class SharedServers:
    """The servers of a run. Any number of objects, in any process, may stand for the same ones."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._azure = Azure(directory / "azure")
        self._hdfs = Hdfs(directory / "hdfs")
        self._steady_hdfs = Hdfs(directory / "steady-hdfs")
        self._hive = Hive(directory / "hive", HiveOptions(hadoop_conf=self._hdfs.conf_dir))
        self._kafka = Kafka(directory / "kafka", IMPATIENT)
        self._mortal_kafka = Kafka(directory / "mortal-kafka", IMPATIENT)
        self._s3 = S3(directory / "s3")
        self._zookeeper = ZooKeeper(directory / "zookeeper")

    def kafka(self) -> Kafka:
        """Return the broker, started. Tests share it: topics need names of their own."""
        return self._up(self._kafka)

    def mortal_kafka(self) -> Kafka:
        """Return another broker, started: one that may be killed."""
        return self._up(self._mortal_kafka)

    def hdfs(self) -> Hdfs:
        """Return the HDFS, started. Who breaks it mends it."""
        return self._up(self._hdfs)

    def steady_hdfs(self) -> Hdfs:
        """Return another HDFS, started: nobody breaks it, so it is there beside the first."""
        return self._up(self._steady_hdfs)

    def hive(self) -> Hive:
        """Return the metastore, started. It finds the HDFS, whether that is up yet or not."""
        with locked(self._hdfs.directory, _say_nothing):  # another worker may start it just now
            self._hdfs.write_client_conf()
        return self._up(self._hive)

    def s3(self) -> S3:
        """Return the server of S3, started. Tests share it: lakes need prefixes of their own."""
        return self._up(self._s3)

    def azure(self) -> Azure:
        """Return the server of Azure, started. Tests share it: lakes need prefixes of their own."""
        return self._up(self._azure)

    def zookeeper(self) -> ZooKeeper:
        """Return the ZooKeeper, started."""
        return self._up(self._zookeeper)

    def stop(self) -> None:
        """Stop whatever runs, whoever has started it."""
        hdfs = (self._hdfs, self._steady_hdfs)
        kafkas = (self._kafka, self._mortal_kafka)
        for server in (self._hive, *hdfs, *kafkas, self._s3, self._azure, self._zookeeper):
            server.stop()

    @contextmanager
    def alone(self, names: Iterable[str]) -> Iterator[None]:
        """Have servers for oneself; waits until no other test has them."""
        with ExitStack() as stack:
            for name in sorted(names):  # in one order, so that nobody waits in a circle
                stack.enter_context(locked(self.directory / "alone" / name, _say_nothing))
            yield

    def _up(self, server: Server) -> Server:
        is_ready = server.directory / "ready"
        with locked(server.directory, _say_nothing):
            if not is_ready.exists() or not all(each.is_alive() for each in server.processes):
                is_ready.unlink(missing_ok=True)
                server.stop()  # what a worker has left that was stopped while it started this one
                server.start()
                is_ready.touch()
        return server


def _say_nothing(_: str) -> None:
    pass
