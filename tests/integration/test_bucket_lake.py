"""Jobs whose lake is in a bucket: killed, with faults of the network, counted by requests.

Tables are read by the clients that Arrow brings, which share no code with ours.
"""

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import AzureFileSystem, FileSystem, S3FileSystem
from tests.azure import ACCOUNT, KEY, Azure
from tests.integration.test_local_jobs import launched, wait_for
from tests.job_files import job_content
from tests.kafka_tools import create_topic, produce

from ashore.jobs.events import moment_of
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.log.names import SliceName, staging_directory
from ashore.log.progress import Step
from ashore.log.store.cleaner import find_staged
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job
from ashore.topics.use.clean import clean_job, plan_clean_job
from ashore_lab.services.kafka import Kafka
from ashore_lab.services.ports import LOOPBACK
from ashore_lab.services.s3 import KEY_ID, S3, SECRET_KEY
from ashore_lab.testing import FakeClock
from ashore_lab.testing.bucket_proxy import BucketProxy, BucketRequest, Fault

PARTITIONS, RECORDS, BATCHES = 2, 4_000, 4
DAY_MS = 86_400_000
LOOKS = {"head": 2, "list": 1}
AZURE_KEYS = "azure", "account_key"


# Where the same test on the other store would find nothing else.
on_s3 = pytest.mark.parametrize("store", ["s3"], indirect=True)


@pytest.fixture(params=["s3", "azure"])
def store(request: pytest.FixtureRequest) -> S3 | Azure:
    server: S3 | Azure = request.getfixturevalue(request.param)
    return server


@pytest.fixture
def proxy(store: S3 | Azure) -> Iterator[BucketProxy]:
    with BucketProxy(store.port) as proxy:
        yield proxy


