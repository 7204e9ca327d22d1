"""The job process itself: killed, stopped, abandoned, frozen, refused; and servers that go away."""

import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
from ruamel.yaml import YAML
from tests.dying_decoder import FATAL, install_dying_decoder
from tests.kafka_tools import Sender
from tests.spark.site import LOCAL, SHORT_LIVED, At, Site, events, table_of

from ashore.errors import FilesLost
from ashore.jobs.events import Ended, Event, Landed, Relanded, moment_of
from ashore.jobs.failure import Failed
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.entries import Prepare
from ashore.topics.run.spark.session import DRIVER_OPTIONS
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.spark_cluster import SparkCluster

WAIT_S = 90.0
QUICK = {"interval": "100ms", "max_records": 1_000}


@contextmanager
def launched(
    job_file: Path, command: str = "run", *, available_now: bool = False
) -> Iterator[JobLaunch]:
    """Start a job process, as the job file says; whatever happens, nothing of it is left."""
    uses_spark = YAML().load(job_file).get("spark") != "none"
    launch = JobLaunch(command, job_file, LaunchOptions(uses_spark, available_now))
    launch.start()
    try:
        yield launch
    finally:
        launch.kill()
        launch.wait()


def is_step(step: str) -> Callable[[Event], bool]:
    return lambda event: step == moment_of(event)


def wait_for(launch: JobLaunch, is_wanted: Callable[[Event], bool]) -> Event:
    """Return the first event that is wanted. Fails if the process ends before."""
    seen = []
    for event in launch.events():
        seen.append(event)
        if is_wanted(event):
            return event
    raise AssertionError(f"ended with {launch.wait()}: {seen}, {launch.log_path.read_text()}")


def ended(launch: JobLaunch) -> tuple[int, list[Event]]:
    """Return the exit code and the events that were left."""
    left = list(launch.events())
    return launch.wait(), left


# --- killed --------------------------------------------------------------------------------------


