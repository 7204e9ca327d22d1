"""A partition that is cut by an unclean election and grows on: on a broker whose log is cut."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import pyarrow.parquet as pq
import pytest
from tests.job_files import job_content
from tests.kafka_tools import Sender, create_topic, produce
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import SourceUnreachable
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.positions import StreamShard
from ashore.topics.read import histories, native
from ashore.topics.read.kafka import KafkaSource
from ashore.topics.read.source import Position
from ashore_lab.services.kafka import Kafka

OTHER_PARTITION = 1  # which nobody cuts


def values(first: int, count: int, mark: str) -> list[bytes]:
    return [
        json.dumps({"id": number, "mark": mark}).encode() for number in range(first, first + count)
    ]


@pytest.fixture
def job_file(mortal_kafka: Kafka, tmp_path: Path) -> Path:
    topic = f"cut-{uuid4().hex[:10]}"
    create_topic(mortal_kafka.bootstrap_servers, topic, 2)
    table = {"topic": topic, "table": "ods.events", "schema": "id BIGINT, mark STRING"}
    content = job_content(
        mortal_kafka.bootstrap_servers,
        tmp_path,
        topic,
        tables=[table],
        batch={"interval": "100ms"},
    )
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(content))
    return path


def topic_of(job_file: Path) -> str:
    return str(json.loads(job_file.read_text())["tables"][0]["topic"])


def land(job_file: Path) -> list[Failed]:
    """Land what there is; return why the job process ended, if not in order."""
    launch = JobLaunch("run", job_file, LaunchOptions(available_now=True, uses_spark=False))
    launch.start()
    try:
        reported = list(launch.events())
        failed = [each for each in reported if isinstance(each, Failed)]
        assert (launch.wait() == 0) is (not failed), reported
        return failed
    finally:
        launch.kill()
        launch.wait()


def call(*arguments: str) -> tuple[int, str]:
    found = CliRunner().invoke(app, list(arguments))
    return found.exit_code, found.output


def restart(kafka: Kafka, place: Path, *, kept: Path | None = None, cut_to: Path | None = None):
    """Restart the broker, which gives each partition another leader epoch.

    `kept`: copy a partition to there; `cut_to`: make it what a copy holds.
    """
    kafka.stop()
    if kept is not None:
        shutil.copytree(place, kept)
    if cut_to is not None:
        shutil.rmtree(place)
        shutil.copytree(cut_to, place)
    kafka.start()


@pytest.mark.thirds("slow by itself")
def test_what_has_grown_in_place_of_what_was_landed_is_not_read_on(
    job_file: Path, mortal_kafka: Kafka, tmp_path: Path
) -> None:
    kafka, topic = mortal_kafka, topic_of(job_file)
    servers = kafka.bootstrap_servers
    place = kafka.directory / "data" / f"{topic}-0"
    for partition in (0, OTHER_PARTITION):
        produce(servers, topic, values(0, 10, "first"), partition=partition)
    assert land(job_file) == []
    restart(kafka, place, kept=tmp_path / "kept")
    assert land(job_file) == [], "another leader with the same records is no trouble"
    produce(servers, topic, values(10, 10, "lost"), partition=0)
    assert land(job_file) == []

    restart(kafka, place, cut_to=tmp_path / "kept")
    produce(servers, topic, values(10, 15, "regrown"), partition=0)
    produce(servers, topic, values(10, 5, "first"), partition=OTHER_PARTITION)
    [failed] = land(job_file)
    assert (failed.code, failed.exit_code) == ("history-truncated", 4)
    assert f"{topic}/0" in failed.message
    assert "offset 20" in failed.message
    exit_code, reported = call("run", str(job_file), "--available-now")
    assert exit_code == 4
    assert "history-truncated" in reported

    exit_code, reported = call("verify", str(job_file), "--values", "1", "--json")
    found = json.loads(reported)
    assert (exit_code, found["values"]["different"]) == (5, 10)
    assert {each["offsets"][0] for each in found["problems"]} == set(range(10, 20))

    skip = ("skip", str(job_file), f"{topic}/0", "--to", "20", "--why", "kept", "--take-over")
    assert call(*skip)[0] == 0
    assert land(job_file) == []
    counts = marks(job_file.parent / "lake", partition=0)
    assert counts == ["first"] * 10 + ["lost"] * 10 + ["regrown"] * 5
    assert len(marks(job_file.parent / "lake", partition=OTHER_PARTITION)) == 15


def marks(lake: Path, partition: int) -> Sequence[str]:
    rows = pq.read_table(lake / "ods.db" / "events").to_pylist()
    ours = [row for row in rows if row["kafka_partition"] == partition]
    return [row["mark"] for row in sorted(ours, key=lambda row: row["kafka_offset"])]


@pytest.fixture(params=["native", "python"])
def client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for epochs by each client."""
    if request.param == "python":
        monkeypatch.setattr(native, "load_module", lambda: None)
    else:
        assert native.load_module() is not None, (
            "the package ashore-native is not built: make setup"
        )
        monkeypatch.setattr(histories, "_ask_by_fetching", None)  # which nothing may need


