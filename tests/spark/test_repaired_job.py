"""The doctor repairs the checkpoint of a job's query, and the job counts on from there."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from tests.damage import conf, edit, remove
from tests.spark.programs import contents
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    checkpoint,
    clicks,
    encode,
    last_commit,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)
from typer.testing import CliRunner

from ashore.cli.app import app
from ashore.queries.state.diagnosis.findings import Code
from ashore.queries.state.layout import PARTITIONS, OperatorFile

PART = 200
QUERY = "ods__per_minute"
FINDINGS, NOT_PROVEN = 4, 6  # exit codes


def started(site: Site) -> tuple[Path, str]:
    """Run a job over the first part of its records; the job file and the topic."""
    topic = site.topic(2)
    tables = (read_only(topic), PER_MINUTE_TABLE)
    job_file = sql_job(site, PER_MINUTE, *tables)
    come(site, topic, 0)
    run(site, job_file)
    return job_file, topic


def come(site: Site, topic: str, number: int) -> None:
    records = encode(clicks(number * PART, PART))
    for partition in (0, 1):
        site.produce(topic, records[partition::2], partition)


def doctor(job_file: Path, *options: str) -> tuple[int, dict[str, Any]]:
    asked = ["checkpoint", "doctor", str(job_file), *options, "--json"]
    result = CliRunner().invoke(app, asked)
    found: dict[str, Any] = json.loads(result.stdout)
    return result.exit_code, found


def codes(found: dict[str, Any]) -> set[str]:
    return {each["code"] for each in found["findings"]}


def repartition_halfway(root: Path) -> int:
    """Plan a batch with four partitions, and write some of its state; return the last one done."""
    last = last_commit(root)
    planned = (root / f"offsets/{last}").read_bytes()
    (root / f"offsets/{last + 1}").write_bytes(conf(planned, PARTITIONS, "4"))
    (root / "state/0/3").mkdir()
    change = root / f"state/0/0/{last + 1}.changelog"
    shutil.copy(change, root / f"state/0/3/{last + 2}.changelog")
    return last


def keep_old_partitions(root: Path) -> None:
    shutil.copytree(root / "state/0/1", root / "state/0/2")
    says = root / "state/0/_metadata/metadata"
    edit(says, lambda data: OperatorFile.parse(data, "metadata").cut(3).write())


def require_one_run(site: Site) -> None:
    records = clicks(0, 2 * PART)
    watermark_ms = max(at_ms for _, _, at_ms in records) - 10_000
    assert read_per_minute(site) == per_minute(records, watermark_ms=watermark_ms)


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_a_job_goes_on_from_what_was_repaired(site: Site) -> None:
    job_file, topic = started(site)
    assert doctor(job_file)[1]["findings"] == []
    damaged = checkpoint(site, QUERY)
    keep_old_partitions(damaged)
    last = repartition_halfway(damaged)
    before = contents(damaged)

    code, found = doctor(job_file)
    assert (code, codes(found)) == (
        FINDINGS,
        {Code.HALF_DONE_REPARTITION.value, Code.STALE_PARTITIONS.value},
    )
    code, found = doctor(job_file, "--repair", "--take-over")
    assert (code, found["done"], found["batch"]) == (0, True, last)
    repaired = checkpoint(site, QUERY)
    assert repaired != damaged
    assert contents(damaged) == before, "the original was changed"
    assert doctor(job_file)[1]["findings"] == []

    code, undone = doctor(job_file, "--undo", "--take-over")
    assert (code, undone) == (0, {"batch": last, "done": True})
    assert codes(doctor(job_file)[1]) == {
        Code.HALF_DONE_REPARTITION.value,
        Code.STALE_PARTITIONS.value,
    }
    # What Spark loads was seen above: without a trial the same repair is done, and not proven.
    assert doctor(job_file, "--repair", "--take-over", "--no-trial")[0] == NOT_PROVEN
    come(site, topic, 1)
    run(site, job_file)

    require_one_run(site)
    assert last_commit(checkpoint(site, QUERY)) > last
    code, refused = doctor(job_file, "--undo", "--take-over")
    assert (code, refused["error"]["why"]) == (FINDINGS, "no_repair")


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_a_job_whose_last_change_is_lost_goes_back_with_its_table(site: Site) -> None:
    """A repair alone would leave the table ahead of the query: the doctor names the command."""
    job_file, topic = started(site)
    damaged = checkpoint(site, QUERY)
    last = last_commit(damaged)
    remove(*damaged.glob(f"state/0/0/{last + 1}.*"))

    code, found = doctor(job_file)
    assert (code, codes(found)) == (FINDINGS, {Code.MISSING_FILE.value})
    code, refused = doctor(job_file, "--repair", "--take-over")
    assert (code, refused["error"]["why"]) == (FINDINGS, "goes_back")
    assert f"--to-batch {last - 1}" in refused["error"]["hint"]
    assert checkpoint(site, QUERY) == damaged
    back = ["roll-back", str(job_file), "ods.per_minute", "--to-batch", str(last - 1)]
    result = CliRunner().invoke(app, [*back, "--take-over"])
    assert result.exit_code == 0, result.output

    assert doctor(job_file)[1]["findings"] == []
    come(site, topic, 1)
    run(site, job_file)
    require_one_run(site)
