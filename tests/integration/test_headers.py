"""Record headers on a real broker: every reader of ours makes the same of them, up to the files."""

import base64
import json
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.orc as po
import pytest
from tests.headers import ODD, odd_records
from tests.kafka_tools import consume, create_topic
from tests.raw_headers import RawRecord, produce_raw

from ashore.errors import BadRecord
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.positions import OffsetRange, StreamShard
from ashore.proof.evidence.result import VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.proof.verify.sample import SampleRate
from ashore.topics.open_job import open_job
from ashore.topics.read.client import Cluster
from ashore.topics.read.reading import ANY, LIBRDKAFKA, Use, read_ranges
from ashore.topics.read.record_columns import FETCHED
from ashore_lab.services.kafka import Kafka

FOR_CLIENTS = [name for name, odd in ODD.items() if odd.is_for_clients]
READERS = [ANY, LIBRDKAFKA]


def send(kafka: Kafka, records: list[RawRecord], partitions: int = 1) -> str:
    """Return a new topic with records in partition 0."""
    topic = f"headers-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, partitions)
    produce_raw(kafka.bootstrap_servers, topic, records)
    return topic


def read(kafka: Kafka, ends: dict[str, int], asked: set[str], use: Use) -> pa.Table:
    cluster = Cluster.of(kafka.bootstrap_servers, {}, 20.0)
    ranges = {StreamShard(topic, "0"): OffsetRange(0, end) for topic, end in ends.items()}
    batches = list(read_ranges(cluster, ranges, use, with_headers=asked))
    for each in batches:
        each.validate(full=True)
    return pa.Table.from_batches(batches)


@pytest.mark.parametrize("use", READERS)
def test_every_header_is_read_as_it_was_sent(kafka: Kafka, use: Use) -> None:
    names = FOR_CLIENTS if use is LIBRDKAFKA else list(ODD)
    topic = send(kafka, odd_records(names))

    found = read(kafka, {topic: len(names)}, {topic}, use)

    headers = dict(zip(names, found["headers"].to_pylist(), strict=True))
    assert headers == {name: ODD[name].read for name in names}


def test_what_pythons_client_cannot_read_is_refused_with_its_place(kafka: Kafka) -> None:
    """The client hands such a list out and leaves an error behind, for somebody else to meet."""
    names = [*FOR_CLIENTS, "a key that is not UTF-8"]
    topic = send(kafka, odd_records(names))

    with pytest.raises(BadRecord, match=f"{topic}/0, offset {len(names) - 1}: .* not UTF-8"):
        read(kafka, {topic: len(names)}, {topic}, LIBRDKAFKA)

    assert read(kafka, {topic: len(names)}, set(), LIBRDKAFKA).num_rows == len(names)


@pytest.mark.parametrize("use", READERS)
def test_only_topics_that_ask_have_headers(kafka: Kafka, use: Use) -> None:
    asking, other = (send(kafka, odd_records(["one", "none", "no value"])) for _ in range(2))
    ends = {asking: 3, other: 3}

    found = read(kafka, ends, {asking}, use)

    by_topic = {
        topic: found.filter(pa.compute.equal(found["topic"], topic))["headers"].to_pylist()
        for topic in ends
    }
    assert by_topic == {
        asking: [ODD[name].read for name in ("one", "none", "no value")],
        other: [None] * 3,
    }
    assert read(kafka, ends, set(), use).schema.equals(FETCHED)


