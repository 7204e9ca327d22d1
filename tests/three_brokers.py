"""Three real brokers, each a controller too: leaders move, and one may be killed at any time.

What it promises: partitions have three replicas; with two brokers left everything works.
"""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self
from uuid import uuid4

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka_tools import WAIT_S, wait_for_partitions, wait_until

from ashore.jobs.java import SHORT_LIVED
from ashore.services.kafka import BrokerOptions, Kafka
from ashore.services.notes import choose_once
from ashore.services.ports import LOOPBACK, find_free_ports

IDS = (1, 2, 3)
REPLICAS = {
    "default.replication.factor": "3",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "unclean.leader.election.enable": "false",
}


class ThreeBrokers:
    """As a context manager they are up inside and gone after."""

    def __init__(self, directory: Path) -> None:
        cluster, ports = uuid4().hex[:22], find_free_ports(2 * len(IDS))
        controllers = dict(zip(IDS, ports[len(IDS) :], strict=True))
        voters = ",".join(f"{each}@{LOOPBACK}:{port}" for each, port in controllers.items())
        self.brokers: dict[int, Kafka] = {}
        for number, port in zip(IDS, ports, strict=False):
            place = directory / f"broker-{number}"
            place.mkdir(parents=True)
            known = {"cluster": cluster, "port": port, "controller_port": controllers[number]}
            choose_once(place / "kafka.json", tuple(known), lambda known=known: known)
            settings = {**REPLICAS, "node.id": str(number), "controller.quorum.voters": voters}
            options = BrokerOptions(settings, heap="256m", java=SHORT_LIVED, start_deadline_s=120)
            self.brokers[number] = Kafka(place, options)

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(each.bootstrap_servers for each in self.brokers.values())

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(len(IDS)) as pool:  # none is up before a majority is
                list(pool.map(Kafka.start, self.brokers.values()))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.brokers.values():
            each.kill()

    def create_topic(self, name: str, partitions: int) -> None:
        """Create a topic with three replicas; wait until it has leaders."""
        admin = self._admin()  # lives as long as its answers are waited for
        admin.create_topics([NewTopic(name, partitions, 3)])[name].result(WAIT_S)
        wait_for_partitions(admin, name, partitions)

    def leaders(self, topic: str) -> dict[int, int]:
        """Return which broker leads each partition; -1: none."""
        found = self._admin().list_topics(topic, WAIT_S).topics[topic].partitions
        return {each.id: each.leader for each in found.values()}

    def wait_for_leaders(self, topic: str, *, without: int | None = None) -> None:
        """Wait until each partition has a leader; with `without`, one that is another broker."""
        wait_until(
            lambda: not {-1, without} & set(self.leaders(topic).values()),
            f"partitions of {topic} have no leaders",
        )

    def wait_for_replicas(self, topic: str) -> None:
        """Wait until every replica is in sync."""

        def are_in_sync() -> bool:
            found = self._admin().list_topics(topic, WAIT_S).topics[topic].partitions
            return all(len(each.isrs) == len(IDS) for each in found.values())

        wait_until(are_in_sync, f"replicas of {topic} are not in sync")

    def move_leaders_back(self, topic: str) -> None:
        """Give partitions back to the brokers that are to lead them."""
        places = [TopicPartition(topic, each) for each in self.leaders(topic)]
        admin = self._admin()
        admin.elect_leaders(ElectionType.PREFERRED, places).result(WAIT_S)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
