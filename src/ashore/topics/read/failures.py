"""What the Kafka client complains of, in the words of Ashore's errors.

What it is: the error codes that matter, the memory of what a connection complained of, and the map
from the library's errors to Ashore's.
What it promises: a call that timed out is reported by its cause where the connection gave one: a
refused login, a failed TLS handshake, a broker that is not there.
"""

# ruff: noqa: SLF001 -- the library's names for its own errors, as against the broker's, begin so

import re
from collections.abc import Iterable
from dataclasses import dataclass

from confluent_kafka import KafkaError

from ashore.errors import SourceError, SourceUnreachable

BAD_COMPRESSION = KafkaError._BAD_COMPRESSION
NO_LEADERS = KafkaError._NOENT
OFFSET_OUT_OF_RANGE = KafkaError._AUTO_OFFSET_RESET
PARTITION_END = KafkaError._PARTITION_EOF
TIMED_OUT = KafkaError._TIMED_OUT

# A topic that does not exist, and what is also said of one whose leaders are not known yet.
ABSENT = frozenset({KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.TOPIC_EXCEPTION})
MAYBE_ABSENT = ABSENT | {NO_LEADERS, KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC}

# What a leader says to a client that knows an older one, or the same of an older epoch.
OLD_LEADER = frozenset(
    {
        KafkaError.FENCED_LEADER_EPOCH,
        KafkaError.NOT_LEADER_FOR_PARTITION,
        KafkaError.UNKNOWN_LEADER_EPOCH,
    }
)

UNREACHABLE = frozenset(
    {
        TIMED_OUT,
        KafkaError._ALL_BROKERS_DOWN,
        KafkaError._RESOLVE,
        KafkaError._TRANSPORT,
        KafkaError.BROKER_NOT_AVAILABLE,
        KafkaError.NETWORK_EXCEPTION,
        KafkaError.REQUEST_TIMED_OUT,
    }
)
PASSING = UNREACHABLE | {
    NO_LEADERS,
    KafkaError._UNKNOWN_PARTITION,
    KafkaError._WAIT_CACHE,
    KafkaError.COORDINATOR_LOAD_IN_PROGRESS,
    KafkaError.COORDINATOR_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.KAFKA_STORAGE_ERROR,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.NOT_CONTROLLER,
    KafkaError.NOT_COORDINATOR,
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.OFFSET_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.UNKNOWN_TOPIC_ID,
    KafkaError.UNKNOWN_TOPIC_OR_PART,
}
LOGIN_REFUSED = frozenset({KafkaError._AUTHENTICATION, KafkaError.SASL_AUTHENTICATION_FAILED})
NOT_ALLOWED = frozenset(
    {
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
    }
)

# Of a consumer that joins no group: the library looks for the coordinator of one all the same.
HARMLESS = PASSING | {KafkaError.GROUP_AUTHORIZATION_FAILED}

# What librdkafka says of a listener without a login, and of one without TLS, which closes in the
# midst of the handshake: by the moment of it the library sees that it failed or only that it ended.
_NO_SASL = re.compile(r"handshake failed: .*supported mechanisms:\s*$")
_NO_TLS = re.compile(
    r"connecting to a PLAINTEXT broker listener\?|Disconnected: .* in state SSL_HANDSHAKE\)"
)


@dataclass(slots=True)
class Complaints:
    """What a connection complained of lately: the cause behind a call that timed out."""

    login: str = ""
    tls: str = ""
    last: str = ""

    @property
    def is_final(self) -> bool:
        """Whether another attempt is of no use."""
        return bool(self.login or self.tls)

    def note(self, error: KafkaError) -> None:
        """Take an error that belongs to no call."""
        if error.code() in LOGIN_REFUSED:
            self.login = error.str()
        elif error.code() == KafkaError._SSL:
            self.tls = error.str()
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:  # it only counts, and hides the cause
            self.last = error.str()

    def clear(self) -> None:
        """Forget: a new call begins."""
        self.login = self.tls = self.last = ""


def explain_kafka_error(
    error: KafkaError, complaints: Complaints, servers: str, timeout_s: float
) -> SourceError:
    """Return the error of Ashore that means `error`, after a call of `timeout_s` to `servers`."""
    code = error.code()
    complaint = _first((complaints.login, complaints.tls, complaints.last, error.str()))
    no_sasl = _NO_SASL.search(_short(complaint))
    if no_sasl or _NO_TLS.search(complaint):
        return SourceError(
            f"Kafka at {servers} does not speak {'SASL' if no_sasl else 'TLS'} at this port:"
            f" {_short(complaint)}",
            hint="write the port of a listener that does, or correct security.protocol in"
            " source.kafka.options",
        )
    if complaints.login or code in LOGIN_REFUSED:
        return SourceError(
            f"Kafka at {servers} refuses the login: {_short(complaints.login, error.str())}",
            hint="check sasl.mechanism and sasl.jaas.config in source.kafka.options",
        )
    if complaints.tls or code == KafkaError._SSL:
        return SourceError(
            f"no TLS connection to Kafka at {servers}: {_short(complaints.tls, error.str())}",
            hint="check the ssl options and security.protocol in source.kafka.options",
        )
    if code in NOT_ALLOWED:
        return SourceError(
            f"Kafka at {servers} denies access: {error.str()}",
            hint="grant the job's user Describe and Read on its topics, and Read on its "
            "commit_group",
        )
    if code in UNREACHABLE:
        return SourceUnreachable(
            f"no broker of {servers} answers within {timeout_s:g} s:"
            f" {_short(complaints.last, error.str())}",
            hint="check that the broker runs, and source.kafka.bootstrap_servers"
            " and security.protocol in source.kafka.options",
        )
    return SourceError(f"Kafka at {servers}: {error.name()}: {error.str()}")


def _short(*reasons: str) -> str:
    """Return the first reason there is, without what the library says of its own threads."""
    reason = _first(reasons)
    return reason.rpartition("/bootstrap: ")[2].partition(" (after ")[0]


def _first(reasons: Iterable[str]) -> str:
    return next(filter(None, reasons), "")
