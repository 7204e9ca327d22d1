"""`ashore migrate apply` that is killed while Spark writes the state, in a job of two queries.

Every storage call is struck in tests/crash/test_migration.py, where no Spark writes.
"""

import subprocess
import sys

import pytest
from tests.served import SCRIPT, wait_for
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    clicks,
    encode,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)
from tests.spark.test_migrate_apply import NAME, migrate

from ashore.log.names import checkpoint_directory
from ashore.log.store.reader import read_log

EACH = "INSERT INTO ods.each SELECT id, event_time FROM clicks;"
WIDER = PER_MINUTE.replace("AS ids", "AS ids, max(id) AS last")
TABLES = (PER_MINUTE_TABLE, {"table": "ods.each"})


@pytest.mark.long  # two starts of Spark for each; seconds of waiting
@pytest.mark.timeout(900)
@pytest.mark.parametrize("after", ["offsets/1", "state/0/0/2.zip", "commits/1"])
def test_the_old_job_continues_and_the_command_can_be_called_again(site: Site, after: str) -> None:
    topic = site.topic(1)
    tables = (read_only(topic), *TABLES)
    old = sql_job(site, PER_MINUTE + EACH, *tables).rename(site.directory / "old.yaml")
    new = sql_job(site, WIDER + EACH, *tables).rename(site.directory / "new.yaml")
    site.produce(topic, encode(clicks(0, 100)))
    run(site, old)

    asked = ("apply", old, "--to", new, "--accept", "partial", "--take-over")
    written = site.lake / checkpoint_directory(NAME) / "2" / after
    command = [sys.executable, "-c", SCRIPT, "migrate", *map(str, asked)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as apply:
        wait_for(written.exists, within_s=400)
        apply.kill()
    assert not read_log(site.storage, NAME).migrations

    site.produce(topic, encode(clicks(100, 100)))
    run(site, old)
    assert migrate(*asked)["done"]
    site.produce(topic, encode(clicks(200, 100)))
    run(site, new)
    upto_ms = START_MS + 299_000 - 10_000
    assert read_per_minute(site) == per_minute(clicks(0, 300), watermark_ms=upto_ms)
    assert site.read("ods.each").count() == 300
