"""A whole job on a lake with a Hive metastore: registered, sealed, read back by Spark SQL.

In a process of its own on both sides: the job's, and that of a reader with Hive support.
"""

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from tests.kafka_tools import create_topic, produce
from tests.raw_headers import RawRecord, produce_raw
from tests.spark.site import LOCAL, SHORT_LIVED, Site

from ashore.base.clock import SystemClock
from ashore.jobs.events import WarningEvent, moment_of
from ashore.jobs.launch import JobLaunch, LaunchOptions
from ashore.proof.audit.auditor import audit_once
from ashore.proof.evidence.result import ProblemKind
from ashore.proof.status.status import read_status
from ashore.proof.verify.job import verify_job
from ashore.tables.catalog.hive_client import HiveClient
from ashore.tables.catalog.hive_wire import Address, thrift
from ashore.topics.open_job import open_job
from ashore_lab.services.hive import Hive
from ashore_lab.services.kafka import Kafka

JOB = """\
job: lake
lake: file://{lake}
source:
  kafka: {{bootstrap_servers: "{servers}"}}
  first_start: {{default: earliest}}
tables:
  - topic: {topic}
    table: ods.{topic}
    schema: "id BIGINT, user STRING, ts BIGINT, tags ARRAY<STRING>, price DECIMAL(10,2)"
    event_time: {{column: ts, unit: ms}}
    partition_by: [date, hour]
    late: {{policy: keep}}
    seal: {{delay: 1s, idle_after: 2s}}
catalog: {{hive: {{uri: "{hive}", strategy: near}}}}
batch: {{interval: 500ms}}
spark: {spark}
"""
READER = """\
import json, sys
from pyspark.sql import SparkSession
uri, query, warehouse, jvm = sys.argv[1:]
spark = (SparkSession.builder.master("local[1]").enableHiveSupport()
    .config("spark.hadoop.hive.metastore.uris", uri).config("spark.ui.enabled", "false")
    .config("spark.driver.host", "127.0.0.1").config("spark.log.level", "ERROR")
    .config("spark.driver.extraJavaOptions", jvm).config("spark.sql.warehouse.dir", warehouse)
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate())
print("ROWS " + json.dumps([row.asDict() for row in spark.sql(query).collect()], default=str))
"""
HOUR_MS = 3_600_000


def job_of(kafka: Kafka, hive: Hive, topic: str, lake: Path) -> str:
    servers, spark = kafka.bootstrap_servers, json.dumps(LOCAL)
    return JOB.format(lake=lake, servers=servers, topic=topic, hive=hive.uri, spark=spark)


def query(hive: Hive, sql: str, directory: Path) -> list[dict[str, object]]:
    (jvm,) = SHORT_LIVED.values()
    arguments = [sys.executable, "-c", READER, hive.uri, sql, str(directory / "warehouse"), jvm]
    answer = subprocess.run(arguments, capture_output=True, text=True, check=False, timeout=240)
    assert answer.returncode == 0, answer.stderr[-3000:]
    (line,) = [each for each in answer.stdout.splitlines() if each.startswith("ROWS ")]
    return json.loads(line.removeprefix("ROWS "))


def a_record(number: int, ts_ms: int) -> bytes:
    record = {"id": number, "user": f"u{number}", "ts": ts_ms, "tags": ["a", "b"], "price": 1.25}
    return json.dumps(record).encode()


