"""Records that a query with state leaves aside: dead letters in the entry of their batch."""

import json
import shutil
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

from ashore.errors import RowNotComputed
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.proof.verify.job import verify_job
from ashore.topics.open_job import open_job

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
    assert all(why == "too-far: ods__per_minute" for _, why in letters(site))
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


SUMS = """
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, 'all' AS country, count(*) AS clicks,
        sum(CAST(country AS INT)) AS ids
    FROM clicks GROUP BY window(event_time, '1 minute');
"""
TEN_MINUTES_MS = 600_000


def numbered(start: int, count: int) -> list[Click]:
    return [(each, str(each), START_MS + each * 1_000) for each in range(start, start + count)]


def read_sums(site: Site) -> dict[int, tuple[int, int]]:
    rows = site.read("ods.per_minute").selectExpr("unix_millis(minute) AS ms", "clicks", "ids")
    found = rows.collect()
    assert len({row.ms for row in found}) == len(found)
    return {(row.ms - START_MS) // 60_000: (row.clicks, row.ids) for row in found}


def sums(minutes: int) -> dict[int, tuple[int, int]]:
    return {each: (60, sum(range(each * 60, each * 60 + 60))) for each in range(minutes)}


def test_a_record_that_an_aggregate_cannot_take_in_is_a_dead_letter(site: Site) -> None:
    """It is in no state and moves no watermark, also where its batch runs again for the state."""
    topic = site.topic(2)
    job_file = sql_job(site, SUMS, read_only(topic), TABLE)
    bad = [(1_000, "x", START_MS + TEN_MINUTES_MS), (1_001, "3000000000", START_MS)]
    site.produce(topic, encode([*numbered(0, 30), bad[0], *numbered(30, 40)]), 0)
    site.produce(topic, encode([bad[1], *numbered(70, 30)]), 1)
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [1_000, 1_001]
    assert "(CAST_INVALID_INPUT)" in letters(site)[0][1]
    assert dead(site) == 2
    assert read_sums(site) == sums(1)

    path = checkpoint(site, NAME.slice)
    forget_commit(path, last_commit(path))
    site.produce(topic, encode(numbered(100, 200)), 0)
    run(site, job_file)
    assert read_sums(site) == sums(4)
    assert (len(letters(site)), dead(site)) == (2, 2)
    with open_job(job_file) as opened:
        totals = verify_job(opened).totals
    assert (totals.dead, totals.lost, totals.duplicated) == (2, 0, 0)
    site.prove(job_file)


JOIN = """
    INSERT INTO ods.per_minute
    SELECT a.event_time AS minute, a.country, a.id AS clicks, b.id AS ids
    FROM clicks a JOIN orders b ON CAST(a.country AS INT) = CAST(b.country AS INT)
        AND b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 1 MINUTE;
"""


@pytest.mark.long
def test_both_sides_of_a_join_leave_aside_what_has_no_key(site: Site) -> None:
    """Also where the other side has nothing yet that it could be joined with."""
    first, second = site.topic(1), site.topic(1)
    sources = [read_only(first), read_only(second, "orders")]
    job_file = sql_job(site, JOIN, *sources, TABLE)
    site.produce(first, encode([*numbered(0, 10), (1_000, "x", START_MS), *numbered(10, 10)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [1_000]
    site.produce(second, encode([(2_000, "y", START_MS), *numbered(0, 20)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [1_000, 2_000]
    rows = site.read("ods.per_minute").selectExpr("clicks", "ids").collect()
    assert sorted((row.clicks, row.ids) for row in rows) == [(each, each) for each in range(20)]
    site.prove(job_file)


DISTINCT = """
    INSERT INTO ods.per_minute
    SELECT DISTINCT event_time AS minute, CAST(country AS INT) AS ids
    FROM clicks WHERE 12 div id >= 0;
"""


@pytest.mark.long
def test_keys_and_filters_leave_aside_and_nothing_is_distinct_of_it(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, DISTINCT, read_only(topic), TABLE)
    bad = [(0, "5", START_MS + 90_000), (77, "x", START_MS + 1_000)]
    twice = numbered(1, 30)
    site.produce(topic, encode([*twice, *bad, *twice, *numbered(31, 30)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [0, 77]
    rows = site.read("ods.per_minute").collect()
    assert sorted(row.ids for row in rows) == list(range(1, len(rows) + 1))
    assert len(rows) == 50, "those that are ten seconds old"
    site.prove(job_file)


@pytest.mark.long
def test_what_only_fails_above_the_state_is_no_fault_of_a_record(site: Site) -> None:
    topic = site.topic(1)
    sql = SUMS.replace("sum(CAST(country AS INT))", "sum(id) div (count(*) - 1)")
    job_file = sql_job(site, sql, read_only(topic), TABLE)
    # A minute with one record; and one of many whose parts, each alone, would divide by zero.
    site.produce(topic, encode([*numbered(0, 60), *numbered(60, 1), *numbered(200, 1)]))
    with pytest.raises(RowNotComputed, match="DIVIDE_BY_ZERO"):
        run(site, job_file)
    assert read_log(site.storage, NAME).left_out == ()


@pytest.mark.long
def test_an_older_checkpoint_catches_up_without_what_was_left_aside(site: Site) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, SUMS, read_only(topic), TABLE)
    path, kept = checkpoint(site, NAME.slice), site.directory / "kept"
    site.produce(topic, encode(numbered(0, 50)))
    run(site, job_file)
    shutil.copytree(path, kept)
    site.produce(topic, encode([*numbered(50, 20), (1_000, "x", START_MS), *numbered(70, 20)]))
    run(site, job_file)
    site.produce(topic, encode(numbered(90, 60)))
    run(site, job_file)
    path = checkpoint(site, NAME.slice)
    assert last_commit(path) - last_commit(kept) >= 2
    shutil.rmtree(path)
    shutil.copytree(kept, path)
    site.produce(topic, encode(numbered(150, 60)))
    run(site, job_file)
    assert read_sums(site) == sums(3)
    assert (len(letters(site)), dead(site)) == (1, 1)
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
