"""Records, and batches of Kafka, that exceed the limits of a job: they block it, or are skipped.

The bombs are really produced: zeros that zstd makes a few hundred bytes of.
"""

import json
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from tests.job_files import job_content
from tests.kafka_tools import Sender, create_topic

from ashore.errors import AshoreError, QueryRefused, RecordsTooLarge, SourceError, Stopped
from ashore.jobs.events import Event
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.entries import Skip
from ashore.log.names import SliceName, query_source
from ashore.log.positions import OffsetRange, ShardKey, ShardRange, StreamShard
from ashore.log.store.reader import read_history
from ashore.proof.verify.job import verify_job
from ashore.queries.spark.sql.memory import out_of_memory
from ashore.queries.tools.skip import apply, wish_of
from ashore.topics.open_job import open_job
from ashore.topics.read import native
from ashore.topics.read.client import Cluster
from ashore.topics.read.limits import ReadLimits
from ashore.topics.read.reading import (
    LIBRDKAFKA,
    RECEIVED_DEFAULT_BYTES,
    KafkaAddress,
    Use,
    read_ranges,
)
from ashore_lab.services.kafka import Kafka

LIMITS = {"record": "1MB", "batch": "4MB"}
SMALL = ReadLimits(1 << 20, 4 << 20)


def value(number: int, size: int = 0) -> bytes:
    return json.dumps({"id": number, "pad": "0" * size}).encode()


def fill(servers: str) -> str:
    """Return a topic of two partitions, of which one has bombs between its records."""
    topic = f"bombs-{uuid4().hex[:8]}"
    create_topic(servers, topic, 2)
    settings: dict[str, str | float] = {
        "compression.type": "zstd",
        "message.max.bytes": 100_000_000,
    }
    settings |= {"batch.size": 100_000_000, "linger.ms": 1_000}
    parts = ([0] * 5, [2_000_000], [0] * 3, [900_000] * 10, [0] * 4)
    numbers = iter(range(100))
    for sizes in parts:  # each a batch: it is flushed when the sender closes
        with Sender(servers, topic, **settings) as sender:
            sender.send([value(next(numbers), size) for size in sizes], partition=0)
    with Sender(servers, topic) as sender:
        sender.send([value(each) for each in range(7)], partition=1)
    return topic


def send_bomb(servers: str, topic: str, size: int) -> None:
    """Send one record, of which zstd makes a batch of a few KB."""
    settings = {"compression.type": "zstd", "message.max.bytes": 2 * size}
    with Sender(servers, topic, **settings) as sender:
        sender.send([value(0, size)], partition=0)


def write_job(kafka: Kafka, directory: Path, topic: str, reader: str, **limits: str) -> Path:
    path = directory / "job.yaml"
    content = job_content(
        kafka.bootstrap_servers, directory, topic, reader=reader, limits={**LIMITS, **limits}
    )
    path.write_text(json.dumps(content))
    return path


def run(job_file: Path) -> tuple[int, list[Event]]:
    launch = JobLaunch("run", job_file, LaunchOptions(available_now=True, uses_spark=False))
    launch.start()
    try:
        events = list(launch.events())
        return launch.wait(), events
    finally:
        launch.kill()


def landed(job_file: Path) -> dict[int, set[int]]:
    rows = pq.read_table(job_file.parent / "lake" / "ods.db" / "events")
    found: dict[int, set[int]] = {}
    for place, offset in zip(
        rows["kafka_partition"].to_pylist(), rows["kafka_offset"].to_pylist(), strict=True
    ):
        assert offset not in found.setdefault(place, set())
        found[place].add(offset)
    return found


def skip_to(job_file: Path, topic: str, to: int) -> None:
    with open_job(job_file) as opened:
        apply(opened, wish_of(opened, f"{topic}/0", to, "a bomb"), takes_over=False)


def offsets(*parts: range) -> set[int]:
    return {each for part in parts for each in part}


@pytest.mark.thirds("slow by itself")
def test_what_is_too_large_stops_the_job_and_can_be_skipped(kafka: Kafka, tmp_path: Path) -> None:
    topic = fill(kafka.bootstrap_servers)
    job_file = write_job(kafka, tmp_path, topic, "native")

    code, events = run(job_file)

    assert code == RecordsTooLarge.exit_code, events[-3:]
    assert landed(job_file) == {0: offsets(range(5)), 1: offsets(range(7))}
    told = str(events)
    assert "records-too-large" in told, told
    assert f"{topic}/0 --to 6" in told, told
    with pytest.raises(Stopped):  # it gives up no record that can be read
        skip_to(job_file, topic, 7)
    skip_to(job_file, topic, 6)

    code, events = run(job_file)

    assert code == RecordsTooLarge.exit_code, events[-3:]
    assert landed(job_file)[0] == offsets(range(5), range(6, 9))
    assert f"{topic}/0 --to 19" in str(events), events
    skip_to(job_file, topic, 19)
    assert run(job_file)[0] == 0
    assert landed(job_file)[0] == offsets(range(5), range(6, 9), range(19, 23))
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, verdict.problems


