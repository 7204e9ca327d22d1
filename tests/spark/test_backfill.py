"""`migrate apply --backfill topic`: what is new in a state is what a replay would have."""

from collections import Counter
from pathlib import Path

import pytest
from tests.kafka_tools import delete_records
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    Click,
    clicks,
    encode,
    plan_here,
    read_only,
    run,
    sql_job,
)
from tests.spark.test_migrate_apply import migrate

from ashore.errors import QueryRefused
from ashore.queries.change.check import JudgeOptions, judge_change
from ashore.topics.open_job import open_job

FIRST, SECOND = clicks(0, 100), clicks(100, 100)
COUNTS = PER_MINUTE.replace("sum(id) AS ids", "count(*) AS ids")
ROWS = """
    INSERT INTO ods.per_minute
    SELECT date_trunc('MINUTE', event_time) AS minute, country, 1L AS clicks, id AS ids FROM clicks;
"""
UPTO_MS = START_MS + 3 * MINUTE_MS


def jobs(site: Site, topic: str, old: str, new: str) -> tuple[Path, Path]:
    tables = (read_only(topic), PER_MINUTE_TABLE)
    return tuple(
        sql_job(site, sql, *tables).rename(site.directory / f"{name}.yaml")
        for name, sql in (("old", old), ("new", new))
    )


def landed(site: Site) -> Counter[tuple[int, str, int, int]]:
    columns = ("unix_millis(minute)", "country", "clicks", "ids")
    rows = site.read("ods.per_minute").selectExpr(*columns).collect()
    return Counter((row[0], row[1], row[2], row[3]) for row in rows)


def replayed(records: list[Click]) -> Counter[tuple[int, str, int, int]]:
    """What PER_MINUTE gives over the whole input, of minutes that are over."""
    groups: dict[tuple[int, str], list[int]] = {}
    for number, country, at_ms in records:
        groups.setdefault((at_ms // MINUTE_MS * MINUTE_MS, country), []).append(number)
    return Counter(
        (minute, country, len(ids), sum(ids))
        for (minute, country), ids in groups.items()
        if minute + MINUTE_MS <= UPTO_MS
    )


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_new_function_has_what_a_replay_would_have(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(FIRST))
    old, new = jobs(site, topic, COUNTS, PER_MINUTE)
    run(site, old)
    before = landed(site)
    empty = migrate("check", old, "--to", new, code=4)
    filled = migrate("check", old, "--to", new, "--backfill", "topic", code=4)
    assert (empty["verdict"], filled["verdict"]) == ("partial", "convert")

    done = migrate("apply", old, "--to", new, "--take-over", "--backfill", "topic")
    (stores,) = done["applied"][0]["stores"]
    assert (stores["rewrite"], stores["before"]) == ("recode", stores["after"])
    site.produce(topic, encode(SECOND))
    run(site, new)
    closed = {minute for minute, *_ in before}
    expected = replayed([*FIRST, *SECOND])
    assert landed(site) - before == Counter(
        {row: count for row, count in expected.items() if row[0] not in closed}
    )


@pytest.mark.thirds("slow by itself")
@pytest.mark.timeout(900)
def test_a_new_aggregate_is_filled_and_what_is_gone_refuses_it(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode(FIRST))
    old, new = jobs(site, topic, ROWS, PER_MINUTE)
    run(site, old)
    before = landed(site)
    asked = ("apply", old, "--to", new, "--take-over", "--backfill", "topic")
    assert migrate(*asked)["verdict"] == "convert"
    site.produce(topic, encode(SECOND))
    run(site, new)
    assert landed(site) - before == replayed([*FIRST, *SECOND])

    assert migrate("undo", new, "--output", "roll-back", "--take-over")["done"]
    delete_records(site.servers, topic, 0, 10)
    with open_job(old) as opened, pytest.raises(QueryRefused, match="Kafka has deleted"):
        judge_change(opened, lambda _: plan_here(site, new), JudgeOptions(fills=True))
    run(site, old)
    assert sum(landed(site).values()) == len(FIRST) + len(SECOND)
