"""Three real Kafka brokers, each a controller too: leaders move, and any broker may be restarted.

What it is: three `Kafka` of one KRaft cluster; topics have three replicas unless they name another
number.
What it promises: with two brokers left everything works; after `kill`, `start` comes back with the
same ports and the same data.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from uuid import uuid4

from ashore.jobs.jars import SHORT_LIVED
from ashore_lab.services.guard import Guard
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.notes import choose_once
from ashore_lab.services.ports import LOOPBACK, find_free_ports

IDS = (1, 2, 3)
Own = dict[str, str | int]
REPLICAS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}


class KafkaCluster:
    """As a context manager it is up inside and gone after, also when this process is killed."""

    def __init__(self, directory: Path) -> None:
        cluster, ports = uuid4().hex[:22], find_free_ports(2 * len(IDS))
        controllers = dict(zip(IDS, ports[len(IDS) :], strict=True))
        voters = ",".join(f"{each}@{LOOPBACK}:{port}" for each, port in controllers.items())
        self.brokers: dict[int, Kafka] = {}
        for number, port in zip(IDS, ports, strict=False):
            place = directory / f"broker-{number}"
            place.mkdir(parents=True)
            own: Own = {"cluster": cluster, "port": port, "controller_port": controllers[number]}
            choose_once(place / "kafka.json", tuple(own), own.copy)
            settings = {**REPLICAS, "node.id": str(number), "controller.quorum.voters": voters}
            options = BrokerOptions(settings, heap="256m", java=SHORT_LIVED, start_deadline_s=120)
            self.brokers[number] = Kafka(place, options)

    @property
    def bootstrap_servers(self) -> str:
        """Return the addresses of all brokers as clients expect them."""
        return ",".join(each.bootstrap_servers for each in self.brokers.values())

    def start(self) -> None:
        """Start all brokers side by side: none is up before a majority is. Raises ServiceError."""
        with ThreadPoolExecutor(len(IDS)) as pool:
            list(pool.map(Kafka.start, self.brokers.values()))

    def kill(self) -> None:
        """Kill all brokers with SIGKILL."""
        for each in self.brokers.values():
            each.kill()

    def __enter__(self) -> Self:
        self._guards = [Guard(each.directory) for each in self.brokers.values()]
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        for each in self._guards:
            each.close()
