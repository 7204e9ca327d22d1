"""The Kafka source against a broker with logins, TLS, permissions, a busy cleaner, and a death."""

import subprocess
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from uuid import uuid4

import pytest
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from tests.fixtures_servers import READERS
from tests.kafka_tools import (
    Transaction,
    create_topic,
    produce,
)
from tests.marks import but

from ashore.errors import (
    SourceError,
    SourceUnreachable,
)
from ashore.jobs.jars import SHORT_LIVED, find_java
from ashore.log.plan_batch import ShardOffsets
from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.reading import KafkaAddress
from ashore.topics.read.source import Position, Record
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.ports import LOOPBACK, find_free_ports

TIMEOUT_S = 20.0
PATIENCE_S = 180.0  # a broker that was killed reads its logs first: a busy machine takes a minute
PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"


def first_shard(topic: str) -> StreamShard:
    return StreamShard(topic, "0")


def values(records: Iterator[Record]) -> list[bytes | None]:
    return [each.value for each in records]


@dataclass(frozen=True)
class StrictKafka:
    """A broker that the tools reach openly, as a superuser, and the source by login or TLS."""

    broker: Kafka
    tools: str
    login: str
    tls: str
    certificate: Path  # the broker's own, PEM
    keystore: Path  # PKCS12: the broker's, and the client's too


KEYSTORE_PASSWORD = "opensesame"


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Return a self-signed certificate for the loopback address, as PEM and as PKCS12."""
    certificate, keystore = directory / "broker.pem", directory / "broker.p12"
    keytool = find_java().with_name("keytool")
    store = f"-keystore {keystore} -storetype PKCS12 -storepass {KEYSTORE_PASSWORD} -alias it"
    make = "-genkeypair -keyalg EC -dname CN=broker -validity 10"
    for command in (f"{make} -ext san=ip:{LOOPBACK}", f"-exportcert -rfc -file {certificate}"):
        arguments = f"{command} {store}".split()
        subprocess.run([keytool, *arguments], check=True, capture_output=True)
    return certificate, keystore


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StrictKafka]:
    directory = tmp_path_factory.mktemp("strict")
    login, tls, controller = (f"{LOOPBACK}:{port}" for port in find_free_ports(3))
    tools = Kafka(directory).bootstrap_servers
    certificate, keystore = make_certificate(directory)
    settings = {
        "listeners": f"PLAINTEXT://{tools},SASL_PLAINTEXT://{login},SSL://{tls},"
        f"CONTROLLER://{controller}",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,"
        "SASL_PLAINTEXT:SASL_PLAINTEXT,SSL:SSL",
        "controller.quorum.voters": f"1@{controller}",
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-512",
        "listener.name.sasl_plaintext.plain.sasl.jaas.config": f"{PLAIN} required"
        ' user_alice="wonderland" user_mallory="looking-glass";',
        "listener.name.sasl_plaintext.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.password": KEYSTORE_PASSWORD,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(certificate),
        "ssl.client.auth": "required",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
        "log.cleaner.backoff.ms": "100",
    }
    with Kafka(directory, BrokerOptions(settings=settings, java=SHORT_LIVED)) as broker:
        admin = AdminClient({"bootstrap.servers": tools, "log_level": 0})
        done(admin.create_acls([allow(ResourceType.TOPIC, "open", "*")]))
        scram = UserScramCredentialUpsertion(
            "carol", ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096), b'quo"te\\d'
        )
        done(admin.alter_user_scram_credentials([scram]))
        yield StrictKafka(broker, tools, login, tls, certificate, keystore)


def allow(kind: ResourceType, prefix: str, user: str) -> AclBinding:
    """Return the permission to read everything of `kind` whose name begins with `prefix`."""
    return AclBinding(
        kind,
        prefix,
        ResourcePatternType.PREFIXED,
        f"User:{user}",
        "*",
        AclOperation.READ,
        AclPermissionType.ALLOW,
    )


def done(answers: Mapping[object, Future[None]]) -> None:
    for each in answers.values():
        each.result(20)


def login(user: str, password: str, mechanism: str = "PLAIN") -> dict[str, str]:
    """Return the Java client's options for a login."""
    module = PLAIN if mechanism == "PLAIN" else SCRAM
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f'{module} required username="{user}" password="{password}";',
    }