@pytest.fixture
def job_file(
    kafka: Kafka,
    store: S3 | Azure,
    proxy: BucketProxy,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Path:
    """Return the job file of a topic with records; a batch takes a quarter of them."""
    topic = f"bucket-{uuid4().hex[:10]}"
    create_topic(kafka.bootstrap_servers, topic, PARTITIONS)
    for partition in range(PARTITIONS):
        values = [json.dumps({"id": number}).encode() for number in range(RECORDS // PARTITIONS)]
        produce(kafka.bootstrap_servers, topic, values, partition=partition)
    section, secret = ("s3", "secret_access_key") if isinstance(store, S3) else AZURE_KEYS
    options = store.client_options()
    monkeypatch.setenv("LAKE_SECRET", options[secret])
    direct = f"http://{LOOPBACK}:{store.port}"
    options["endpoint"] = options["endpoint"].replace(direct, proxy.endpoint)
    content = job_content(
        kafka.bootstrap_servers,
        tmp_path,
        topic,
        batch={"interval": "100ms", "max_records": RECORDS // BATCHES},
        lake=f"{store.uri}/{topic}",
        **{section: {**options, secret: "${LAKE_SECRET}"}},
    )
    path = tmp_path / "job.yaml"
    path.write_text(json.dumps(content))
    return path


def land(job_file: Path) -> None:
    with launched(job_file, available_now=True) as launch:
        left = list(launch.events())
        code = launch.wait()
        failed = [each for each in left if moment_of(each) in ("failed", "warning", "error")]
        assert code == 0, (failed or left[-5:], launch.log_path.read_text())


def read_table(job_file: Path, store: S3 | Azure, table: str) -> pa.Table:
    """Read a table by the client that Arrow brings."""
    address = f"{LOOPBACK}:{store.port}"
    files: FileSystem
    if isinstance(store, S3):
        files = S3FileSystem(
            access_key=KEY_ID,
            secret_key=SECRET_KEY,
            endpoint_override=f"http://{address}",
            region="us-east-1",
        )
    else:
        files = AzureFileSystem(
            account_name=ACCOUNT,
            account_key=KEY,
            blob_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_authority=address,
            dfs_storage_scheme="http",
        )
    lake = json.loads(job_file.read_text())["lake"].partition("://")[2]
    return pq.read_table(f"{lake}/ods.db/{table}", filesystem=files)


def require_each_once(job_file: Path, store: S3 | Azure) -> None:
    """Fail unless each record can be read once, by us and by others."""
    rows = read_table(job_file, store, "events")
    places = zip(rows["kafka_partition"].to_pylist(), rows["kafka_offset"].to_pylist(), strict=True)
    assert len(set(places)) == rows.num_rows == RECORDS
    with open_job(job_file) as opened:
        verdict = verify_job(opened)
    assert verdict.exit_code == 0, (verdict.summary, verdict.problems, verdict.notes)


@pytest.mark.thirds
@pytest.mark.parametrize("moment", [Step.MOVE, Step.WRITE, "landed"])
def test_a_job_that_is_killed_lands_each_record_once(
    job_file: Path, store: S3 | Azure, moment: str
) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, moment)
        os.kill(launch.pid, signal.SIGKILL)
        assert launch.wait() == -signal.SIGKILL
    land(job_file)
    require_each_once(job_file, store)


@pytest.mark.thirds("Spark, a bucket, Iceberg")
@on_s3
def test_executors_of_spark_land_in_a_bucket(job_file: Path, store: S3 | Azure) -> None:
    content = json.loads(job_file.read_text())
    del content["spark"]
    content["tables"][0]["where"] = "id >= 0"  # its records pass through Spark
    job_file.write_text(json.dumps(content))
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        left = list(launch.events())
        assert launch.wait() == 0, (left[-5:], launch.log_path.read_text())
    require_each_once(job_file, store)


@pytest.mark.thirds("Spark, a bucket, Iceberg")
@on_s3
def test_sql_with_checkpoints_on_a_disk_writes_to_a_bucket(
    job_file: Path, store: S3 | Azure, tmp_path: Path
) -> None:
    content = json.loads(job_file.read_text())
    del content["spark"]
    content["tables"].append({"table": "ods.copied"})
    text = "INSERT INTO ods.copied SELECT id FROM events"
    content["sql"] = {"text": text, "checkpoints": f"file://{tmp_path}/checkpoints"}
    job_file.write_text(json.dumps(content))
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        for event in launch.events():
            if moment_of(event) == "landed" and getattr(event, "slice", "") != "main":
                os.kill(launch.pid, signal.SIGKILL)
                break
        assert launch.wait() == -signal.SIGKILL
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        left = list(launch.events())
        assert launch.wait() == 0, (left[-5:], launch.log_path.read_text())
    ids = read_table(job_file, store, "copied")["id"].to_pylist()
    assert Counter(ids) == dict.fromkeys(range(RECORDS // PARTITIONS), PARTITIONS)
    require_each_once(job_file, store)


@on_s3
@pytest.mark.thirds("Spark, a bucket, Iceberg")
def test_sql_with_checkpoints_in_the_bucket(job_file: Path, store: S3, tmp_path: Path) -> None:
    """Each id is in both partitions, so a join of the topic with itself has it four times."""
    content = json.loads(job_file.read_text())
    del content["spark"]
    content["tables"].append({"table": "ods.pairs"})
    join = "SELECT a.id FROM events AS a JOIN events AS b ON a.id = b.id"
    content["sql"] = {"text": f"INSERT INTO ods.pairs {join}", "state_partitions": 2}
    job_file.write_text(json.dumps(content))
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        batches = (
            event
            for event in launch.events()
            if moment_of(event) == "landed" and getattr(event, "slice", "") != "main"
        )
        next(batches)
        next(batches)
        os.kill(launch.pid, signal.SIGKILL)
        assert launch.wait() == -signal.SIGKILL
    run_ashore("checkpoint", "rescale", str(job_file), "--partitions", "3")
    content["sql"]["state_partitions"] = 3
    job_file.write_text(json.dumps(content))
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        left = list(launch.events())
        assert launch.wait() == 0, (left[-5:], launch.log_path.read_text())
    ids = read_table(job_file, store, "pairs")["id"].to_pylist()
    assert Counter(ids) == dict.fromkeys(range(RECORDS // PARTITIONS), 4)
    require_each_once(job_file, store)
    run_ashore("checkpoint", "inspect", str(job_file))
    run_ashore("checkpoint", "savepoint", str(job_file), "--to", str(tmp_path / "saved"))


def run_ashore(*arguments: str) -> str:
    """Run a command as a person does, and return what it prints."""
    command = [str(Path(sys.executable).with_name("ashore")), *arguments]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, (arguments, done.returncode, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.thirds("jobs in two kinds of buckets")
def test_commands_of_operators_work_in_a_bucket(job_file: Path) -> None:
    """A job is killed in a move, helped by one, cleaned, and looked at by all the others."""
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, Step.MOVE)
        os.kill(launch.pid, signal.SIGKILL)
        launch.wait()
    for command in ("recover", "clean", "status", "doctor", "verify"):
        run_ashore(command, str(job_file))


@pytest.mark.thirds
@pytest.mark.parametrize("fault", [Fault.LOSE, Fault.LATE, Fault.REPEAT])
def test_faults_lose_and_double_nothing(
    job_file: Path, store: S3 | Azure, proxy: BucketProxy, fault: Fault
) -> None:
    """From the first data file on: every fourth request that changes something."""
    changes: list[BucketRequest] = []
    struck: Counter[str] = Counter()

    def strike(request: BucketRequest) -> Fault:
        if not request.is_change or not (changes or ".in-progress" in request.path):
            return Fault.NONE
        changes.append(request)
        is_struck = len(changes) % 4 == 1
        struck[request.kind] += is_struck
        return fault if is_struck else Fault.NONE

    proxy.strike = strike
    land(job_file)
    proxy.strike = lambda _request: Fault.NONE
    assert struck["put"]
    assert sum(struck.values()) > BATCHES
    require_each_once(job_file, store)


@pytest.mark.thirds("jobs in two kinds of buckets")
def test_a_job_that_is_throttled_waits_and_says_so(
    job_file: Path, store: S3 | Azure, proxy: BucketProxy
) -> None:
    """From the first data file on: a third of the requests are refused."""
    seen: list[BucketRequest] = []
    chance = random.Random(0)

    def strike(request: BucketRequest) -> Fault:
        if seen or ".in-progress" in request.path:
            seen.append(request)
        return Fault.THROTTLE if seen and chance.random() < 1 / 3 else Fault.NONE

    proxy.strike = strike
    with launched(job_file, available_now=True) as launch:
        left = list(launch.events())
        log = launch.log_path.read_text()
        assert launch.wait() == 0, (left[-5:], log)
    proxy.strike = lambda _request: Fault.NONE
    assert "Please reduce your request rate" in log
    assert "again in" in log
    require_each_once(job_file, store)


def test_requests_of_a_batch(job_file: Path, store: S3 | Azure, proxy: BucketProxy) -> None:
    """A data file: one request, and its move. The log: an entry, a look for an archive."""
    with launched(job_file, available_now=True) as launch:
        seen = [len(proxy.requests) for each in launch.events() if moment_of(each) == "landed"]
        assert launch.wait() == 0
    assert len(seen) == BATCHES
    kinds = Counter(each.kind for each in proxy.requests[seen[1] : seen[2]])
    if isinstance(store, S3):
        assert kinds == {"put": 2, "begin": 1, "copy": 1, "complete": 1, "delete": 1} | LOOKS
    else:  # and a look whether the copy is complete, at both ends
        assert kinds == {"put": 2, "copy": 1, "delete": 1} | LOOKS | {"head": LOOKS["head"] + 2}


@pytest.mark.thirds("jobs in two kinds of buckets")
def test_what_a_killed_job_has_left_is_cleaned(job_file: Path) -> None:
    with launched(job_file, available_now=False) as launch:
        wait_for(launch, Step.MOVE)
        os.kill(launch.pid, signal.SIGKILL)
        launch.wait()
    name = SliceName("landing", "main")
    with open_job(job_file) as opened:
        # As a task that was alone when its job died: no entry names the file.
        path = staging_directory("ods.events", name, 1)
        lost = f"{path}/0-{'0' * 16}.in-progress"
        opened.storage.create(lost, b"rows of nobody")
    land(job_file)
    with open_job(job_file) as opened:
        assert [each.path for each in find_staged(opened.storage, name, ["ods.events"])] == [lost]
        later = replace(opened, clock=FakeClock(opened.clock.now_ms() + 30 * DAY_MS))
        plan = plan_clean_job(later)
        assert lost in {step.file.path for step in plan.steps}
        assert clean_job(later, plan) >= len(b"rows of nobody")
        assert find_staged(opened.storage, name, ["ods.events"]) == []
