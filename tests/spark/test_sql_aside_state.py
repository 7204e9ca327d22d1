"""Records that a query with state leaves aside: dead letters in the entry of their batch."""

import json
import time

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    START_MS,
    Click,
    checkpoint,
    clicks,
    encode,
    forget_commit,
    last_commit,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.control.jobs import open_job
from ashore.control.verify import verify_job
from ashore.landing.log_reader import read_log
from ashore.protocol.names import SliceName

NAME = SliceName("landing", "ods__per_minute")
YEAR_2099_MS = 4_070_908_800_000
WATERMARK_LAG_MS = 11_000  # of `clicks`: ten seconds behind the last second
TABLE: dict[str, object] = {
    "table": "ods.per_minute",
    "event_time": {"column": "minute"},
    "partition_by": ["date"],
    "on_error": "dead_letter",
}


def letters(site: Site) -> list[tuple[int, str]]:
    rows = site.read("ods.per_minute__dead").collect()
    assert len({(row.topic, row.partition, row.offset) for row in rows}) == len(rows)
    return sorted((json.loads(bytes(row.value))["id"], row.reason) for row in rows)


def dead(site: Site) -> int:
    return sum(state.dead for state in read_log(site.storage, NAME).shards.values())


def expected(count: int) -> dict[tuple[int, str], int]:
    return per_minute(clicks(0, count), watermark_ms=START_MS + count * 1_000 - WATERMARK_LAG_MS)


def test_what_is_too_far_ahead_of_a_window_is_a_dead_letter(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), TABLE)
    far: list[Click] = [(7, "DE", YEAR_2099_MS), (8, "DE", YEAR_2099_MS)]
    site.produce(topic, encode([*clicks(0, 100), *far, *clicks(100, 100)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [7, 8]
    assert all(why.startswith("ods__per_minute: its event time") for _, why in letters(site))
    assert dead(site) == 2
    assert read_log(site.storage, NAME).counters["far_future"] == 2
    with open_job(job_file) as opened:
        totals = verify_job(opened).totals
    assert (totals.dead, totals.lost, totals.duplicated) == (2, 0, 0)

    path = checkpoint(site, NAME.slice)
    forget_commit(path, last_commit(path))  # the batch runs again, for its state alone
    site.produce(topic, encode(clicks(200, 200)))
    run(site, job_file)
    assert (len(letters(site)), dead(site)) == (2, 2)
    assert read_per_minute(site) == expected(400)
    site.prove(job_file)


SECONDS = PER_MINUTE.replace("'1 minute'", "'1 second'")


@pytest.mark.long
def test_a_batch_that_runs_again_leaves_out_the_same_by_the_time_that_it_had(site: Site) -> None:
    """By the time of the second run the record would be believed, and counted in the state."""
    topic = site.topic(1)
    source = read_only(topic, late={"after": "1s", "future_max": "1s"})
    job_file = sql_job(site, SECONDS, source, TABLE)
    begun_ms = time.time_ns() // 1_000_000
    far_ms = begun_ms + 40_000  # a first batch may take long to come
    site.produce(topic, encode([(1, "DE", begun_ms), (2, "CN", far_ms)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [2]
    path = checkpoint(site, NAME.slice)
    forget_commit(path, last_commit(path))
    time.sleep(max(0.0, (far_ms + 5_000) / 1000 - time.time()))
    site.produce(topic, encode([(3, "DE", far_ms), (4, "DE", far_ms + 5_000)]))
    run(site, job_file)
    rows = site.read("ods.per_minute").selectExpr("country", "ids").collect()
    assert sorted((row.country, row.ids) for row in rows) == [("DE", 1), ("DE", 3)]
    assert [number for number, _ in letters(site)] == [2]
    site.prove(job_file)
