"""A job file as lines: what two starts are compared by."""

from pathlib import Path

from ashore.jobs.file import load_job
from ashore.jobs.file.masking import show_settings

JOB = """\
job: clicks
lake: file:///lake
source: {kafka: {bootstrap_servers: "h:1", options: {sasl.jaas.config: "user and password"}}}
tables:
  - {topic: clicks, table: ods.clicks, schema: "id BIGINT", land: false, on_invalid: drop}
  - {table: ods.big, format: jsonl}
sql: {text: "INSERT INTO ods.big SELECT id FROM clicks", keep: 10m}
spark: {conf: {spark.hadoop.fs.s3a.secret.key: abc, spark.hadoop.x.password: "${HOME}"}}
"""


def settings(tmp_path: Path, text: str) -> dict[str, str]:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    return dict(show_settings(load_job(path)))


def test_every_value_has_a_line_and_no_secret_is_in_one(tmp_path: Path) -> None:
    found = settings(tmp_path, JOB)
    assert found["job"] == '"clicks"'
    assert found["tables[ods.big].format"] == '"jsonl"'
    assert found["tables[ods.clicks].on_invalid"] == '"drop"'
    assert found["batch.interval"]  # defaults are filled in
    assert found["spark.conf.spark.hadoop.fs.s3a.secret.key"] == '"***"'
    assert found["spark.conf.spark.hadoop.x.password"] == '"${HOME}"'
    assert "abc" not in str(found)
    assert "user and password" not in str(found)
    assert not any("INSERT" in each for each in found.values())


def test_an_item_more_changes_no_other_line(tmp_path: Path) -> None:
    more = JOB.replace("tables:\n", 'tables:\n  - {topic: a, table: ods.a, schema: "id BIGINT"}\n')
    before, after = settings(tmp_path, JOB), settings(tmp_path, more)
    assert before.items() < after.items()
    assert all(key.startswith("tables[ods.a]") for key in after.keys() - before.keys())


def test_keys_of_a_topic_are_no_secret(tmp_path: Path) -> None:
    text = JOB.replace("keep: 10m", "keep: 10m, topics: [{topic: t, mode: upsert, key: [id]}]")
    assert settings(tmp_path, text)["sql.topics[t].key"] == '["id"]'
