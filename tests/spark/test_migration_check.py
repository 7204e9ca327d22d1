"""`ashore migrate check`: other SQL, compared with the state that a run has left."""

import json
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    clicks,
    encode,
    read_only,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.control.jobs import open_job
from ashore.control.migration import judge_job
from ashore.migration.verdicts import StateVerdict
from ashore.spark.sql.validate import plan_stored

MORE = PER_MINUTE.replace("sum(id) AS ids", "sum(id) AS ids, max(id) AS last")


@pytest.fixture
def jobs(site: Site) -> tuple[Path, Path]:
    """A job that has run, and a file with other SQL for it."""
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    old = sql_job(site, PER_MINUTE, *tables)
    site.produce(topic, encode(clicks(0, 100)))
    kept = site.directory / "old.yaml"
    kept.write_bytes(old.read_bytes())
    run(site, kept)
    return kept, sql_job(site, MORE, *tables)


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(each): each.read_bytes() for each in root.rglob("*") if each.is_file()}


def test_the_plan_in_the_log_is_compared_with_the_new_sql(
    site: Site, jobs: tuple[Path, Path]
) -> None:
    old, new = jobs
    before = snapshot(site.lake)
    planned = plan_stored(site.writer(new).job.sql)
    with open_job(old) as opened:
        (found,) = judge_job(opened, planned)
        (same,) = judge_job(opened, plan_stored(site.writer(old).job.sql))
    assert same.verdict.verdict is StateVerdict.FULL
    assert found.query == "ods.per_minute"
    assert found.verdict.verdict is StateVerdict.PARTIAL
    assert snapshot(site.lake) == before


@pytest.mark.long
def test_the_command_answers_with_json_and_an_exit_code(
    site: Site, jobs: tuple[Path, Path], tmp_path: Path
) -> None:
    old, new = jobs
    mapping = tmp_path / "mapping.yaml"
    arguments = ["migrate", "check", str(old), "--to", str(new), "--json"]
    result = CliRunner().invoke(app, [*arguments, "--write-mapping", str(mapping)])
    assert result.exit_code == 4, result.stderr
    document = json.loads(result.stdout)
    assert document["verdict"] == "partial"
    (operator,) = document["operators"]
    (pair,) = document["mapping"]
    assert operator["old"] == pair["old"]
    assert {each["verdict"] for each in operator["columns"]} == {"full", "convert", "partial"}
    text = mapping.read_text("utf-8").replace("pin:", "pin: []\n_:").replace("forbid: []", "")
    mapping.write_text(text.replace("_:", "forbid:"), "utf-8")
    forbidden = CliRunner().invoke(app, [*arguments, "--mapping", str(mapping)])
    assert {each["verdict"] for each in json.loads(forbidden.stdout)["operators"]} == {
        "partial",
        "lost",
    }