@pytest.mark.usefixtures("client")
def test_no_answer_depends_on_the_size_of_batches(mortal_kafka: Kafka) -> None:
    servers, topic = mortal_kafka.bootstrap_servers, f"large-{uuid4().hex[:10]}"
    create_topic(servers, topic, 3)
    shards = [StreamShard(topic, str(each)) for each in range(3)]
    for partition in range(3):
        produce(servers, topic, values(0, 10, ""), partition=partition)
    source = KafkaSource(servers, {}, 5.0)
    there = source.read_offsets(shards)
    mortal_kafka.stop()
    mortal_kafka.start()
    # One batch fills a fetch: of the other partitions the broker returns nothing beside it.
    with Sender(servers, topic, **{"linger.ms": 200, "batch.size": 900_000}) as sender:
        sender.send([b"x" * 1_000] * 15_000)
    positions = {
        shard: Position(at.end, at.leader_epoch)
        for shard, at in there.items()
        if at.leader_epoch is not None
    }
    assert len(positions) == 3

    assert source.find_truncated(positions) == {}
    source.close()


@pytest.mark.usefixtures("client")
def test_partitions_that_do_not_answer_are_named(
    mortal_kafka: Kafka, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(histories, "PATIENCE_S", 2.0)
    topic, missing = f"there-{uuid4().hex[:10]}", f"missing-{uuid4().hex[:10]}"
    create_topic(mortal_kafka.bootstrap_servers, topic)
    source = KafkaSource(mortal_kafka.bootstrap_servers, {}, 1.0)
    asked = {StreamShard(topic, "0"): Position(0, 0), StreamShard(missing, "0"): Position(0, 0)}

    with pytest.raises(SourceUnreachable) as failed:
        source.find_truncated(asked)
    assert "1 of 2 partitions did not" in str(failed.value)
    assert f"{missing}/0" in str(failed.value)
    assert f"{topic}/0" not in str(failed.value)
    source.close()


@pytest.mark.usefixtures("client")
def test_what_kafka_says_of_positions(mortal_kafka: Kafka) -> None:
    topic = f"positions-{uuid4().hex[:10]}"
    create_topic(mortal_kafka.bootstrap_servers, topic, 3)
    for partition in range(3):
        produce(mortal_kafka.bootstrap_servers, topic, values(0, 10, ""), partition=partition)
    source = KafkaSource(mortal_kafka.bootstrap_servers, {})
    there = source.read_offsets([StreamShard(topic, "0")])[StreamShard(topic, "0")]
    assert there.leader_epoch is not None
    known = Position(10, there.leader_epoch)
    positions = {StreamShard(topic, str(each)): known for each in range(3)}
    assert source.find_truncated(positions) == {}
    assert source.find_truncated({}) == {}
    beyond = Position(11, there.leader_epoch)  # that is for `read_offsets` to tell
    assert source.find_truncated({**positions, StreamShard(topic, "1"): beyond}) == {}
    later = Position(5, there.leader_epoch + 7)  # a leader that there has not been yet
    assert list(source.find_truncated({**positions, StreamShard(topic, "2"): later})) == [
        StreamShard(topic, "2")
    ]
    source.close()
