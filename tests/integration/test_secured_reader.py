"""The native reader over TLS and with logins, and what the user hears where these are refused."""

import itertools
import json
import logging
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pyarrow.parquet as pq
import pytest
from tests.fetched_rows import rows
from tests.job_files import job_content
from tests.kafka_tools import Sender, Transaction, create_topic
from tests.secured_kafka import (
    CERTIFICATES,
    IDENTITY,
    LISTENERS,
    PASSWORD,
    SESSION_MS,
    TRUST,
    WAYS,
    SecuredKafka,
    login,
)
from tests.served import ServedJob, kill_jobs, serving, wait_for
from tests.tampering import TamperingTlsProxy
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import SourceError
from ashore.jobs.events import Started
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.store.reader import read_history
from ashore.topics.open_job import open_job
from ashore.topics.read import histories, native
from ashore.topics.read.client import Cluster
from ashore.topics.read.histories import find_refused
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.native import GaveUp, RawReading, choose_reader
from ashore.topics.read.reading import LIBRDKAFKA, KafkaAddress, read_ranges
from ashore.topics.read.source import Position
from ashore_lab.services.ports import LOOPBACK

LARGE_BATCHES: dict[str, str | float] = {"linger.ms": 200, "batch.size": 900_000}
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    with SecuredKafka(tmp_path_factory.mktemp("secured")) as kafka:
        yield kafka


