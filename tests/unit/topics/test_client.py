"""Asking with a deadline: what is repeated, for how long, and how the cause is told."""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from ashore.errors import JobFileInvalid, SourceError, SourceUnreachable
from ashore.topics.read.client import (
    PASSING,
    UNREACHABLE,
    Admin,
    Cluster,
    Complaints,
    explain_kafka_error,
)
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.reading import KafkaAddress
from ashore_lab.testing import FakeClock


class SilentClient:
    """A client whose connection has these complaints to hand over, one at each poll."""

    def __init__(self, complaints: Complaints, errors: list[KafkaError]) -> None:
        self.complaints = complaints
        self.errors = errors

    def poll(self, _timeout_s: float) -> int:
        if self.errors:
            self.complaints.note(self.errors.pop(0))
        return 0


def admin(clock: FakeClock, complaints: list[KafkaError] | None = None) -> Admin:
    cluster = Cluster("kafka:9092", {}, 20.0, clock)
    noted = Complaints()
    return Admin(cluster, SilentClient(noted, complaints or []), noted)


def failing(clock: FakeClock, *codes: int) -> tuple[list[float], Callable[[object, float], str]]:
    """Return a call that fails with each code in turn, each after the time that it was given."""
    left, given = list(codes), []

    def call(_client: object, wait_s: float) -> str:
        given.append(wait_s)
        if not left:
            return "answer"
        clock.advance(wait_s)
        raise KafkaException(KafkaError(left.pop(0), "as the library says"))

    return given, call


def test_passing_errors_are_asked_again_with_more_time_each() -> None:
    clock = FakeClock()
    given, call = failing(
        clock, KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE
    )
    assert admin(clock).ask(call) == "answer"
    assert given == [3.0, 6.0, pytest.approx(20 - 9 - 2 * 0.1)]


@pytest.mark.parametrize("code", sorted(PASSING))
def test_passing_errors_are_reported_at_the_deadline(code: int) -> None:
    clock = FakeClock()
    begun_s = clock.monotonic_s()
    _, call = failing(clock, *[code] * 100)
    with pytest.raises(SourceError, match="kafka:9092") as reported:
        admin(clock).ask(call)
    assert isinstance(reported.value, SourceUnreachable) == (code in UNREACHABLE)
    assert 19 < clock.monotonic_s() - begun_s < 21


def test_an_answer_that_never_comes_is_reported_as_unreachable() -> None:
    clock = FakeClock()

    def call(_client: object, wait_s: float) -> str:
        clock.advance(wait_s + 1)
        raise TimeoutError

    with pytest.raises(SourceUnreachable, match="within 20 s"):
        admin(clock).ask(call)


def test_other_errors_are_reported_at_once() -> None:
    clock = FakeClock()
    given, call = failing(clock, KafkaError.INVALID_REQUEST)
    with pytest.raises(SourceError, match="INVALID_REQUEST: as the library says"):
        admin(clock).ask(call)
    assert len(given) == 1


def test_a_refused_login_ends_the_asking() -> None:
    clock = FakeClock()
    stale = KafkaError(KafkaError._TRANSPORT, "of an earlier call")
    refused = KafkaError(
        KafkaError._AUTHENTICATION,
        "sasl_ssl://kafka:9092/bootstrap: Invalid username (after 3ms in state AUTH)",
    )
    given, call = failing(clock, *[KafkaError._TIMED_OUT] * 9)
    with pytest.raises(SourceError, match=r"the login: Invalid username$") as reported:
        admin(clock, [stale, refused]).ask(call)
    assert not isinstance(reported.value, SourceUnreachable)
    assert len(given) == 1


def test_a_complaint_of_an_earlier_call_is_forgotten() -> None:
    clock = FakeClock()
    _, call = failing(clock, *[KafkaError._TIMED_OUT] * 9)
    with pytest.raises(SourceUnreachable, match=r"within 20 s: .*library says$"):
        admin(clock, [KafkaError(KafkaError._AUTHENTICATION, "old")]).ask(call)


def test_the_count_of_brokers_that_are_down_hides_no_cause() -> None:
    complaints = Complaints()
    complaints.note(KafkaError(KafkaError._RESOLVE, "kafka:9092/bootstrap: no such host"))
    complaints.note(KafkaError(KafkaError._ALL_BROKERS_DOWN, "1/1 brokers are down"))
    reported = explain_kafka_error(KafkaError(KafkaError._TIMED_OUT), complaints, "kafka:9092", 5)
    assert "5 s: no such host" in reported.message