# The same offsets of the native reader are skipped by a command above.
@pytest.mark.parametrize("reader", ["python", pytest.param("native", marks=pytest.mark.long)])
def test_a_job_may_skip_what_is_too_large(kafka: Kafka, tmp_path: Path, reader: str) -> None:
    topic = fill(kafka.bootstrap_servers)
    job_file = write_job(kafka, tmp_path, topic, reader, on_too_large="skip")

    code, events = run(job_file)

    assert code == 0, events
    # librdkafka decompresses what it fetches; only what it hands out can be measured.
    unpacked = range(9, 19) if reader == "python" else range(0)
    parts = (range(5), range(6, 9), unpacked, range(19, 23))
    assert landed(job_file) == {0: offsets(*parts), 1: offsets(range(7))}
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
        bodies = [each.body for each in read_history(opened.storage, opened.name)]
    skips = [each for each in bodies if isinstance(each, Skip)]
    assert verdict.exit_code == 0, verdict.problems
    assert [(each.by, each.why) for each in skips] == [("job", "limits: on_too_large: skip")] * len(
        skips
    )
    assert sum(each.offsets.size for skip in skips for each in skip.ranges) == 23 - len(
        offsets(*parts)
    )


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_limits_hold_for_each_codec(kafka: Kafka, codec: str) -> None:
    """Of the native reader both do, of librdkafka that of a record."""
    servers, topic = kafka.bootstrap_servers, f"codec-{codec}-{uuid4().hex[:8]}"
    create_topic(servers, topic, 3)
    settings: dict[str, str | float] = {"compression.type": codec, "linger.ms": 1_000}
    settings |= {"message.max.bytes": 100_000_000, "batch.size": 900_000}
    for partition, sizes in enumerate(([200_000] * 4, [500_000], [200_000] * 4)):
        with Sender(servers, topic, **settings) as sender:
            sender.send([value(each, size) for each, size in enumerate(sizes)], partition=partition)
    limits = {0: ReadLimits(300_000, 700_000), 1: ReadLimits(300_000), 2: ReadLimits(300_000)}

    def read(partition: int, use: Use) -> tuple[int, int] | int:
        shard, end = StreamShard(topic, str(partition)), 1 if partition == 1 else 4
        cluster = Cluster.of(servers, {}, 20.0)
        bounded = replace(use, limits=limits[partition])
        try:
            batches = list(read_ranges(cluster, {shard: OffsetRange(0, end)}, bounded))
        except RecordsTooLarge as error:
            return error.fields["start"], error.fields["end"]
        return sum(each.num_rows for each in batches)

    assert read(0, Use()) == (0, 4)
    assert read(1, Use()) == read(1, LIBRDKAFKA) == (0, 1)
    assert read(2, Use()) == read(2, LIBRDKAFKA) == 4


@pytest.fixture(scope="module")
def bomb(kafka: Kafka) -> str:
    """Return a topic whose record 5 librdkafka does not decompress by its defaults."""
    servers, topic = kafka.bootstrap_servers, f"bomb-{uuid4().hex[:8]}"
    create_topic(servers, topic)
    with Sender(servers, topic) as sender:
        sender.send([value(each) for each in range(5)])
    send_bomb(servers, topic, RECEIVED_DEFAULT_BYTES + 1)
    with Sender(servers, topic) as sender:
        sender.send([value(each) for each in range(6, 9)])
    return topic


def test_librdkafka_decompresses_no_batch_of_zstd_beyond_its_limit(
    kafka: Kafka, bomb: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = Cluster.of(kafka.bootstrap_servers, {}, 20.0)
    ranges, small = {StreamShard(bomb, "0"): OffsetRange(0, 9)}, replace(LIBRDKAFKA, limits=SMALL)
    read: list[int] = []

    def read_all() -> None:
        for batch in read_ranges(cluster, ranges, small):
            read.extend(batch["offset"].to_pylist())

    with pytest.raises(RecordsTooLarge) as caught:  # the native reader tells which offsets
        read_all()
    assert (caught.value.fields["start"], caught.value.fields["end"]) == (5, 6)
    assert read == [*range(5)]
    monkeypatch.setattr(native, "load_module", lambda: None)
    with pytest.raises(SourceError, match=f"offset 5 of {bomb}/0 .*decompressed"):
        read_all()
    # Who verifies reads what any job may have landed.
    sizes = [
        len(each)
        for batch in read_ranges(cluster, ranges, LIBRDKAFKA)
        for each in batch["value"].to_pylist()
    ]
    assert len(sizes) == len(range(9))
    assert sizes[5] > RECEIVED_DEFAULT_BYTES


@pytest.mark.long  # of a job, what its reader says is shown above
def test_a_job_names_what_librdkafka_does_not_decompress(
    kafka: Kafka, bomb: str, tmp_path: Path
) -> None:
    topic = bomb
    job_file = write_job(kafka, tmp_path, topic, "python")

    code, events = run(job_file)
    assert code == RecordsTooLarge.exit_code, events[-3:]
    assert f"{topic}/0 --to 6" in str(events), events
    assert landed(job_file) == {0: offsets(range(5))}
    skip_to(job_file, topic, 6)


def test_a_query_that_runs_out_of_memory_names_what_is_too_large(kafka: Kafka) -> None:
    """What Spark says then: tests/spark has no room for a record of 400 MB."""
    topic, name = fill(kafka.bootstrap_servers), SliceName("job", "ods__out")
    address = KafkaAddress(kafka.bootstrap_servers, {}, limits=SMALL)
    error = RuntimeError("Lost task 0.0 in stage 0.0: java.lang.OutOfMemoryError: Java heap space")

    def explain(partition: int, end: int, error: Exception = error) -> AshoreError | None:
        key = ShardKey(query_source(name), topic, 0, str(partition))
        return out_of_memory(error, name, address, [ShardRange(key, OffsetRange(0, end))])

    found = explain(0, 9)
    assert isinstance(found, RecordsTooLarge)
    assert f"{topic}/0: offsets 5 to 5 exceed" in str(found)
    assert "spark.driver.memory" in str(found.hint)
    found = explain(1, 7)
    assert isinstance(found, QueryRefused)
    assert f"it read {topic}/1" in str(found)
    assert "out of memory" in str(found)
    assert explain(0, 9, RuntimeError("another")) is None
