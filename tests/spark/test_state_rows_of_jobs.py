"""Rows of the state of a job, by the command: beside the table that its query has filled."""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tests.spark.programs import contents
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    checkpoint,
    clicks,
    encode,
    read_only,
    read_per_minute,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.cli.app import app


def answer(*arguments: object) -> dict[str, Any]:
    result = CliRunner().invoke(app, ["checkpoint", *map(str, arguments), "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def minute_of(row: dict[str, Any]) -> int:
    start = datetime.fromisoformat(row["key"]["window"]["start"])
    return int(start.timestamp() * 1000) // MINUTE_MS


def land_twice(site: Site) -> Path:
    """Run a job twice, and return its file."""
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    for start in (0, 200):
        site.produce(topic, encode(clicks(start, 200)), 0)
        run(site, job_file)
    return job_file


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_state_and_table_are_all_that_was_read_and_columns_have_the_names_of_the_sql(
    site: Site,
) -> None:
    job_file = land_twice(site)
    attempt = checkpoint(site, "ods__per_minute")
    before = contents(attempt)

    shown = answer("inspect", job_file, "--rows", "--limit", 1000)

    assert contents(attempt) == before
    (table,) = shown["tables"]
    assert shown["job_version"] == 1
    assert (table["names"], table["key_columns"]) == ("sql", ["window", "country"])
    assert table["value_columns"] == ["clicks", "ids"]
    rows = [*table["rows"]]
    kept = {(minute_of(each), each["key"]["country"]): each["value"]["clicks"] for each in rows}
    read = clicks(0, 400)
    assert kept
    assert kept | read_per_minute(site) == Counter(
        (at_ms // MINUTE_MS, country) for _, country, at_ms in read
    )
    ids = Counter[tuple[int, str]]()
    for number, country, at_ms in read:
        ids[at_ms // MINUTE_MS, country] += number
    for each in rows:
        assert each["value"]["ids"] == ids[minute_of(each), each["key"]["country"]]


@pytest.mark.long  # one more Spark; every day without the command: tests/spark/test_state_rows.py
def test_batches_of_a_job_are_compared_by_key(site: Site) -> None:
    job_file = land_twice(site)
    before = contents(checkpoint(site, "ods__per_minute"))
    differing = answer("diff", job_file, 0, "--key", "country=CN")
    assert contents(checkpoint(site, "ods__per_minute")) == before
    (changes,) = differing["tables"]
    assert {each["key"]["country"] for each in changes["rows"]} == {"CN"}
    assert changes["added"]
    assert changes["removed"], "the watermark has passed minutes of the first batch"