@pytest.mark.parametrize(
    "options",
    [
        login("alice", "wonderland"),
        login("carol", r"quo\"te\\d", "SCRAM-SHA-512"),
    ],
    ids=["plain", "scram"],
)
@pytest.mark.usefixtures("consumer")
def test_a_login_without_rights_to_groups_reads(
    strict: StrictKafka, options: dict[str, str]
) -> None:
    topic = f"open-{uuid4().hex[:12]}"
    create_topic(strict.tools, topic)
    produce(strict.tools, topic, [b"x"] * 3)
    source = KafkaSource(strict.login, options, TIMEOUT_S)
    shard = first_shard(topic)

    assert source.read_offsets([shard]) == {shard: ShardOffsets(0, 3, 0)}
    assert values(source.read_again(shard, OffsetRange(0, 3))) == [b"x"] * 3
    assert values(source.read_plain(shard, OffsetRange(0, 3))) == [b"x"] * 3
    assert values(source.read_plain(shard, OffsetRange(1, 2))) == [b"x"]
    assert source.find_truncated({shard: Position(3, 0)}) == {}
    source.close()


def test_a_topic_that_the_user_may_not_see_is_reported(strict: StrictKafka) -> None:
    create_topic(strict.tools, "closed")
    source = KafkaSource(strict.login, login("alice", "wonderland"), TIMEOUT_S)

    assert "closed" not in source.list_streams()
    for ask in (
        lambda: source.describe_streams(["closed"]),
        lambda: source.read_offsets([StreamShard("closed", "0")]),
    ):
        with pytest.raises(SourceError, match="for topic closed: Describe is missing") as reported:
            ask()
        assert "Describe" in reported.value.hint


def test_a_refused_login_is_reported_by_its_name_and_before_the_timeout(
    strict: StrictKafka,
) -> None:
    source = KafkaSource(strict.login, login("alice", "secret-typo"), TIMEOUT_S)
    started_s = time.monotonic()

    with pytest.raises(SourceError, match=r"the login: .*Invalid username") as reported:
        source.list_streams()

    assert "sasl.jaas.config" in reported.value.hint
    assert "secret-typo" not in str(reported.value.to_dict())
    assert time.monotonic() - started_s < TIMEOUT_S / 2


@pytest.mark.usefixtures("consumer")
def test_a_login_that_is_refused_while_a_task_reads_is_reported(strict: StrictKafka) -> None:
    options = login("alice", "secret-typo")
    ranges = {StreamShard("open", "0"): OffsetRange(0, 1)}

    with pytest.raises(SourceError, match=r"the login: .*Invalid username") as reported:
        list(KafkaAddress(strict.login, options, 2.0).read(ranges))

    assert "secret-typo" not in str(reported.value.to_dict())


def test_a_wrong_protocol_is_reported_in_time(strict: StrictKafka) -> None:
    source = KafkaSource(strict.login, {}, timeout_s=1.5)  # it wants a login
    started_s = time.monotonic()

    with pytest.raises(SourceUnreachable) as reported:
        source.list_streams()

    assert "security.protocol" in reported.value.hint
    assert time.monotonic() - started_s < 4


def test_a_tls_client_at_a_plain_port_is_reported(strict: StrictKafka) -> None:
    # What is wrong ends the call; of some attempts the library says only that they were closed.
    source = KafkaSource(strict.tools, {"security.protocol": "SSL"}, timeout_s=5.0)

    with pytest.raises(SourceError, match="not speak TLS"):
        source.list_streams()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_login_at_a_listener_without_logins_is_told(strict: StrictKafka, mechanism: str) -> None:
    source = KafkaSource(strict.tools, login("alice", "wonderland", mechanism), TIMEOUT_S)

    with pytest.raises(SourceError, match="not speak SASL") as told:
        source.list_streams()

    assert "a listener that does" in told.value.hint
    assert "wonderland" not in str(told.value.to_dict())


def trust(strict: StrictKafka) -> dict[str, str]:
    return {
        "security.protocol": "SSL",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(strict.certificate),
    }


def identity(strict: StrictKafka) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.location": str(strict.keystore),
        "ssl.keystore.password": KEYSTORE_PASSWORD,
    }


@pytest.mark.usefixtures("consumer")
def test_tls_with_certificates_on_both_sides(strict: StrictKafka) -> None:
    topic = f"open-{uuid4().hex[:12]}"
    create_topic(strict.tools, topic)
    produce(strict.tools, topic, [b"x"])

    source = KafkaSource(strict.tls, trust(strict) | identity(strict), TIMEOUT_S)
    assert values(source.read_again(first_shard(topic), OffsetRange(0, 1))) == [b"x"]