@pytest.mark.parametrize(
    "file_format",
    ["parquet", *(pytest.param(each, marks=pytest.mark.long) for each in ("orc", "jsonl"))],
)
def test_a_job_lands_headers_beside_rows_and_dead_letters(
    kafka: Kafka, tmp_path: Path, file_format: str
) -> None:
    """Python's own client, of which no code reads for the job, has the same headers."""
    bad = RawRecord(b"no JSON", ODD["the same key twice"].sent)
    topic = send(kafka, [*odd_records(FOR_CLIENTS), bad])
    plain = send(kafka, odd_records(["one"]))

    land(kafka, tmp_path, [
        {"topic": topic, "table": "ods.rows", "provenance": "headers", "format": file_format},
        {"topic": plain, "table": "ods.plain", "format": file_format},
    ])  # fmt: skip

    sent = consume(kafka.bootstrap_servers, topic, 0, len(FOR_CLIENTS) + 1)
    wanted = [each.headers() for each in sent]
    rows = read_table(tmp_path / "lake/ods.db/rows", file_format)
    assert [pairs(each["kafka_headers"], file_format) for each in rows] == wanted[:-1]
    assert [each["kafka_offset"] for each in rows] == list(range(len(FOR_CLIENTS)))
    (dead,) = read_table(tmp_path / "lake/ods.db/rows__dead", file_format)
    assert pairs(dead["headers"], file_format) == wanted[-1]
    (other,) = read_table(tmp_path / "lake/ods.db/plain", file_format)
    assert "kafka_headers" not in other
    verdict = verify(tmp_path / "job.yaml")
    assert verdict.problems == ()
    assert verdict.values is not None
    assert (verdict.values.compared, verdict.values.different) == (len(FOR_CLIENTS) + 2, 0)


def test_values_are_compared_also_where_the_second_reader_reads_less(
    kafka: Kafka, tmp_path: Path
) -> None:
    """Its client takes a key to end at its first NUL, and cannot read one that is not UTF-8."""
    topic = send(kafka, odd_records(list(ODD)))
    land(kafka, tmp_path, [{"topic": topic, "table": "ods.rows", "provenance": "headers"}])

    verdict = verify(tmp_path / "job.yaml")

    assert (verdict.exit_code, verdict.problems) == (0, ())
    assert verdict.values is not None
    assert verdict.values.compared == len(ODD) - 1
    (odd,) = verdict.values.not_compared
    assert (odd.reason, odd.rows) == ("Python's Kafka client cannot read the headers", 1)


def verify(job_file: Path) -> VerifyResult:
    with open_job(job_file) as opened:
        return verify_job(opened, sample=SampleRate(1, 7))


def land(kafka: Kafka, directory: Path, tables: list[dict[str, object]]) -> None:
    content = {
        "job": "headers",
        "lake": f"file://{directory}/lake",
        "source": {
            "kafka": {"bootstrap_servers": kafka.bootstrap_servers},
            "first_start": {"default": "earliest"},
        },
        "tables": [{"schema": "id BIGINT", "partition_by": [], **each} for each in tables],
        "spark": "none",
    }
    path = directory / "job.yaml"
    path.write_text(json.dumps(content))
    launch = JobLaunch("run", path, LaunchOptions(available_now=True, uses_spark=False))
    launch.start()
    try:
        events = list(launch.events())
        assert launch.wait() == 0, (events, launch.log_path.read_text())
    finally:
        launch.kill()
        launch.wait()


def read_table(directory: Path, file_format: str) -> list[dict[str, object]]:
    """Return the rows of a table, in the order of their offsets."""
    files = sorted(directory.rglob(f"*.{file_format}"))
    match file_format:
        case "jsonl":
            rows = [json.loads(line) for file in files for line in file.read_text().splitlines()]
        case "orc":
            rows = [row for file in files for row in po.read_table(file).to_pylist()]
        case _:
            rows = ds.dataset(files).to_table().to_pylist()
    return sorted(rows, key=lambda row: row.get("kafka_offset", 0))


def pairs(headers: object, file_format: str) -> list[tuple[str, bytes | None]] | None:
    """Return headers of a row as Python's client has them."""
    if headers is None:
        return None
    assert isinstance(headers, list)
    values = [each["value"] for each in headers]
    if file_format == "jsonl":
        values = [None if each is None else base64.b64decode(each) for each in values]
    return [(each["key"], value) for each, value in zip(headers, values, strict=True)]
