"""A broker with listeners of each kind: plain, TLS, logins, both, and TLS on both sides."""

from collections.abc import Mapping
from pathlib import Path
from typing import Self

from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ashore.jobs.jars import SHORT_LIVED
from ashore.topics.read.client import Cluster
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.ports import LOOPBACK, find_free_ports

CERTIFICATES = Path(__file__).parent / "certificates"
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
SESSION_MS = 2_500  # of a login at the listener SHORT
PASSWORD = 'quo"te\\d, = ä'

# A listener's name, and what is spoken there.
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SSL": "SSL",
    "MUTUAL": "SSL",
    "ELSEWHERE": "SSL",
    "SASL_PLAINTEXT": "SASL_PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SHORT": "SASL_PLAINTEXT",
    "PROXIED": "SSL",
}
MECHANISMS = {
    "SCRAM-SHA-256": ScramMechanism.SCRAM_SHA_256,
    "SCRAM-SHA-512": ScramMechanism.SCRAM_SHA_512,
}

TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(CERTIFICATES / "ca.pem")}
IDENTITY = {"ssl.keystore.type": "PEM", "ssl.keystore.location": str(CERTIFICATES / "client.pem")}


def login(mechanism: str, user: str = "carol", password: str = PASSWORD) -> dict[str, str]:
    """Return the Java client's options for a login."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    return {
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{quoted}";',
    }


# A name for tests, the listener, and the options beside security.protocol.
WAYS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "PLAINTEXT": ("PLAINTEXT", {}),
    "SSL": ("SSL", TRUST),
    "mutual TLS": ("MUTUAL", {**TRUST, **IDENTITY}),
    "SASL_PLAINTEXT, PLAIN": ("SASL_PLAINTEXT", login("PLAIN")),
    "SASL_PLAINTEXT, SCRAM-SHA-256": ("SASL_PLAINTEXT", login("SCRAM-SHA-256")),
    "SASL_SSL, SCRAM-SHA-512": ("SASL_SSL", {**TRUST, **login("SCRAM-SHA-512")}),
}


class SecuredKafka:
    """One broker; the listener of `servers` is for tools. A context manager.

    The listener PROXIED tells clients to come to `proxy_port`, where a test may listen.
    """

    def __init__(self, directory: Path) -> None:
        own = Kafka(directory).bootstrap_servers
        *ports, self.proxy_port, controller = find_free_ports(len(LISTENERS) + 1)
        places = [own, *(f"{LOOPBACK}:{port}" for port in ports)]
        self.places = dict(zip(LISTENERS, places, strict=True))
        options = BrokerOptions(self._settings(controller), java=SHORT_LIVED)
        self.broker = Kafka(directory, options)
        self.servers = own

    def __enter__(self) -> Self:
        self.broker.start()
        admin = AdminClient({"bootstrap.servers": self.servers, "log_level": 0})
        for mechanism in MECHANISMS.values():
            known = ScramCredentialInfo(mechanism, 4096)
            change = UserScramCredentialUpsertion("carol", known, PASSWORD.encode())
            for each in admin.alter_user_scram_credentials([change]).values():
                each.result(20)
        return self

    def __exit__(self, *_: object) -> None:
        self.broker.stop()

    def cluster(
        self, listener: str, options: Mapping[str, str], timeout_s: float = 60.0
    ) -> Cluster:
        """Return the cluster as a job with these options sees it."""
        protocol = {"security.protocol": LISTENERS[listener]}
        return Cluster.of(self.places[listener], {**protocol, **options}, timeout_s)

    def by_way(self, way: str, timeout_s: float = 60.0) -> Cluster:
        """Return the cluster by one of WAYS."""
        return self.cluster(*WAYS[way], timeout_s)

    def _settings(self, controller_port: int) -> dict[str, str]:
        controller = f"{LOOPBACK}:{controller_port}"
        spoken = {**LISTENERS, "CONTROLLER": "PLAINTEXT"}
        listeners = {**self.places, "CONTROLLER": controller}
        password = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
        # A file of Java's properties: a backslash is doubled, what is no Latin letter is escaped.
        jaas = f'{PLAIN} required user_carol="{password}";'.replace("\\", "\\\\")
        jaas = "".join(each if each.isascii() else f"\\u{ord(each):04x}" for each in jaas)
        settings = {
            "listeners": ",".join(f"{name}://{place}" for name, place in listeners.items()),
            "advertised.listeners": ",".join(
                f"{name}://{place}"
                for name, place in {
                    **self.places,
                    "PROXIED": f"{LOOPBACK}:{self.proxy_port}",
                }.items()
            ),
            "listener.security.protocol.map": ",".join(
                f"{name}:{each}" for name, each in spoken.items()
            ),
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.quorum.voters": f"1@{controller}",
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
            # Topics without ACLs are everybody's.
            "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            "super.users": "User:ANONYMOUS",
            "listener.name.short.plain.connections.max.reauth.ms": str(SESSION_MS),
            **TRUST,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(CERTIFICATES / "broker.pem"),
            "listener.name.elsewhere.ssl.keystore.location": str(CERTIFICATES / "elsewhere.pem"),
            "listener.name.mutual.ssl.client.auth": "required",
        }
        for name, protocol in LISTENERS.items():
            if protocol.startswith("SASL_"):
                prefix = f"listener.name.{name.lower()}"
                settings[f"{prefix}.plain.sasl.jaas.config"] = jaas
                for mechanism in MECHANISMS:
                    key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
                    settings[key] = f"{SCRAM} required;"
        return settings