def test_tls_without_the_certificate_of_either_side_is_reported(strict: StrictKafka) -> None:
    no_trust = {"security.protocol": "SSL", **identity(strict)}
    with pytest.raises(SourceError, match=r"no TLS connection .*certificate"):
        KafkaSource(strict.tls, no_trust, TIMEOUT_S).list_streams()
    with pytest.raises(SourceError):  # the broker asks for a certificate
        KafkaSource(strict.tls, trust(strict), 4).list_streams()


@pytest.mark.usefixtures("consumer")
def test_compaction_holes_are_no_end(strict: StrictKafka) -> None:
    topic = f"compacted-{uuid4().hex[:12]}"
    config = {
        "cleanup.policy": "compact",
        "segment.ms": "200",
        "min.cleanable.dirty.ratio": "0.001",
        "delete.retention.ms": "0",
    }
    create_topic(strict.tools, topic, 1, config)
    shard, source = first_shard(topic), KafkaSource(strict.tools, {}, TIMEOUT_S)
    for turn in range(3):  # each turn overwrites nine of the ten keys of the one before
        keys = [b"only %d" % turn] + [b"%d" % each for each in range(9)]
        produce(strict.tools, topic, [b"turn %d" % turn] * 10, partition=0, keys=keys)
        time.sleep(0.3)
    with Transaction(strict.tools, topic, "compacted") as transaction:
        transaction.send([b"last"], partition=0, keys=[b"last"])
        transaction.abort()

    def read(start: int, end: int) -> list[int]:
        return [each.offset for each in source.read_again(shard, OffsetRange(start, end))]

    deadline_s = time.monotonic() + 30
    while read(0, 20) != [0, 10]:
        assert time.monotonic() < deadline_s, "the broker did not compact"
        time.sleep(0.2)

    assert source.read_offsets([shard])[shard] == ShardOffsets(0, 32, 0)
    assert read(0, 32) == [0, 10, *range(20, 30)]
    assert read(1, 9) == []  # wholly in a hole
    assert read(5, 21) == [10, 20]  # begins and ends beside holes
    assert read(30, 32) == []  # an aborted record and its marker


# Every day by Python's client; test_secured_reader.py has the same for the native reader.
@pytest.mark.parametrize(
    "consumer", but(pytest.mark.long, READERS, lambda reader: reader == "python"), indirect=True
)
@pytest.mark.usefixtures("consumer")
def test_a_broker_that_dies_and_comes_back_is_waited_for(
    strict: StrictKafka, capfd: pytest.CaptureFixture[str]
) -> None:
    topic, count = f"restart-{uuid4().hex[:12]}", 10_000
    create_topic(strict.tools, topic)
    produce(strict.tools, topic, (b"%d" % each + b"x" * 20_000 for each in range(count)))
    shard, source = first_shard(topic), KafkaSource(strict.tools, {}, 60.0)
    reading = source.read_again(shard, OffsetRange(0, count))
    found = [next(reading).offset]
    capfd.readouterr()

    strict.broker.kill()
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(source.read_offsets, [shard])
        strict.broker.start()
        found += [each.offset for each in reading]

        there = asked.result(60)[shard]
        assert (there.earliest, there.end) == (0, count)  # under whichever leader
    assert found == list(range(count))
    assert capfd.readouterr() == ("", "")  # the library's complaints are not for the terminal


@pytest.mark.long  # test_raw_reader.py kills leaders
def test_offsets_asked_while_a_broker_dies_are_right_or_waited_for(strict: StrictKafka) -> None:
    # A call that the death cuts in two was once answered with -1001, the library's "no offset".
    topic, count = f"cut-{uuid4().hex[:12]}", 100
    create_topic(strict.tools, topic)
    produce(strict.tools, topic, [b"x"] * count)
    shard, is_over = first_shard(topic), Event()

    def ask() -> set[ShardOffsets]:
        source, found = KafkaSource(strict.tools, {}, PATIENCE_S), set()
        while not is_over.is_set():
            found.add(source.read_offsets([shard])[shard])
        return found

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask) for _ in range(6)]
        for _ in range(2):
            time.sleep(0.5)  # all of them ask
            strict.broker.kill()
            strict.broker.start()
        is_over.set()

        reported = {
            (there.earliest, there.end) for each in asked for there in each.result(PATIENCE_S)
        }
        assert reported == {(0, count)}
