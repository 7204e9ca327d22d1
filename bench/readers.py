"""What reading a record costs: the native reader against Python's client, both into columns.

    python -m bench.readers

Each figure is CPU time of this process, all its threads, for the records of bench.peers in a topic
of eight partitions, lz4, on a broker of this machine; best of seven, turn by turn. Large records
also by TLS, and by TLS with a login.
"""

import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)

from ashore.log.positions import OffsetRange, StreamShard
from ashore.topics.read.client import Cluster
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.native import choose_reader
from ashore.topics.read.reading import LIBRDKAFKA, Ranges, ReadReport, Use, read_ranges
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.ports import LOOPBACK, find_free_ports
from bench.peers.workload import PARTITIONS, SHAPES, Shape, fill_topic
from bench.table import Row
from bench.tasks import Stopwatch

RECORDS = {"small": 1_600_000, "large": 200_000}
ROUNDS = 7
REPORT = ReadReport()
READERS = {"native": Use(report=REPORT), "librdkafka": LIBRDKAFKA}
CERTIFICATES = Path(__file__).parents[1] / "tests" / "certificates"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
USER, PASSWORD = "bench", "of no worth"
TRUST = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(CERTIFICATES / "ca.pem")}
# How a broker is reached, and the options of a job for it.
WAYS: Mapping[str, Mapping[str, str]] = {
    "PLAINTEXT": {},
    "SSL": {"security.protocol": "SSL", **TRUST},
    "SASL_SSL": {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": f'{SCRAM} required username="{USER}" password="{PASSWORD}";',
        **TRUST,
    },
}


def places_of(folder: Path) -> dict[str, str]:
    """Return where a broker in this folder listens, by name of the listener."""
    own = Kafka(folder).bootstrap_servers
    return dict(
        zip(WAYS, [own, *(f"{LOOPBACK}:{each}" for each in find_free_ports(2))], strict=True)
    )


def broker_options(places: Mapping[str, str]) -> BrokerOptions:
    """Return the settings of a broker that listens at these places."""
    (controller,) = find_free_ports(1)
    listeners = {**places, "CONTROLLER": f"{LOOPBACK}:{controller}"}
    return BrokerOptions(
        settings={
            "listeners": ",".join(f"{name}://{place}" for name, place in listeners.items()),
            "listener.security.protocol.map": ",".join(f"{name}:{name}" for name in WAYS)
            + ",CONTROLLER:PLAINTEXT",
            "controller.quorum.voters": f"1@{LOOPBACK}:{controller}",
            "sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{SCRAM} required;",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(CERTIFICATES / "broker.pem"),
        }
    )


def add_user(servers: str) -> None:
    """Let the broker know who logs in."""
    known = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_512, 4096)
    change = UserScramCredentialUpsertion(USER, known, PASSWORD.encode())
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
    for each in admin.alter_user_scram_credentials([change]).values():
        each.result(20)


def measure(places: Mapping[str, str], shape: Shape, count: int) -> Iterator[Row]:
    """Read a topic of records of this shape by each way and each reader."""
    servers = places["PLAINTEXT"]
    size = fill_topic(servers, shape.name, shape, count)
    print(f"{shape.name}: {count} records of {size / count:.0f} bytes")
    source = KafkaSource(servers, {})
    there = source.read_offsets([StreamShard(shape.name, str(each)) for each in range(PARTITIONS)])
    source.close()
    ranges = {shard: OffsetRange(each.earliest, each.end) for shard, each in there.items()}
    for way, options in WAYS.items():
        if way == "PLAINTEXT" or shape.name == "large":
            cluster = Cluster.of(places[way], options, 30.0)
            yield from measure_way(cluster, f"{shape.name} records by {way}", ranges, count)


def measure_way(cluster: Cluster, what: str, ranges: Ranges, count: int) -> Iterator[Row]:
    """Read ranges by each reader, turn by turn."""
    if not choose_reader(cluster).is_raw:
        raise RuntimeError(f"the native reader does not read: {choose_reader(cluster).why_not}")
    best = dict.fromkeys(READERS, float("inf"))
    quickest = dict.fromkeys(READERS, float("inf"))
    for _ in range(ROUNDS):
        for name, use in READERS.items():
            began_s = time.monotonic()
            with Stopwatch() as watch:
                batches: Iterator[pa.RecordBatch] = read_ranges(cluster, ranges, use)
                read = sum(batch.num_rows for batch in batches)
            if read != count:
                raise RuntimeError(f"{name} read {read} records of {count}")
            best[name] = min(best[name], watch.cpu_s)
            quickest[name] = min(quickest[name], time.monotonic() - began_s)
    if REPORT.counts:
        raise RuntimeError("the native reader gave up")
    for name in READERS:
        cpu_ns, wall_ns = (1e9 * each[name] / count for each in (best, quickest))
        print(
            f"  {what}, {name:10} {cpu_ns:7.0f} ns of CPU time, {wall_ns:7.0f} ns, a record",
            flush=True,
        )
        yield Row(f"{what}, {name}: CPU time per record", cpu_ns, "ns")
    ratio = best["librdkafka"] / best["native"]
    yield Row(f"{what}: librdkafka's CPU time, native = 1", ratio)


def main() -> list[Row]:
    """Read each shape by each reader."""
    with tempfile.TemporaryDirectory() as folder:
        places = places_of(Path(folder))
        with Kafka(Path(folder), broker_options(places)):
            add_user(places["PLAINTEXT"])
            return [
                row
                for name, count in RECORDS.items()
                for row in measure(places, SHAPES[name], count)
            ]


if __name__ == "__main__":
    main()
