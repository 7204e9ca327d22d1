"""A real Kafka broker from jars: one node, KRaft, on the loopback address.

What it is: broker and controller in one process, data and ports kept in one directory.
What it promises: after `stop` or `kill`, `start` comes back on the same port with the same data;
topics exist only when they are created; transactions work with one broker.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from ashore.errors import ServiceError
from ashore.jobs.jars import SHORT_LIVED, Progress, class_path, find_java, log4j_option
from ashore_lab.services.notes import choose_once
from ashore_lab.services.ports import LOOPBACK, find_free_ports, is_listening
from ashore_lab.services.process import Command, SlowStart
from ashore_lab.services.single import SingleServer

SLOW_START_S = 900.0  # with thousands of partitions to load
STARTED = "Kafka Server started (kafka.server.KafkaRaftServer)"

# One broker: everything internal has one replica. No group waits for members that never come. After
# a kill the controller waits for the session of the former broker to end: 3 s instead of 9.
SINGLE_BROKER = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "broker.heartbeat.interval.ms": "500",
    "broker.session.timeout.ms": "3000",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
}


@dataclass(frozen=True, slots=True)
class BrokerOptions:
    """How to run the broker."""

    settings: Mapping[str, str] = field(default_factory=dict)  # server.properties; they win
    heap: str = "512m"
    java: tuple[str, ...] = ()  # options of the JVM
    start_deadline_s: float = 60  # without a new line in its log


class Kafka(SingleServer):
    """One broker in one directory. As a context manager it is up inside and gone after."""

    name = "kafka"

    def __init__(
        self,
        directory: Path,
        options: BrokerOptions | None = None,
        *,
        progress: Progress | None = None,
    ) -> None:
        super().__init__(directory)
        self.options = options or BrokerOptions()
        self.progress = progress

    @property
    def bootstrap_servers(self) -> str:
        """Return the broker's address as clients expect it."""
        return f"{LOOPBACK}:{self._identity()['port']}"

    def endpoint(self) -> dict[str, str]:
        """Return what clients need."""
        return {"bootstrap_servers": self.bootstrap_servers}

    def start(self) -> None:
        """Start the broker and wait until it serves. The first start formats the directory.

        Raises ServiceError if the port is taken or the broker does not come up.
        """
        jars = class_path("kafka", progress=self.progress)
        port = int(self._identity()["port"])
        self._check_port(port)
        (self.directory / "server.properties").write_text(self._properties(), "utf-8")
        if not (self.directory / "data" / "meta.properties").exists():
            self._format(jars)
        self.process.start(
            Command(self.name, self._java(self.options.java, jars, "kafka.Kafka"), self.directory),
            lambda log: STARTED in log and is_listening(port),
            deadline_s=self.options.start_deadline_s,
            slow=SlowStart(SLOW_START_S, self.progress or _say_nothing),
        )

    def _identity(self) -> dict[str, str | int]:
        """Return cluster id and ports, which are chosen once for a directory."""
        keys = ("cluster", "port", "controller_port")
        return choose_once(
            self.directory / "kafka.json",
            keys,
            lambda: dict(zip(keys, (uuid4().hex[:22], *find_free_ports(2)), strict=True)),
        )

    def _properties(self) -> str:
        own = self._identity()
        controller = f"{LOOPBACK}:{own['controller_port']}"
        settings = {
            **SINGLE_BROKER,
            "listeners": f"PLAINTEXT://{LOOPBACK}:{own['port']},CONTROLLER://{controller}",
            "controller.quorum.voters": f"1@{controller}",
            "log.dirs": str(self.directory / "data"),
            **self.options.settings,
        }
        return "".join(f"{key}={value}\n" for key, value in sorted(settings.items()))

    def _format(self, jars: str) -> None:
        arguments = ("format", "-t", str(self._identity()["cluster"]), "-c", "server.properties")
        command = self._java(SHORT_LIVED, jars, "kafka.tools.StorageTool")[:-1] + arguments
        answer = subprocess.run(
            command, cwd=self.directory, capture_output=True, text=True, check=False
        )
        if answer.returncode:
            raise ServiceError(f"kafka storage format failed: {answer.stdout}{answer.stderr}")

    def _java(self, options: tuple[str, ...], jars: str, main_class: str) -> tuple[str, ...]:
        return (
            str(find_java()),
            f"-Xmx{self.options.heap}",
            *options,
            log4j_option(self.directory),
            "-cp",
            jars,
            main_class,
            "server.properties",
        )


def _say_nothing(_text: str) -> None:
    """Drop a message."""