def test_permission_and_tls_have_hints_of_their_own() -> None:
    denied = explain_kafka_error(
        KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED), Complaints(), "k:1", 5
    )
    assert "Describe and Read" in denied.hint
    handshake = explain_kafka_error(
        KafkaError(KafkaError._SSL, "handshake"), Complaints(), "k:1", 5
    )
    assert "no TLS connection" in handshake.message
    assert "k:1: handshake" in handshake.message


@pytest.mark.parametrize(
    "said",
    [
        (
            "SSL handshake failed: Disconnected: connection reset by peer: connecting to a"
            " PLAINTEXT broker listener? (after 0ms in state SSL_HANDSHAKE)"
        ),
        "Disconnected: SSL connection closed by peer (after 3ms in state SSL_HANDSHAKE)",
        "Disconnected: connection reset by peer (after 0ms in state SSL_HANDSHAKE)",
    ],
)
def test_a_port_that_closes_in_the_tls_handshake_does_not_speak_tls(said: str) -> None:
    complaints = Complaints()
    complaints.note(KafkaError(KafkaError._TRANSPORT, f"ssl://k:1/bootstrap: {said}"))
    reported = explain_kafka_error(KafkaError(KafkaError._TIMED_OUT), complaints, "k:1", 5)
    assert "not speak TLS" in reported.message
    assert "SSL_HANDSHAKE" not in reported.message


def test_a_broker_that_closes_a_connection_is_not_told_to_be_without_tls() -> None:
    complaints = Complaints()
    complaints.note(KafkaError(KafkaError._TRANSPORT, "Disconnected (after 9ms in state UP)"))
    reported = explain_kafka_error(KafkaError(KafkaError._TIMED_OUT), complaints, "k:1", 5)
    assert isinstance(reported, SourceUnreachable)


def test_a_value_that_the_library_refuses_is_an_invalid_job_file() -> None:
    cluster = Cluster.of("kafka:9092", {"request.timeout.ms": "soon"}, 5)
    with pytest.raises(JobFileInvalid, match=r"socket\.timeout\.ms") as reported:
        cluster.open_admin()
    assert reported.value.fields["problems"][0]["key"] == "source.kafka.options"


TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/missing/file"}
KEY_PEM = {"ssl.keystore.type": "PEM", "ssl.keystore.location": "/missing/file"}
KEY_PKCS12 = {**KEY_PEM, "ssl.keystore.type": "PKCS12"}


@pytest.mark.parametrize("reader", ["auto", "python"])
@pytest.mark.parametrize("protocol", ["SSL", "sasl_ssl"])
@pytest.mark.parametrize("store", [TRUST, KEY_PEM, KEY_PKCS12])
def test_a_file_that_is_missing_is_told_by_its_option(
    store: dict[str, str], protocol: str, reader: str
) -> None:
    login = {
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="me" password="secret";',
    }
    options = {"security.protocol": protocol, **store, **login}
    address = KafkaAddress("kafka:9092", options, reader=reader)

    with pytest.raises(JobFileInvalid, match="/missing/file cannot be read") as reported:
        list(address.read({}))
    (problem,) = reported.value.fields["problems"]
    option = next(name for name in store if name.endswith(".location"))
    assert problem["key"] == f"source.kafka.options.{option}"
    assert problem["message"].endswith("No such file or directory")
    with pytest.raises(JobFileInvalid, match="/missing/file"):
        KafkaSource("kafka:9092", options)


def test_files_that_no_connection_uses_may_be_missing() -> None:
    assert Cluster.of("kafka:9092", TRUST, 5).settings
    inline = {**TRUST, "ssl.truststore.certificates": "PEM", "security.protocol": "SSL"}
    assert "ssl.ca.location" not in Cluster.of("kafka:9092", inline, 5).settings


def test_trusted_certificates_may_be_a_directory_and_a_key_may_not(tmp_path: Path) -> None:
    directory = {"security.protocol": "SSL", "ssl.truststore.location": str(tmp_path)}
    assert Cluster.of("kafka:9092", {**TRUST, **directory}, 5).settings

    options = {**KEY_PEM, "security.protocol": "SSL", "ssl.keystore.location": str(tmp_path)}
    with pytest.raises(JobFileInvalid, match="Is a directory"):
        Cluster.of("kafka:9092", options, 5)


def test_secrets_are_not_in_the_cluster_s_text() -> None:
    cluster = Cluster("kafka:9092", {"sasl.password": "secret-thing"}, 5)
    assert "secret-thing" not in repr(cluster)