def test_killed_at_each_step_it_goes_on_from_anywhere(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each start is another process in another directory, with another copy of the job file.

    The log is the same with Spark and without: one start goes on where the other kind was killed.
    """
    topic = site.topic(3)
    table = table_of(topic, partition_by=["country"])
    steps = {"open": "none", "write": LOCAL, "prepare": "none", "move": LOCAL, "landed": "none"}
    with Sender(site.servers, topic) as sender:
        for number, (step, spark) in enumerate(steps.items()):
            job_file = site.job_file(table, batch=QUICK, spark=spark)
            sender.send(events(number * 3_000, 3_000))
            elsewhere = tmp_path / f"machine-{number}"
            elsewhere.mkdir()
            monkeypatch.chdir(elsewhere)
            with launched(Path(shutil.copy(job_file, "job.yaml"))) as launch:
                wait_for(launch, is_step(step))
                launch.kill()
                assert launch.wait() == -signal.SIGKILL
            landed = site.landed_ids() if site.files() else {}
            assert landed.items() <= site.committed_ids(topic).items()

    with launched(job_file, available_now=True) as launch:
        assert ended(launch)[0] == 0

    assert site.landed_ids() == site.committed_ids(topic)
    assert len(site.landed_ids()) == 15_000
    assert site.fold().epoch in {5, 6}  # the first was killed before or after its `open`
    site.prove(job_file)


def test_lost_files_are_landed_again_by_a_process(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 100))
    job_file = site.job_file(table_of(topic), spark="none")

    def lose() -> None:
        site.staged()[0].unlink()

    with pytest.raises(FilesLost):
        site.writer(job_file, At("move", lose)).drain()

    with launched(job_file, "reland") as launch:
        code, left = ended(launch)

    assert code == 0
    assert [event.rows for event in left if isinstance(event, Relanded)] == [100]
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


# --- stopped -------------------------------------------------------------------------------------


def test_sigterm_in_mid_batch_ends_in_order(site: Site) -> None:
    topic = site.topic(2)
    with Sender(site.servers, topic) as sender:
        sender.send(events(0, 5_000))
    job_file = site.job_file(table_of(topic), batch=QUICK, spark=LOCAL, grace="30s")
    with launched(job_file) as launch:
        wait_for(launch, is_step("landed"))
        wait_for(launch, is_step("write"))
        asked_s = time.monotonic()
        launch.stop()
        code, left = ended(launch)

    assert code == 0
    assert time.monotonic() - asked_s < 30
    assert left[-1] == Ended()
    assert sum(isinstance(event, Landed) for event in left) <= 1  # the batch under way, no other
    assert site.fold().unclosed is None
    assert site.staged() == []
    verdict = site.prove(job_file)
    assert 1_000 <= verdict.totals.landed < 5_000


def test_the_end_of_the_parent_is_the_end_a_second_later(site: Site) -> None:
    topic = site.topic(2)
    with Sender(site.servers, topic) as sender:
        sender.send(events(0, 400_000))
    # Decoded by Spark, which takes some seconds: the batch is not over before the job is killed.
    table = table_of(topic, where="id >= 0")
    job_file = site.job_file(table, spark=LOCAL, grace="60s")
    with launched(job_file) as launch:
        wait_for(launch, is_step("write"))
        spark = psutil.Process(launch.pid).children(recursive=True)
        assert any("java" in each.name() for each in spark)
        began_s = time.monotonic()
        launch._process.stdin.close()  # what the kernel does when the parent dies
        code, left = ended(launch)
        assert time.monotonic() - began_s < 10  # half of the grace is 30 s
        assert psutil.wait_procs(spark, timeout=10)[1] == []

    assert code == -signal.SIGKILL
    assert not any(isinstance(event, Landed) for event in left)
    assert not any(isinstance(entry.body, Prepare) for entry in site.history())
    assert site.files() == []


# --- exit codes ----------------------------------------------------------------------------------


def test_a_frozen_job_that_was_taken_over_ends_as_fenced(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, events(0, 2_000))
    job_file = site.job_file(table_of(topic), batch=QUICK, spark="none")
    with launched(job_file) as launch:
        wait_for(launch, is_step("write"))
        os.killpg(launch.pid, signal.SIGSTOP)
        site.writer(job_file).drain()
        os.killpg(launch.pid, signal.SIGCONT)
        code, left = ended(launch)

    assert code == 3
    assert isinstance(left[-1], Failed)
    assert left[-1].code == "fenced"
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


def test_a_bad_record_ends_the_process_with_4(site: Site) -> None:
    topic = site.topic()
    site.produce(topic, [b"{broken"])
    job_file = site.job_file(table_of(topic, on_invalid="fail"), spark="none")
    with launched(job_file) as launch:
        code, left = ended(launch)

    assert code == 4
    assert isinstance(left[-1], Failed)
    assert left[-1].code == "bad-record"
    assert left[-1].more["offset"] == 0


@pytest.mark.long
def test_a_record_that_kills_its_worker_is_a_dead_letter(
    site: Site, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What Spark tells of a worker that has died is understood. No record beside it is lost."""
    topic = site.topic(2)
    site.produce(topic, [*events(0, 40), FATAL, *events(40, 40)])
    job_file = site.job_file(table_of(topic), spark=LOCAL)
    install_dying_decoder(tmp_path, monkeypatch)
    with launched(job_file, available_now=True) as launch:
        code, left = ended(launch)
        assert code == 0, (left, launch.log_path.read_text())
    assert any("crashes the decoder" in str(each) for each in left)
    assert len(site.landed_ids()) == 80
    site.prove(job_file)


def test_a_bad_job_file_ends_the_process_with_2(site: Site) -> None:
    job_file = site.job_file(table_of("events", colour="blue"))
    with launched(job_file) as launch:
        code, left = ended(launch)

    assert code == 2
    (failed,) = left
    assert isinstance(failed, Failed)
    assert "colour" in failed.message


# --- servers that go away ------------------------------------------------------------------------


@pytest.mark.long
def test_a_job_rides_out_a_restart_of_the_broker(mortal_site: Site, mortal_kafka: Kafka) -> None:
    site, kafka = mortal_site, mortal_kafka
    topic = site.topic(2)
    site.produce(topic, events(0, 500), partition=0)
    job_file = site.job_file(table_of(topic), batch=QUICK)
    writer = site.writer(job_file)
    job = writer.job.loop(until_drained=False)
    failures: list[BaseException] = []

    def run() -> None:
        try:
            job.run()
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            failures.append(error)

    thread = threading.Thread(target=run, name="job")
    thread.start()
    try:
        wait_until(lambda: len(site.files()) >= 1)
        kafka.kill()
        time.sleep(1.0)  # the job meets a broker that is gone
        kafka.start()
        site.produce(topic, events(1_000, 500), partition=1)
        wait_until(lambda: sum(state.landed for state in site.fold().shards.values()) == 1_000)
    finally:
        job.stop()
        thread.join()

    assert failures == []
    assert site.landed_ids() == site.committed_ids(topic)
    site.prove(job_file)


@pytest.mark.long
def test_an_executor_that_dies_loses_and_doubles_nothing(site: Site, tmp_path: Path) -> None:
    topic = site.topic(4)
    with Sender(site.servers, topic) as sender:
        sender.send(events(0, 60_000))
    with SparkCluster(tmp_path / "spark") as cluster:
        conf = {
            **SHORT_LIVED,
            "spark.driver.memory": "512m",
            "spark.executor.extraJavaOptions": SHORT_LIVED[DRIVER_OPTIONS],
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
        }
        job_file = site.job_file(
            table_of(topic),
            batch={"interval": "100ms", "max_records": 30_000},
            spark={"master": cluster.master_url, "conf": conf},
        )
        with launched(job_file, available_now=True) as launch:
            wait_for(launch, is_step("write"))
            time.sleep(0.3)
            cluster.kill_executor()
            code, left = ended(launch)

    assert code == 0, left
    assert "Lost executor" in launch.log_path.read_text("utf-8")
    assert site.landed_ids() == site.committed_ids(topic)
    assert len(site.landed_ids()) == 60_000
    site.prove(job_file)


def wait_until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline_s, "waited too long"
        time.sleep(0.1)
