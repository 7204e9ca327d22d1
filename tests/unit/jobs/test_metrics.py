"""The section `metrics`."""

from pathlib import Path

import pytest

from ashore.errors import JobFileInvalid
from ashore.jobs.file import load_job

JOB = """\
job: clicks
lake: file:///data/lake
source: {{kafka: {{bootstrap_servers: "127.0.0.1:9092"}}}}
tables: [{{topic: clicks, table: ods.clicks, decode: text}}]
metrics: {metrics}
"""


def load(tmp_path: Path, metrics: str):
    path = tmp_path / "job.yaml"
    path.write_text(JOB.format(metrics=metrics))
    return load_job(path).metrics


def test_a_port_a_file_or_both(tmp_path: Path) -> None:
    assert load(tmp_path, "{port: 9464}").port == 9464
    both = load(tmp_path, "{port: 9464, file: /tmp/a.prom, every: 5s}")
    assert (both.file, both.every_ms) == ("/tmp/a.prom", 5_000)


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ("{}", "expected `port` or `file`"),
        ("{port: 0}", "port"),
        ("{port: 99999}", "port"),
        ("{file: /tmp/a.txt}", "write /tmp/a.txt.prom"),
        ("{prot: 9464}", "did you mean `port`"),
    ],
)
def test_what_cannot_be_exported_is_refused(tmp_path: Path, metrics: str, said: str) -> None:
    with pytest.raises(JobFileInvalid, match="metrics") as refused:
        load(tmp_path, metrics)
    assert said in refused.value.message
