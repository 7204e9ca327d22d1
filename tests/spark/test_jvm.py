"""What the JVM of a job is started with."""

from pathlib import Path

import pytest

from ashore.topics.loop.job import load_job_file
from ashore.topics.run.spark.session import conf_of

JOB = """\
job: clicks
lake: file:///lake
source:
  kafka: {bootstrap_servers: "127.0.0.1:9092"}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {column: ts}
"""
OPTIONS = "spark.driver.extraJavaOptions"


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ("", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:CompileThresholdScaling=0.1"),
        ("    where: id > 1\n", None),
        (f'spark: {{conf: {{{OPTIONS}: "-Xss1m"}}}}\n', "-Xss1m"),
    ],
    ids=["sees no record", "decodes records", "as the job file says"],
)
def test_the_jvm_is_light_where_it_sees_no_record(
    tmp_path: Path, more: str, expected: str | None
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(JOB + more, "utf-8")

    assert conf_of(load_job_file(path)).get(OPTIONS) == expected
