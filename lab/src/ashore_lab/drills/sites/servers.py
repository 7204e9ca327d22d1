"""The real servers of drills: each is started once, ahead or when it is asked for, and shared.

What it is: `Servers`, from which real sites come.
What it promises: at the end everything that was started is stopped.
"""

import shutil
from collections import deque
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Self

from ashore.base.unique import unique
from ashore.errors import ServiceError
from ashore.jobs.class_archive import find_archive, find_options
from ashore.topics.use.warm_up import warm_up
from ashore_lab.drills.plan import Server
from ashore_lab.drills.recorder import Recorder
from ashore_lab.drills.sites.machines import Machines
from ashore_lab.drills.sites.real import Broker, RealSite, SiteServers
from ashore_lab.drills.sites.site import SiteOptions
from ashore_lab.services.hdfs import Hdfs, HdfsOptions
from ashore_lab.services.hive import Hive, HiveOptions
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.kafka_cluster import KafkaCluster

CLUSTERS = {
    Server.CLUSTER: (1, 2),
    Server.SMALL_CLUSTERS: (2, 1),
}  # how many, with how many workers


class Servers:
    """Servers in one directory. A context manager; those given run already and are left alone."""

    def __init__(
        self,
        directory: Path,
        kafka: Kafka | None = None,
        hdfs: Hdfs | None = None,
        hive: Hive | None = None,
    ) -> None:
        self._directory = directory
        self._kafka = kafka
        self._brokers: KafkaCluster | None = None
        self._hdfs = hdfs
        self._alone: Hdfs | None = None
        self._hive = hive
        self._machines: dict[int, deque[Machines]] = {workers: deque() for workers in (1, 2)}
        self._stack = ExitStack()
        self._made = 0
        self._java_options: str | None = None

    def start(self, needs: Collection[Server], *, has_spark: bool) -> None:
        """Start what a real drill needs, side by side, but for what is up. Raises ServiceError.

        `has_spark`: whether its jobs start JVMs.
        """
        starts: list[Callable[[], object]] = []
        starts.append(self.brokers if Server.BROKERS in needs else self.kafka)
        if Server.HDFS in needs:
            starts.append(self.hdfs)
        if Server.HDFS_ALONE in needs:
            starts.append(self.hdfs_alone)
        for need, (count, workers) in CLUSTERS.items():
            missing = count - len(self._machines[workers]) if need in needs else 0
            starts += [partial(self._start_machines, workers)] * missing
        with ThreadPoolExecutor() as pool:
            for started in [pool.submit(each) for each in starts]:
                started.result()
        if Server.METASTORE in needs:
            self.hive()
        if has_spark:
            self.java_options()

    def machines(self, workers: int) -> Machines:
        """Return a cluster that is up, to one taker alone. Raises ServiceError, JavaMissing."""
        if not self._machines[workers]:
            self._start_machines(workers)
        return self._machines[workers].popleft()

    def _start_machines(self, workers: int) -> None:
        directory = self._scratch(f"machines-{unique()}")
        machines = self._stack.enter_context(Machines(directory, workers))
        self._machines[workers].append(machines)

    def kafka(self) -> Kafka:
        """Return the broker, started. Raises ServiceError, JavaMissing."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(Kafka(self._scratch("kafka")))
        return self._kafka

    def brokers(self) -> KafkaCluster:
        """Return three brokers, started. Raises ServiceError, JavaMissing."""
        if self._brokers is None:
            cluster = KafkaCluster(self._scratch("brokers"))
            self._brokers = self._stack.enter_context(cluster)
        return self._brokers

    def hdfs(self) -> Hdfs:
        """Return an HDFS with two NameNodes, started. Raises ServiceError, JavaMissing."""
        if self._hdfs is None:
            self._hdfs = self._stack.enter_context(Hdfs(self._scratch("hdfs")))
        return self._hdfs

    def hdfs_alone(self) -> Hdfs:
        """Return another HDFS with one NameNode, started. Raises ServiceError, JavaMissing."""
        if self._alone is None:
            options = HdfsOptions(namenodes=1, datanodes=1)
            self._alone = self._stack.enter_context(Hdfs(self._scratch("hdfs-alone"), options))
        return self._alone

    def hive(self) -> Hive:
        """Return a metastore of tables on HDFS, started. Raises ServiceError, JavaMissing."""
        if self._hive is None:
            options = HiveOptions(hadoop_conf=self.hdfs().conf_dir)
            self._hive = self._stack.enter_context(Hive(self._scratch("hive"), options))
        return self._hive

    def java_options(self, recorder: Recorder | None = None) -> str:
        """Return options with which the JVM of a job starts sooner.

        The first time on a machine, a small job is run to write down the classes that it needs.
        Where that fails, jobs start as they do without.
        """
        if self._java_options is None:
            if find_archive() is None:
                if recorder is not None:
                    recorder.note("servers", "keeping the classes of Spark, for faster starts")
                with suppress(OSError, ServiceError):  # jobs start without it
                    warm_up()
            self._java_options = find_options()
        return self._java_options

    def site(self, seed: int, options: SiteOptions, recorder: Recorder) -> RealSite:
        """Return a new real site. Starts what it needs."""
        self._made += 1
        directory = self._directory / f"site-{self._made}"
        find_kafka: Callable[[], Broker] = self.brokers if options.brokers > 1 else self.kafka
        with ThreadPoolExecutor() as pool:  # each takes seconds to start
            kafka = pool.submit(find_kafka)
            hdfs = pool.submit(self._find_hdfs, options.lake)
        hive = self.hive() if options.has_metastore else None
        options_of_java = self.java_options(recorder) if options.has_spark else ""
        place = SiteServers(
            directory, kafka.result(), hdfs.result(), hive, options_of_java, self.machines
        )
        recorder.note("servers", f"servers are up; {directory.name} begins")
        return RealSite(seed, options, place, recorder)

    def _find_hdfs(self, lake: str) -> Hdfs | None:
        match lake:
            case "hdfs":
                return self.hdfs()
            case "hdfs alone":
                return self.hdfs_alone()
            case _:
                return None

    def _scratch(self, name: str) -> Path:
        """Return a directory for a server, removed once it has stopped: lakes on disk are kept."""
        directory = self._directory / name
        self._stack.callback(shutil.rmtree, directory, ignore_errors=True)
        return directory

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
