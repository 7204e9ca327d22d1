"""The development servers: they start, serve, come back, and leave nothing behind."""

import os
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from ashore.errors import JarMismatch, ServiceError
from ashore.jobs.jars import SHORT_LIVED, cache_directory, jar_paths, load_lock
from ashore_lab.services import registry
from ashore_lab.services.kafka import BrokerOptions, Kafka
from ashore_lab.services.ports import is_listening
from ashore_lab.services.process import ProcessId, session_members, signal_process
from ashore_lab.services.spark_cluster import SparkCluster

QUICK = BrokerOptions(java=SHORT_LIVED)
ASHORE = str(Path(sys.executable).with_name("ashore"))


def port_of(kafka: Kafka) -> int:
    return int(kafka.bootstrap_servers.rpartition(":")[2])


def create_topic(kafka: Kafka, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(20)


def produce(kafka: Kafka, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.timeout.ms": 20000})
    producer.produce(topic, value)
    assert producer.flush(20) == 0


def consume(kafka: Kafka, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": kafka.bootstrap_servers,
            "group.id": "test",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    try:
        consumer.subscribe([topic])
        messages = consumer.consume(count, timeout=30)
        assert [message.error() for message in messages] == [None] * len(messages)
        return [message.value() for message in messages]
    finally:
        consumer.close()


def wait_for(condition, attempts: int = 300) -> None:
    ticks = iter(range(attempts))
    while not condition():
        assert next(ticks, None) is not None, "waited too long"
        signal.sigtimedwait([], 0.1)


@pytest.fixture
def broker(tmp_path: Path):
    with Kafka(tmp_path / "kafka", QUICK) as kafka:
        yield kafka


def test_a_broker_serves_and_keeps_data_and_port_through_stop_and_kill(broker: Kafka):
    address = broker.bootstrap_servers
    create_topic(broker, "clicks")
    produce(broker, "clicks", b"one")

    broker.restart()
    produce(broker, "clicks", b"two")

    broker.kill()
    assert not is_listening(port_of(broker))
    broker.start()

    assert broker.bootstrap_servers == address
    assert consume(broker, "clicks", 2) == [b"one", b"two"]


def test_stop_leaves_no_process_and_no_port(tmp_path: Path):
    kafka = Kafka(tmp_path, QUICK)
    with kafka:
        process = kafka.process.id()
        assert process is not None
        assert process.is_alive()
    assert session_members(process) == []
    assert not is_listening(port_of(kafka))
    assert kafka.process.id() is None


def test_topics_are_not_made_by_producing(kafka: Kafka):
    producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "message.timeout.ms": 3000})
    errors: list[str] = []
    producer.produce("nobody-made-this", b"x", on_delivery=lambda e, _: errors.append(str(e)))
    producer.flush(10)
    assert len(errors) == 1
    assert errors != ["None"]


def test_the_broker_of_a_demo_ends_with_a_demo_that_is_killed(tmp_path: Path):
    directory = tmp_path / "demo"
    command = [ASHORE, "demo", "--json", f"--directory={directory}"]
    kafka = Kafka(directory / "kafka")
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as demo:
        try:
            wait_for(lambda: kafka.process.is_alive() and is_listening(port_of(kafka)), 1_200)
            process = kafka.process.id()
        finally:
            demo.kill()
    assert process is not None
    wait_for(lambda: not session_members(process))
    assert not is_listening(port_of(kafka))


def test_a_broker_that_cannot_start_shows_the_end_of_its_log(tmp_path: Path):
    kafka = Kafka(tmp_path, BrokerOptions(settings={"log.retention.ms": "soon"}))
    with pytest.raises(ServiceError, match=r"soon.* log.retention.ms"):
        kafka.start()
    assert kafka.process.id() is None


def test_a_broker_that_is_slow_is_stopped_at_the_deadline(tmp_path: Path):
    kafka = Kafka(tmp_path, BrokerOptions(start_deadline_s=0.2))
    with pytest.raises(ServiceError, match="not ready after"):
        kafka.start()
    assert kafka.process.id() is None
    assert not is_listening(port_of(kafka))


@pytest.mark.long  # the demo that is killed shows the same
def test_another_process_can_stop_what_this_one_started(tmp_path: Path):
    code = "import sys; from ashore_lab.services import registry; registry.{}"
    run = [sys.executable, "-c"]
    environment = {**os.environ, "ASHORE_HOME": str(tmp_path)}
    subprocess.run([*run, code.format("up(['kafka'])")], env=environment, check=True)
    home = tmp_path / "services"

    seen = registry.status(home)["kafka"]
    assert seen.state is registry.ServiceState.UP
    assert is_listening(int(seen.endpoint["bootstrap_servers"].rpartition(":")[2]))

    pid = seen.processes[0].pid
    shown = subprocess.run(
        [ASHORE, "services", "up", "kafka"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout.split()[:3] == ["service", "address", "pid"]
    assert shown.stdout.split()[-3:] == ["kafka", seen.endpoint["bootstrap_servers"], str(pid)]

    assert registry.up(["kafka"], home) == {"kafka": seen.endpoint}
    assert registry.status(home)["kafka"].processes[0].pid == pid, "what is up is left alone"

    subprocess.run([*run, code.format("down()")], env=environment, check=True)
    assert registry.status(home)["kafka"].state is registry.ServiceState.DOWN
    assert registry.down((), home) == []


@pytest.mark.long  # kills of servers are those of the drills
def test_a_service_that_died_is_seen_and_comes_up_again_at_its_address(tmp_path: Path):
    endpoint = registry.up(["kafka"], tmp_path)["kafka"]
    try:
        process = Kafka(tmp_path / "kafka").process.id()
        assert process is not None
        os.kill(process.pid, signal.SIGKILL)
        wait_for(lambda: not process.is_alive())
        assert registry.status(tmp_path)["kafka"].state is registry.ServiceState.DIED
        assert registry.status(tmp_path)["kafka"].endpoint == {}

        assert registry.up(["kafka"], tmp_path) == {"kafka": endpoint}
        assert registry.status(tmp_path)["kafka"].state is registry.ServiceState.UP
    finally:
        registry.down((), tmp_path)


JOB = textwrap.dedent("""
    import sys
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master(sys.argv[1])
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.executor.memory", "512m")
        .config("spark.ui.enabled", "false")
        .getOrCreate()
    )
    count = lambda: spark.sparkContext.parallelize(range(100), 4).map(lambda x: x * 2).sum()
    print(count(), flush=True)
    sys.stdin.readline()
    print(count(), flush=True)
    spark.stop()
""")


@pytest.mark.long
def test_a_cluster_runs_a_job_through_the_loss_of_an_executor_and_a_worker(tmp_path: Path):
    log = tmp_path / "job.log"
    with SparkCluster(tmp_path) as cluster, log.open("wb") as errors:
        workers = [worker.id() for worker in cluster.processes]
        job = subprocess.Popen(
            [sys.executable, "-c", JOB, cluster.master_url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        )
        with job:
            assert job.stdout is not None
            assert job.stdout.readline().strip() == "9900", log.read_text()
            wait_for(lambda: len(cluster.executors()) == 2)

            killed = cluster.kill_executor()
            wait_for(lambda: len(cluster.executors()) == 2 and killed not in cluster.executors())

            cluster.kill_worker(0)
            wait_for(lambda: len(cluster.executors()) == 1)
            assert job.communicate("on\n", timeout=60)[0].strip() == "9900"
        cluster.start_worker(0)
        assert all(process.is_alive() for process in cluster.processes)
    assert [session_members(worker) for worker in workers if worker] == [[], [], []]


def copy_of_the_cache(directory: Path, set_name: str) -> Path:
    jar_paths(set_name)
    for jar in load_lock()[set_name]:
        (directory / jar.path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(cache_directory() / jar.path, directory / jar.path)
    return directory


def test_a_tampered_jar_is_named_with_both_checksums(tmp_path: Path):
    cache = copy_of_the_cache(tmp_path, "spark-kafka")
    jars = jar_paths("spark-kafka", directory=cache)
    with jars[1].open("ab") as file:
        file.write(b"!")

    with pytest.raises(JarMismatch) as caught:
        jar_paths("spark-kafka", directory=cache)

    assert str(jars[1]) in caught.value.message
    assert load_lock()["spark-kafka"][1].sha256 in caught.value.message
    assert str(caught.value.fields["found"]) in caught.value.message
    assert str(jars[1]) in caught.value.hint


def test_a_missing_jar_is_fetched_again(tmp_path: Path):
    cache = copy_of_the_cache(tmp_path, "spark-kafka")
    jars = jar_paths("spark-kafka", directory=cache)
    jars[2].unlink()
    said: list[str] = []
    assert jar_paths("spark-kafka", directory=cache, progress=said.append) == jars
    assert said[0] == "spark-kafka: fetching 1 jars"
    assert jars[2].exists()
    assert not list(cache.glob(".fetch-*")), "nothing is left of the fetch"


def test_a_process_that_took_over_a_pid_is_never_signalled(tmp_path: Path):
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as stranger:
        mistaken = ProcessId(stranger.pid, started=1)
        signal_process(mistaken, signal.SIGKILL)
        assert session_members(mistaken) == []
        assert stranger.poll() is None
        stranger.kill()
