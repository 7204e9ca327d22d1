"""The state of a job's query gets another number of partitions, by the command."""

import json
from pathlib import Path

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    Click,
    checkpoint,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.errors import CheckpointUnfit

QUERY = "ods__per_minute"


def answer(*arguments: str) -> dict[str, object]:
    result = CliRunner().invoke(app, ["checkpoint", "rescale", *arguments, "--json"])
    assert result.exit_code == 0, result.output
    found: dict[str, object] = json.loads(result.stdout)
    return found


def produce(site: Site, topic: str, records: list[Click]) -> None:
    for partition in (0, 1):
        site.produce(topic, encode(records[partition::2]), partition)


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_a_job_goes_on_with_other_partitions_and_back(site: Site) -> None:
    topic = site.topic(2)
    tables = (read_only(topic), PER_MINUTE_TABLE)
    job_file = sql_job(site, PER_MINUTE, *tables)
    produce(site, topic, clicks(0, 200))
    run(site, job_file)
    first = checkpoint(site, QUERY)

    shown = answer(str(job_file), "--partitions", "3", "--explain")
    assert (shown["from"], shown["to"], shown["done"]) == (2, 3, False)
    done = answer(str(job_file), "--partitions", "3", "--take-over")
    assert (done["from"], done["to"], done["done"]) == (2, 3, True)
    assert done["rows"]
    assert checkpoint(site, QUERY) != first
    undone = answer(str(job_file), "--undo", "--take-over")
    assert (undone["from"], undone["to"]) == (3, 2)
    assert partitions_of(checkpoint(site, QUERY)) == 2
    again = answer(str(job_file), "--undo", "--take-over")  # what was undone can be undone
    assert (again["from"], again["to"]) == (2, 3)

    produce(site, topic, clicks(200, 200))
    with pytest.raises(CheckpointUnfit, match="the state has 3 partitions") as caught:
        run(site, job_file)
    assert "ashore checkpoint rescale" in caught.value.hint
    without = {"text": PER_MINUTE, "refresh": "1m"}
    run(site, sql_job(site, PER_MINUTE, *tables, sql=without))

    assert partitions_of(checkpoint(site, QUERY)) == 3
    watermark_ms = max(at_ms for _, _, at_ms in clicks(0, 400)) - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 400), watermark_ms=watermark_ms)


def partitions_of(root: Path) -> int:
    return len([each for each in (root / "state" / "0").iterdir() if each.name.isdigit()])