@pytest.fixture(params=WAYS)
def way(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def read_raw(cluster: Cluster, ranges: dict[StreamShard, OffsetRange]) -> RawReading:
    """Return a reading by the native reader alone."""
    assert choose_reader(cluster).is_raw, choose_reader(cluster).why_not
    return RawReading(cluster, ranges, ())


def whole(wanted: dict) -> dict[StreamShard, OffsetRange]:
    return {shard: OffsetRange(0, len(values)) for shard, values in wanted.items()}


def fill(
    secured: SecuredKafka, partitions: int, count: int, size: int
) -> dict[StreamShard, list[tuple[int, bytes]]]:
    """Return what a new topic holds."""
    topic, wanted = f"secured-{uuid4().hex[:8]}", {}
    create_topic(secured.servers, topic, partitions)
    for partition in range(partitions):
        values = [(b"%d/%d " % (partition, each)).ljust(size, b".") for each in range(count)]
        settings = {"compression.type": CODECS[partition % 5], "batch.num.messages": 50}
        with Sender(secured.servers, topic, **settings) as sender:
            sender.send(values, partition=partition)
        wanted[StreamShard(topic, str(partition))] = list(enumerate(values))
    return wanted


@pytest.mark.thirds
def test_every_record_comes_by_each_way(secured: SecuredKafka, way: str) -> None:
    wanted = fill(secured, 6, 2_000, 700)
    reading = read_raw(secured.by_way(way), whole(wanted))

    assert rows(reading.read()) == wanted
    assert reading.counts["damaged"] == 0
    assert reading.counts["bytes"] > 2_000 * 700


@pytest.mark.thirds
def test_batches_larger_than_a_fetch_come_whole_by_each_way(
    secured: SecuredKafka, way: str
) -> None:
    topic, limits = f"large-{uuid4().hex[:8]}", {"message.max.bytes": 5_000_000}
    create_topic(secured.servers, topic, 2, {"max.message.bytes": "5000000"})
    bodies = [bytes([each]) * 3_000_000 for each in range(4)]
    for partition in (0, 1):
        with Sender(secured.servers, topic, **limits) as sender:
            sender.send(bodies, partition=partition)
    wanted = {StreamShard(topic, str(each)): list(enumerate(bodies)) for each in (0, 1)}

    assert rows(read_raw(secured.by_way(way), whole(wanted)).read()) == wanted


@pytest.fixture(scope="module")
def transactions(secured: SecuredKafka) -> tuple[StreamShard, int, list[tuple[int, bytes]]]:
    """Return a partition of many small transactions, its end, and the records to be read."""
    topic, end = f"small-{uuid4().hex[:8]}", 0
    create_topic(secured.servers, topic)
    wanted: list[tuple[int, bytes]] = []
    for turn in range(20):
        values = [b"%d/%d" % (turn, each) for each in range(turn + 1)]
        with Transaction(secured.servers, topic, topic) as transaction:
            transaction.send(values, partition=0)
            if turn % 3:
                transaction.commit()
                wanted += enumerate(values, end)
            else:
                transaction.abort()
        end += len(values) + 1
    return StreamShard(topic, "0"), end, wanted


@pytest.mark.thirds
def test_small_answers_and_transactions_by_each_way(
    secured: SecuredKafka,
    transactions: tuple[StreamShard, int, list[tuple[int, bytes]]],
    way: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(native, "FETCH_BYTES", 1_000)  # an answer for each batch
    shard, end, wanted = transactions

    assert rows(read_raw(secured.by_way(way), {shard: OffsetRange(0, end)}).read())[shard] == wanted


def test_certificates_and_keys_within_the_options(secured: SecuredKafka) -> None:
    client = (CERTIFICATES / "client.pem").read_text("utf-8")
    key, begin, certificate = client.partition("-----BEGIN CERTIFICATE-----")
    options = {
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": (CERTIFICATES / "ca.pem").read_text("utf-8"),
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": key,
        "ssl.keystore.certificate.chain": begin + certificate,
    }
    wanted = fill(secured, 1, 10, 10)

    assert rows(read_raw(secured.cluster("MUTUAL", options), whole(wanted)).read()) == wanted


def test_a_certificate_of_another_host_is_taken_where_the_options_say_so(
    secured: SecuredKafka,
) -> None:
    any_host = {"ssl.endpoint.identification.algorithm": ""}
    wanted = fill(secured, 1, 10, 10)

    reading = read_raw(secured.cluster("ELSEWHERE", {**TRUST, **any_host}), whole(wanted))
    assert rows(reading.read()) == wanted

    with pytest.raises(GaveUp, match="UnknownIssuer"):
        list(read_raw(secured.cluster("ELSEWHERE", {**DISTRUST, **any_host}), ANYTHING).read())


def test_a_login_is_made_again_before_its_session_ends(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "FETCH_BYTES", 20_000)
    monkeypatch.setattr(native, "BATCH_RECORDS", 50)
    wanted = fill(secured, 1, 2_000, 1_000)
    reading = read_raw(secured.cluster("SHORT", login("PLAIN")), whole(wanted))
    batches = []
    for batch in reading.read():
        batches.append(batch)
        time.sleep(4 * SESSION_MS / 1_000 / 40)  # there are 40 of them

    assert rows(batches) == wanted
    assert reading.counts["leader_lookups"] == 1, "a connection was lost"


def test_a_broker_that_is_killed_is_waited_for(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(native, "FETCH_BYTES", 100_000)
    monkeypatch.setattr(native, "BATCH_RECORDS", 100)
    wanted = fill(secured, 4, 1_000, 1_000)
    reading = read_raw(secured.by_way("SASL_SSL, SCRAM-SHA-512", 240.0), whole(wanted))
    batches = []
    for batch in reading.read():
        batches.append(batch)
        if len(batches) == 8:
            secured.broker.kill()
            secured.broker.start()

    assert rows(batches) == wanted


# --- what is between ---------------------------------------------------------------------------


@pytest.fixture
def proxy(secured: SecuredKafka) -> Iterator[TamperingTlsProxy]:
    """A proxy that sees records of TLS, before the listener PROXIED."""
    port = int(secured.places["PROXIED"].rpartition(":")[2])
    with TamperingTlsProxy(secured.proxy_port, port) as proxy:
        proxy.tamper = lambda _number, record: record
        yield proxy


def nth_large(
    chosen: int, change: Callable[[bytes], bytes | None]
) -> Callable[[int, bytes], bytes | None]:
    """Change one of the records that carry an answer to a fetch, counted over all connections."""
    count = itertools.count()

    def tamper(_number: int, record: bytes) -> bytes | None:
        return change(record) if len(record) > 8_000 and next(count) == chosen else record

    return tamper


def flip(record: bytes) -> bytes:
    return record[:500] + bytes((record[500] ^ 1,)) + record[501:]


@pytest.mark.parametrize(
    ("change", "damaged"),
    [(flip, 1), (lambda record: record[:1_000], None), (lambda _record: None, 0)],
    ids=["damaged", "cut", "closed"],
)
def test_a_record_of_tls_that_is_damaged_or_missing_is_fetched_again(
    secured: SecuredKafka,
    proxy: TamperingTlsProxy,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[bytes], bytes | None],
    damaged: int | None,
) -> None:
    monkeypatch.setattr(native, "FETCH_BYTES", 100_000)
    wanted = fill(secured, 1, 1_000, 1_000)
    proxy.tamper = nth_large(10, change)
    reading = read_raw(secured.cluster("PROXIED", TRUST), whole(wanted))

    assert rows(reading.read()) == wanted
    assert reading.counts["leader_lookups"] == 2
    assert damaged in (None, reading.counts["damaged"])


@pytest.mark.parametrize("chunk", [1, 7, 1_021])
def test_bytes_that_come_in_drops_are_all_read(
    secured: SecuredKafka, proxy: TamperingTlsProxy, monkeypatch: pytest.MonkeyPatch, chunk: int
) -> None:
    proxy.chunk = chunk
    monkeypatch.setattr(native, "FETCH_BYTES", 20_000)
    wanted = fill(secured, 2, 100, 20 * chunk)
    started_s = time.monotonic()

    assert rows(read_raw(secured.cluster("PROXIED", TRUST), whole(wanted)).read()) == wanted
    assert time.monotonic() - started_s < 10, "something was there and not looked at"


# --- what is refused ---------------------------------------------------------------------------

TYPO = "a-typo-that-is-secret"
DISTRUST = {
    "ssl.truststore.type": "PEM",
    "ssl.truststore.location": str(CERTIFICATES / "other-ca.pem"),
}
ANYTHING = {StreamShard("anything", "0"): OffsetRange(0, 1)}
PLAIN_LOGIN = {"security.protocol": "SASL_PLAINTEXT", **login("PLAIN")}

# Listener, options, what the native reader says, and what the user hears.
REFUSALS = {
    "password, PLAIN": (
        "SASL_PLAINTEXT",
        login("PLAIN", password=TYPO),
        "refuses the login: Authentication failed",
        "refuses the login",
    ),
    "password, SCRAM": (
        "SASL_SSL",
        {**TRUST, **login("SCRAM-SHA-256", password=TYPO)},
        "refuses the login: Authentication failed",
        "refuses the login",
    ),
    "unknown authority": ("SSL", DISTRUST, "UnknownIssuer", "no TLS connection .*certificate"),
    "host name": ("ELSEWHERE", TRUST, "not valid for name", "no TLS connection .*certificate"),
    "no certificate of the client": ("MUTUAL", TRUST, "fatal alert", "sent nothing .*certificate"),
    "TLS at a plain port": (
        "PLAINTEXT",
        {"security.protocol": "SSL", **TRUST},
        "during the TLS handshake",
        "sent nothing .*in state SSL_HANDSHAKE",  # the words before differ by the moment
    ),
    "login at a port without": (
        "PLAINTEXT",
        PLAIN_LOGIN,
        "refuses the mechanism",
        "does not speak SASL at this port",
    ),
}


@pytest.mark.thirds
@pytest.mark.parametrize("case", REFUSALS)
def test_what_is_refused_is_told_at_once_in_the_words_of_librdkafka(
    secured: SecuredKafka, case: str, caplog: pytest.LogCaptureFixture
) -> None:
    listener, options, said, heard = REFUSALS[case]
    cluster = secured.cluster(listener, options, timeout_s=5.0)
    started_s = time.monotonic()

    with pytest.raises(GaveUp, match=said) as gave_up:
        list(read_raw(cluster, ANYTHING).read())
    assert time.monotonic() - started_s < 2

    with caplog.at_level(logging.DEBUG), pytest.raises(SourceError, match=heard) as with_native:
        list(read_ranges(cluster, ANYTHING))
    with pytest.raises(SourceError, match=heard) as without:
        list(read_ranges(cluster, ANYTHING, LIBRDKAFKA))
    assert with_native.value.hint == without.value.hint
    assert type(with_native.value) is type(without.value)
    for secret in (PASSWORD, TYPO):
        assert secret not in f"{gave_up.value} {with_native.value.to_dict()} {caplog.text}"


def test_a_plain_client_at_a_port_of_tls_gives_up_soon(secured: SecuredKafka) -> None:
    cluster = secured.cluster("SSL", {"security.protocol": "PLAINTEXT"}, timeout_s=20.0)
    started_s = time.monotonic()

    with pytest.raises(GaveUp, match="impossible size"):
        list(read_raw(cluster, ANYTHING).read())

    assert time.monotonic() - started_s < 2


def test_a_handshake_without_an_answer_ends_in_time(
    secured: SecuredKafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server((LOOPBACK, 0)) as silent:  # it accepts, and says nothing
        place = f"{LOOPBACK}:{silent.getsockname()[1]}"
        monkeypatch.setitem(secured.places, "SSL", place)
        started_s = time.monotonic()

        with pytest.raises(GaveUp, match=r"for 2s: .*timed out"):
            list(read_raw(secured.cluster("SSL", TRUST, timeout_s=4.0), ANYTHING).read())

    assert time.monotonic() - started_s < 4


@pytest.mark.parametrize("name", ["ssl.truststore.location", "ssl.keystore.location"])
def test_files_that_are_removed_are_told_by_name(
    secured: SecuredKafka, name: str, tmp_path: Path
) -> None:
    options = {**TRUST, **IDENTITY}
    removed = Path(shutil.copy(options[name], tmp_path / "file.pem"))
    cluster = secured.cluster("MUTUAL", {**options, name: str(removed)})
    removed.unlink()

    with pytest.raises(GaveUp, match=r"file\.pem: No such"):
        list(read_raw(cluster, ANYTHING).read())


def test_a_job_is_told_that_the_native_reader_reads(secured: SecuredKafka) -> None:
    listener, options = WAYS["SASL_SSL, SCRAM-SHA-512"]
    protocol = {"security.protocol": "SASL_SSL"}

    told = KafkaAddress(secured.places[listener], {**protocol, **options}).describe_reader()

    assert told.startswith("native, ")
    assert "librdkafka" not in told


@pytest.mark.parametrize("way", ["mutual TLS", "SASL_SSL, SCRAM-SHA-512"])
def test_a_job_lands_by_the_native_reader(secured: SecuredKafka, way: str, tmp_path: Path) -> None:
    listener, options = WAYS[way]
    topic, count = f"job-{uuid4().hex[:8]}", 500
    create_topic(secured.servers, topic, 2)
    for partition in (0, 1):
        values = [json.dumps({"id": each}).encode() for each in range(count)]
        with Sender(secured.servers, topic) as sender:
            sender.send(values, partition=partition)
    content: dict[str, Any] = job_content(secured.places[listener], tmp_path, topic)
    protocol = {"security.protocol": LISTENERS[listener]}
    content["source"]["kafka"]["options"] = {**protocol, **options}
    job_file = tmp_path / "job.yaml"
    job_file.write_text(json.dumps(content))

    launch = JobLaunch("run", job_file, LaunchOptions(available_now=True, uses_spark=False))
    launch.start()
    try:
        events = list(launch.events())
        assert launch.wait() == 0, launch.log_path.read_text()
    finally:
        launch.kill()
        launch.wait()

    told = [each.reader for each in events if isinstance(each, Started)]
    assert len(told) == 1
    assert "librdkafka" not in str(told)
    rows = pq.read_table(tmp_path / "lake" / "ods.db" / "events")
    assert sorted(rows["id"].to_pylist()) == sorted([*range(count), *range(count)])
    with open_job(job_file) as opened:
        entries = list(read_history(opened.storage, opened.name))
    assert "reader_fallbacks" not in str(entries)
    assert PASSWORD not in launch.log_path.read_text()


# --- the ends of leader epochs -------------------------------------------------------------------


@pytest.mark.long  # a broker that is killed is waited for, above
def test_leaders_are_asked_after_a_restart_under_a_backlog(
    secured: SecuredKafka, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By each way, and by what users start: an audit, and a job of a server."""
    monkeypatch.setattr(histories, "_ask_by_fetching", None)  # which nothing may need
    site = ServedJob(tmp_path, secured.servers, partitions=3)
    job_file = site.jobs / "landing.yaml"
    content = json.loads(job_file.read_text())
    listener, options = WAYS["SASL_SSL, SCRAM-SHA-512"]
    content["source"]["kafka"] = {
        "bootstrap_servers": secured.places[listener],
        "options": {"security.protocol": LISTENERS[listener], **options},
    }
    job_file.write_text(json.dumps(content))
    shards = [StreamShard(site.topic, str(each)) for each in range(3)]
    first, backlog = 30, 15_000

    def start(client: httpx.Client, wanted: int) -> None:
        client.post("/api/jobs/landing/start", json={}).raise_for_status()
        wait_for(site.rows_in_log, lambda rows: rows == wanted)

    with serving(site.jobs) as (client, _server), ExitStack() as stack:
        stack.callback(kill_jobs, site.files)
        with Sender(secured.servers, site.topic) as sender:
            for each in range(3):
                sender.send([b'{"id": 1}'] * (first // 3), partition=each)
        start(client, first)
        client.post("/api/jobs/landing/stop", json={}).raise_for_status()
        wait_for(lambda: client.get("/api/jobs/landing").json()["phase"], "stopped".__eq__)
        with closing(KafkaSource(secured.servers, {})) as source:
            there = source.read_offsets(shards)
        secured.broker.restart()
        with Sender(secured.servers, site.topic, **LARGE_BATCHES) as sender:
            sender.send([b'{"id": 1, "more": "%b"}' % (b"x" * 1_000)] * backlog)

        positions = {each: Position(at.end, at.leader_epoch or 0) for each, at in there.items()}
        for way in WAYS:
            cluster = secured.by_way(way, 5.0)
            assert find_refused(cluster.open_admin(), positions) == {}, way
        audited = CliRunner().invoke(app, ["audit", str(job_file)])
        assert audited.exit_code == 0, audited.output
        start(client, first + backlog)
    logs = [each.read_text("utf-8", "replace") for each in site.files.runs.rglob("*.log")]
    assert "asks for epochs" not in "".join(logs)
