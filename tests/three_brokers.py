"""Three real brokers, and their topics and leaders."""

from confluent_kafka import ElectionType, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from tests.kafka_tools import WAIT_S, wait_for_partitions, wait_until

from ashore_lab.services.kafka_cluster import KafkaCluster
from ashore_lab.services.producer import wait_for_replicas


class ThreeBrokers(KafkaCluster):
    """As a context manager they are up inside and gone after."""

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
        wait_for_replicas(self.bootstrap_servers, topic)

    def move_leaders_back(self, topic: str) -> None:
        """Give partitions back to the brokers that are to lead them."""
        places = [TopicPartition(topic, each) for each in self.leaders(topic)]
        admin = self._admin()
        admin.elect_leaders(ElectionType.PREFERRED, places).result(WAIT_S)

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers, "log_level": 0})