@pytest.mark.long
def test_a_job_registers_seals_and_rides_out_a_metastore_that_is_away(
    kafka: Kafka, hive: Hive, tmp_path: Path
) -> None:
    topic, lake = "hive_clicks", tmp_path / "lake"
    lake.mkdir()
    job_file = tmp_path / "job.yaml"
    job_file.write_text(job_of(kafka, hive, topic, lake))
    create_topic(kafka.bootstrap_servers, topic, 2)
    hour_ms = int(time.time() * 1000) // HOUR_MS * HOUR_MS - 5 * HOUR_MS
    values = [a_record(n, hour_ms + n * HOUR_MS // 100) for n in range(300)]  # three hours
    produce(kafka.bootstrap_servers, topic, values[:100], partition=0)
    hive.kill()  # landing does not wait for it
    with JobLaunch("run", job_file, LaunchOptions(available_now=True)) as launch:
        events = list(launch.events())
        assert launch.wait() == 0, events[-3:]
    assert any(
        isinstance(event, WarningEvent) and "the catalog yet" in event.message for event in events
    )
    with open_job(job_file) as opened:
        status = read_status(opened)
        assert "register" in {each.action for each in status.slices[0].deferred_by_action}
        reported = [each.text for each in status.warnings if each.kind == "deferred"]
        assert any(
            "x register deferred" in each and "no metastore answers" in each for each in reported
        )
    hive.start()
    produce(kafka.bootstrap_servers, topic, values[100:], partition=1)
    with JobLaunch("run", job_file) as launch:
        for event in launch.events():
            is_sealed = any((lake / f"ods.db/{topic}").glob("date=*/hour=*/_SUCCESS"))
            if moment_of(event) == "idle" and is_sealed:
                launch.stop()
        assert launch.wait() == 0
    rows = query(
        hive,
        f"SELECT date, hour, count(*) AS n, sum(id) AS ids, sum(price) AS price, "
        f"min(tags[1]) AS tag FROM ods.{topic} GROUP BY date, hour ORDER BY date, hour",
        tmp_path,
    )
    assert [row["n"] for row in rows] == [100, 100, 100]
    assert sum(int(str(row["ids"])) for row in rows) == sum(range(300))
    assert {row["price"] for row in rows} == {"125.00"}
    with open_job(job_file) as opened:
        status = read_status(opened)
        assert status.slices[0].deferred == status.slices[0].deferred_by_action == ()
        assert verify_job(opened).exit_code == 0
    success = json.loads(
        next((lake / f"ods.db/{topic}").glob("date=*/hour=*/_SUCCESS")).read_text()
    )
    assert (success["version"], success["rows"]) == (1, 100)
    _spoil_and_mend(hive, job_file, topic, tmp_path)


def _spoil_and_mend(hive: Hive, job_file: Path, topic: str, directory: Path) -> None:
    """Drop a partition and delete a success file: the audit says so, and what it says helps."""
    with open_job(job_file) as opened:
        report = audit_once(opened)
        assert (report.findings, report.exit_code) == ((), 0)
        success = next((directory / f"lake/ods.db/{topic}").glob("date=*/hour=*/_SUCCESS"))
        data = success.read_bytes()
        success.unlink()
        drop(hive, topic, str(success.parent.relative_to(directory / f"lake/ods.db/{topic}")))
        found = {each.problem.kind: each.problem for each in audit_once(opened).findings}
        assert found.keys() == {ProblemKind.SUCCESS_FILE_MISSING, ProblemKind.CATALOG_LACKS}
        line = found[ProblemKind.SUCCESS_FILE_MISSING].text.partition("{")
        success.write_text(f"{{{line[2]}\n")
        assert success.read_bytes() == data
        _, is_there, command = found[ProblemKind.CATALOG_LACKS].text.partition("run ")
        assert is_there
        query(hive, command, directory)
        report = audit_once(opened)
        assert (report.findings, report.exit_code) == ((), 0)


SQL_OF_HEADERS = """\
  - table: ods.{sink}
    partition_by: []
    on_error: dead_letter
sql: |
  INSERT INTO ods.{sink} SELECT id, CAST(user AS INT) AS number FROM {topic};
catalog:"""


@pytest.mark.long  # columns of every type: test_hive_spark.py; headers: test_headers.py
def test_headers_are_columns_that_a_metastore_knows(site: Site, kafka: Kafka, hive: Hive) -> None:
    """Of rows and of dead letters, also of those of SQL."""
    topic, sink = land_headers(site, kafka, hive)
    kinds = [columns_of(hive, each) for each in (topic, f"{topic}__dead", f"{sink}__dead")]
    headers = "array<struct<key:string,value:binary>>"
    assert [each.get("kafka_headers") for each in kinds] == [headers, None, None]
    assert [each.get("headers") for each in kinds] == [None, headers, headers]
    assert site.read(f"ods.{topic}").count() == 2


@pytest.mark.long  # every day a reader with other columns: tests/integration/test_hive_spark.py
def test_headers_are_read_through_a_metastore(site: Site, kafka: Kafka, hive: Hive) -> None:
    topic, sink = land_headers(site, kafka, hive)
    headers = "transform({0}, h -> concat(h.key, '=', CAST(h.value AS STRING))) AS headers"
    rows = query(
        hive,
        f"SELECT 'row' AS kind, id, {headers.format('kafka_headers')} FROM ods.{topic} "
        f"UNION ALL SELECT 'dead', offset, {headers.format('headers')} FROM ods.{topic}__dead "
        f"UNION ALL SELECT 'dead of sql', offset, {headers.format('headers')} "
        f"FROM ods.{sink}__dead ORDER BY kind, id",
        site.directory,
    )
    assert [(row["kind"], row["id"], row["headers"]) for row in rows] == [
        ("dead", 1, ["trace=1"]),
        ("dead of sql", 2, ["trace=2"]),
        ("row", 1, ["trace=0"]),
        ("row", 3, ["trace=2"]),
    ]


def land_headers(site: Site, kafka: Kafka, hive: Hive) -> tuple[str, str]:
    """Land a topic with headers, and what SQL makes of it; return the names of the tables."""
    topic = f"hive_headers_{uuid4().hex[:8]}"
    sink = f"{topic}_n"
    written = job_of(kafka, hive, topic, site.lake)
    written = written.replace("    late:", "    provenance: headers\n    late:")
    written = written.replace("catalog:", SQL_OF_HEADERS.format(topic=topic, sink=sink))
    job_file = site.directory / "job.yaml"
    job_file.write_text(written)
    create_topic(kafka.bootstrap_servers, topic, 1)
    now_ms = int(time.time() * 1000)
    bad = {"id": 3, "user": "three", "ts": now_ms}
    values = [b'{"id": 1, "user": "1", "ts": %d}' % now_ms, b"no JSON", json.dumps(bad).encode()]
    sent = [RawRecord(value, [(b"trace", b"%d" % each)]) for each, value in enumerate(values)]
    produce_raw(kafka.bootstrap_servers, topic, sent)
    site.writer(job_file).drain()
    return topic, sink


def columns_of(hive: Hive, table: str) -> dict[str, str]:
    """Return the type of each column of a table, as the metastore has it."""
    with connected(hive) as client:
        found = client.call("get_table_req", thrift.GetTableRequest("ods", table)).table
    return {each.name: each.type for each in found.sd.cols}


@contextmanager
def connected(hive: Hive) -> Iterator[HiveClient]:
    host, _, port = hive.uri.removeprefix("thrift://").rpartition(":")
    client = HiveClient((Address(host, int(port)),), 60, SystemClock())
    yield client
    client.close()


def drop(hive: Hive, topic: str, partition: str) -> None:
    """Drop a partition as somebody does who does not know of the job."""
    with connected(hive) as client:
        assert client.call("drop_partition_by_name", "ods", topic, partition, False)
