"""The metrics of a real job, at its port and in its file, against its log."""

import json
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen
from uuid import uuid4

from prometheus_client.parser import text_string_to_metric_families
from tests.kafka_tools import create_topic, produce

from ashore.log.store.reader import read_log
from ashore.topics.open_job import open_job
from ashore_lab.services.kafka import Kafka

RECORDS, BROKEN = 4_000, 30


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def read(text: str, name: str, **labels: str) -> float | None:
    """Return the sum of the samples of a name that have these labels; None: there is none."""
    found = [
        each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
        if each.name == name and labels.items() <= each.labels.items()
    ]
    return sum(found) if found else None


def scrape(port: int) -> str:
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            return str(answer.read().decode())
    except URLError:
        return ""


def write_job(kafka: Kafka, topic: str, folder: Path, metrics: dict[str, object]) -> Path:
    path = folder / "job.yaml"
    kafka_section = {"bootstrap_servers": kafka.bootstrap_servers}
    content = {
        "job": "landing",
        "lake": f"file://{folder}/lake",
        "source": {"kafka": kafka_section, "first_start": {"default": "earliest"}},
        "tables": [{"topic": topic, "table": "ods.events", "schema": "id BIGINT"}],
        "batch": {"interval": "200ms", "max_records": 1_500},
        "metrics": {"host": "127.0.0.1", **metrics},
        "spark": "none",
    }
    path.write_text(json.dumps(content))
    return path


def test_metrics_of_a_job_are_those_of_its_log(kafka: Kafka, tmp_path: Path) -> None:
    topic, port = f"metrics-{uuid4().hex[:10]}", free_port()
    create_topic(kafka.bootstrap_servers, topic, 1)
    values = [json.dumps({"id": number}).encode() for number in range(RECORDS)]
    produce(kafka.bootstrap_servers, topic, values + [b"no json"] * BROKEN, partition=0)
    file = tmp_path / "landing.prom"
    path = write_job(kafka, topic, tmp_path, {"port": port, "file": str(file)})
    command = [str(Path(sys.executable).with_name("ashore")), "run", str(path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            deadline_s, text = time.monotonic() + 60, ""
            while read(text, "ashore_records_total") != RECORDS + BROKEN:
                assert time.monotonic() < deadline_s, text
                assert process.poll() is None
                time.sleep(0.2)
                text = scrape(port)
            time.sleep(7)  # calls are reported now and then
            text = scrape(port)
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=30) == 0

    with open_job(path) as opened:
        fold = read_log(opened.storage, opened.name)
    (shard,) = fold.shards.values()
    job = {"ashore_job": "landing"}
    assert read(text, "ashore_records_total", outcome="landed", **job) == shard.landed == RECORDS
    assert read(text, "ashore_records_total", outcome="dead", **job) == shard.dead == BROKEN
    assert read(text, "ashore_fetched_bytes_total") == shard.size_bytes
    assert read(text, "ashore_lag_records", slice="main") == 0
    assert (read(text, "ashore_lag_seconds", slice="main") or 0) < 30
    assert read(text, "ashore_epoch", slice="main") == fold.epoch
    files = read(text, "ashore_files_total")
    assert files == read(text, "ashore_prepared_files_total")
    assert files == read(text, "ashore_moves_total")
    assert files == read(text, "ashore_moves_total", outcome="moved")
    lake = tmp_path / "lake" / "ods.db"
    sizes = [each.stat().st_size for each in lake.rglob("*.parquet") if ".ashore" not in each.parts]
    assert read(text, "ashore_bytes_total", outcome="landed") == sum(
        each.stat().st_size for each in (lake / "events").rglob("*.parquet")
    )
    assert read(text, "ashore_bytes_total") == sum(sizes)
    assert (read(text, "ashore_storage_calls_total", call="move", result="ok") or 0) >= files
    batches = read(text, "ashore_batches_total", slice="main")
    assert batches == fold.next_batch
    assert read(text, "ashore_step_seconds_count", step="write") == batches
    assert read(text, "ashore_slice_state", slice="main", state="running") == 1
    assert read(text, "ashore_up") == 1
    ended = file.read_text()
    assert (read(ended, "ashore_up"), read(ended, "ashore_exit_code")) == (0, 0)
