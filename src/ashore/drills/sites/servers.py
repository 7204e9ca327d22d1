"""The real servers of drills: each is started when it is first asked for, and shared.

What it is: `Servers`, from which real sites come.
What it promises: at the end everything that was started is stopped.
What it must not know: scenarios.
"""

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Self

from ashore.drills.recorder import Recorder
from ashore.drills.sites.real import Place, RealSite
from ashore.drills.sites.site import SiteOptions
from ashore.services.hdfs import Hdfs, HdfsOptions
from ashore.services.hive import Hive, HiveOptions
from ashore.services.kafka import Kafka


class Servers:
    """Servers in one directory. A context manager; those given run already and are left alone."""

    def __init__(
        self, directory: Path, kafka: Kafka | None = None, hdfs: Hdfs | None = None
    ) -> None:
        self._directory = directory
        self._kafka = kafka
        self._hdfs = hdfs
        self._alone: Hdfs | None = None
        self._hive: Hive | None = None
        self._stack = ExitStack()
        self._made = 0

    def kafka(self) -> Kafka:
        """Return the broker, started. Raises ServiceError, JavaMissing."""
        if self._kafka is None:
            self._kafka = self._stack.enter_context(Kafka(self._scratch("kafka")))
        return self._kafka

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

    def site(self, seed: int, options: SiteOptions, recorder: Recorder) -> RealSite:
        """Return a new real site. Starts what it needs."""
        self._made += 1
        directory = self._directory / f"site-{self._made}"
        hive = self.hive() if options.has_metastore else None
        place = Place(directory, self.kafka(), self._find_hdfs(options.lake), hive)
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
