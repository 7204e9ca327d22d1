"""Jobs without Spark, in a process of their own: `spark: none`. Workers and the job are killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import psutil
import pyarrow.parquet as pq
import pytest
from tests.dying_decoder import FATAL, install_dying_decoder
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

from ashore.base.operator import operator
from ashore.errors import SchemaConflict
from ashore.jobs.events import Event, moment_of
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.entries import Define, Entry
from ashore.log.progress import Step
from ashore.log.store.reader import read_history
from ashore.proof.status.health import Allowed, read_job, worst_ailment
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore.topics.read.reading import KafkaAddress
from ashore_lab.services.kafka import Kafka

PARTITIONS, RECORDS = 2, 4_000


@pytest.fixture
def job_file(kafka: Kafka, tmp_path: Path) -> Path:
    """Return the job file of a topic with records; a batch takes a quarter of them."""
    topic = f"local-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        values = [json.dumps({"id": number}).encode() for number in range(RECORDS // PARTITIONS)]
        produce(kafka.bootstrap_servers, topic, values, partition=partition)
    batch = {"interval": "100ms", "max_records": RECORDS // 4}
    content = job_content(kafka.bootstrap_servers, tmp_path, topic, batch=batch)
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(content))
    return path


@contextmanager
def launched(job_file: Path, *, available_now: bool) -> Iterator[JobLaunch]:
    """Start a job process; whatever happens, nothing of it is left."""
    options = LaunchOptions(available_now=available_now, uses_spark=False)
    launch = JobLaunch("run", job_file, options)
    launch.start()
    try:
        yield launch
    finally:
        launch.kill()
        launch.wait()


def wait_for(launch: JobLaunch, moment: str) -> None:
    """Read events until one of that name. Fails if the process ends before."""
    seen: list[Event] = []
    for event in launch.events():
        seen.append(event)
        if moment_of(event) == moment:
            return
    raise AssertionError(f"ended with {launch.wait()}: {seen}, {launch.log_path.read_text()}")


def finish(job_file: Path, landed: int = RECORDS) -> list[Event]:
    """Land what is left, and prove that each record is in the table once."""
    with launched(job_file, available_now=True) as launch:
        left = list(launch.events())
        assert launch.wait() == 0, left
    rows = pq.read_table(job_file.parent / "lake" / "ods.db" / "events")
    partitions, offsets = rows["kafka_partition"].to_pylist(), rows["kafka_offset"].to_pylist()
    assert len(set(zip(partitions, offsets, strict=True))) == rows.num_rows == landed
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, (verdict.summary, verdict.problems, verdict.notes)
    return left


def workers_of(launch: JobLaunch) -> list[psutil.Process]:
    """Return the processes that the job process has started, and theirs."""
    return psutil.Process(launch.pid).children(recursive=True)


def test_it_lands_each_record_once_without_java(job_file: Path) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, "landed")
        assert not [each for each in workers_of(launch) if "java" in each.name()]
        launch.stop()
        list(launch.events())
        assert launch.wait() == 0
    finish(job_file)


@pytest.mark.parametrize("moment", [Step.WRITE, pytest.param("landed", marks=pytest.mark.long)])
def test_workers_end_with_a_job_that_is_killed(job_file: Path, moment: str) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, moment)
        workers = workers_of(launch)
        os.kill(launch.pid, signal.SIGKILL)  # alone, not the group that it leads
        assert launch.wait() == -signal.SIGKILL
        assert psutil.wait_procs(workers, timeout=10)[1] == []
    finish(job_file)


def test_a_worker_that_dies_fails_its_batch_only(kafka: Kafka, job_file: Path) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, "landed")
        workers = workers_of(launch)
        assert workers
        for worker in workers:
            worker.kill()
        # What was there may have landed before: so there is a batch after the kill.
        topic = json.loads(job_file.read_text())["tables"][0]["topic"]
        produce(kafka.bootstrap_servers, topic, [b'{"id":9000}'])
        wait_for(launch, "warning")
        wait_for(launch, "landed")
    finish(job_file, RECORDS + 1)


def state_of(job_file: Path) -> str:
    with open_job(job_file) as opened:
        return str(read_job(opened, None)[0].state)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline_s, "waited too long"
        time.sleep(0.2)


def test_its_state_is_seen_from_outside(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    assert state_of(job_file) == "never started"
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, "landed")
        wait_until(lambda: state_of(job_file) == "idle")
        with open_job(job_file) as opened:
            status, _ = read_job(opened, Allowed())
        assert status.reader == KafkaAddress("127.0.0.1:9092", {}).describe_reader()
        os.killpg(launch.pid, signal.SIGSTOP)
        wait_until(lambda: state_of(job_file) == "stuck")
        os.killpg(launch.pid, signal.SIGCONT)
        wait_until(lambda: state_of(job_file) == "idle")
        launch.kill()
        launch.wait()
        assert state_of(job_file) == "failed"
        with monkeypatch.context() as of_somebody_else:  # without a heartbeat, by the log
            of_somebody_else.setenv("ASHORE_HOME", str(tmp_path / "other"))
            assert state_of(job_file) == "failed"
    finish(job_file)
    assert state_of(job_file) == "stopped"
    with open_job(job_file) as opened:
        assert read_job(opened, Allowed())[0].reader is None


def test_a_job_whose_command_was_killed_has_failed_although_it_stopped_in_order(
    job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASHORE_HOME", str(tmp_path / "home"))
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, "landed")
        wait_until(lambda: state_of(job_file) == "idle")
        process = launch._running()
        assert process.stdin is not None
        process.stdin.close()  # what the kernel does where `ashore run` is killed
        list(launch.events())
        launch.wait()
    assert state_of(job_file) == "failed"
    with open_job(job_file) as opened:
        status, ailments = read_job(opened, Allowed())
    assert (status.lag, worst_ailment(ailments)) == (0, 1)
    assert "no longer exists" in status.why


def test_a_record_that_kills_its_worker_is_a_dead_letter_and_the_job_goes_on(
    kafka: Kafka, job_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = json.loads(job_file.read_text())["tables"][0]["topic"]
    produce(kafka.bootstrap_servers, topic, [FATAL], partition=1)
    produce(kafka.bootstrap_servers, topic, [b'{"id":9000}'], partition=1)
    install_dying_decoder(tmp_path, monkeypatch)
    events = finish(job_file, RECORDS + 1)
    assert any("crashes the decoder" in str(each) for each in events)
    dead = pq.read_table(tmp_path / "lake" / "ods.db" / "events__dead").to_pylist()
    assert [(row["value"], row["reason"]) for row in dead] == [(FATAL, "crash")]


def entries(job_file: Path) -> list[Entry]:
    with open_job(job_file) as opened:
        return list(read_history(opened.storage, opened.name))


def change_table(job_file: Path, **keys: object) -> None:
    content = json.loads(job_file.read_text())
    content["tables"][0].update(keys)
    job_file.write_text(json.dumps(content))


def run_command(job_file: Path, *options: str) -> subprocess.CompletedProcess[str]:
    ashore = Path(sys.executable).with_name("ashore")
    command = [ashore, "run", job_file, "--available-now", *options]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "change",
    [
        {"schema": "id INT"},
        pytest.param(
            {"schema": "id BIGINT, day STRING", "partition_by": ["day"]}, marks=pytest.mark.long
        ),
        pytest.param({"schema": "id BIGINT", "format": "orc"}, marks=pytest.mark.long),
    ],
)
def test_a_change_that_readers_cannot_stand_is_refused(
    job_file: Path, change: dict[str, object]
) -> None:
    finish(job_file)
    before = entries(job_file)
    change_table(job_file, **change)
    for options in ([], ["--accept-schema"]):
        answer = run_command(job_file, *options)
        assert answer.returncode == SchemaConflict.exit_code, answer.stderr
        assert "in the log: ods.events" in answer.stderr
    assert entries(job_file) == before


def test_a_change_is_reported_or_has_to_be_accepted(kafka: Kafka, job_file: Path) -> None:
    finish(job_file)
    change_table(job_file, schema="id BIGINT, more STRING")
    answer = run_command(job_file)
    assert answer.returncode == 0, answer.stderr
    assert "column more STRING is added" in answer.stdout + answer.stderr

    change_table(job_file, schema="more STRING")
    before = entries(job_file)
    answer = run_command(job_file)
    assert answer.returncode == SchemaConflict.exit_code
    assert "--accept-schema" in answer.stderr
    assert entries(job_file) == before

    topic = json.loads(job_file.read_text())["tables"][0]["topic"]
    produce(kafka.bootstrap_servers, topic, [b'{"more":"x"}'])
    answer = run_command(job_file, "--accept-schema")
    assert answer.returncode == 0, answer.stderr
    [accepted] = [each.body for each in entries(job_file) if isinstance(each.body, Define)][-1:]
    assert "column id is dropped" in accepted.accepted[0]
    assert accepted.by == operator()
    assert run_command(job_file).returncode == 0  # once is enough


def test_a_job_that_lands_nothing_says_so_with_a_reason(kafka: Kafka, tmp_path: Path) -> None:
    topic = f"local-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, 1)
    produce(kafka.bootstrap_servers, topic, [b'{"id":"one"}'] * 200)
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(job_content(kafka.bootstrap_servers, tmp_path, topic)))
    with launched(path, available_now=True) as launch:
        events = list(launch.events())
        assert launch.wait() == 0
    text = "200 of the last 200 records of ods.events (100 %) are dead letters"
    assert [each for each in events if text in str(each)]
    with open_job(path) as opened:
        status, ailments = read_job(opened, Allowed())
    (found,) = [each.text for each in status.warnings if each.kind == "bad_records"]
    assert text in found
    assert '{"id":"one"}' in found  # a record
    assert "id" in found.removeprefix(text).split(";")[0]  # the reason names the column
    assert worst_ailment(ailments) == 1


def test_a_table_whose_directory_is_gone_stops_the_next_run(job_file: Path, tmp_path: Path) -> None:
    finish(job_file)
    with open_job(job_file) as opened:
        [(table, _partition), *_] = sorted(opened.fold(opened.name).partitions)
    directory = next(tmp_path.rglob(f"{table.split('.')[1]}"))
    shutil.rmtree(directory)
    command = [
        sys.executable,
        "-c",
        "from ashore.cli import main; main()",
        "run",
        str(job_file),
        "--available-now",
    ]
    for _ in range(2):
        ended = subprocess.run(command, capture_output=True, text=True, check=False)
        assert ended.returncode == 4, ended.stderr
        assert "log counts rows" in ended.stderr.replace("\n", " ")
        assert not directory.exists()
