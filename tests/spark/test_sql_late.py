"""Records that come too late, or too early, for a query: how many, and what `status` says."""

import json
import shutil

import pytest
from tests.spark.site import At, Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    forget_commit,
    last_commit,
    per_minute,
    planned_times,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.errors import Stopped
from ashore.log.names import SliceName
from ashore.log.progress import QueryProgress, Step
from ashore.log.store.reader import read_log
from ashore.proof.status.health import Allowed, read_job, worst_ailment
from ashore.proof.verify.job import verify_job
from ashore.queries.spark.sql.validate import describe_queries
from ashore.topics.open_job import open_job
from ashore.topics.use.preflight import check_job

SLICE = "ods__per_minute"
YEAR_2099_MS = 4_070_908_800_000


class Reported(At):
    """A progress that keeps what it was told of queries."""

    def __init__(self) -> None:
        super().__init__("never", lambda: None)
        self.queries: list[QueryProgress] = []

    def query(self, slice_name: str, progress: QueryProgress) -> None:
        self.queries.append(progress)


def counted(site: Site) -> dict[str, int]:
    return dict(read_log(site.storage, SliceName("landing", SLICE)).counters)


def test_late_records_are_counted_as_records_over_restarts(site: Site) -> None:
    """An aggregate of Spark counts one row for all late records of a group that a task has."""
    topic = site.topic(1)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(0, 200)))
    run(site, job_file)
    assert counted(site).get("late", 0) == 0
    watermark_ms = START_MS + 199_000 - 10_000
    too_late = [(1, "DE", START_MS + number) for number in range(7)]
    still_open = [(1, "DE", watermark_ms - 1_000)]  # its window is not over
    at_the_watermark = [(1, "DE", watermark_ms)]  # Spark holds it late too
    in_time = clicks(200, 50)

    reported = At("never", lambda: None)
    site.produce(topic, encode([*too_late, *still_open, *at_the_watermark, *in_time]))
    run(site, job_file, reported)

    assert counted(site)["late"] == 9
    assert any("9 records of clicks are behind" in each for each in reported.warnings)
    assert any("stateful operators dropped them" in each for each in reported.warnings)
    # Three batches in one run: what is late in the last, was not when the run began.
    behind = [(1, "DE", START_MS + 250_000)] * 2
    limit = {"interval": "300ms", "max_records": 40}
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE, batch=limit)
    site.produce(topic, encode([*clicks(250, 118), *behind]))
    run(site, job_file)
    assert counted(site)["late"] == 11
    expected = per_minute(
        [*clicks(0, 368), *still_open, *at_the_watermark, *behind],
        watermark_ms=START_MS + 367_000 - 10_000,
    )
    assert read_per_minute(site) == expected
    site.prove(job_file)


def test_a_record_of_the_year_2099_does_not_kill_a_windowed_query(site: Site) -> None:
    topic = site.topic(1)
    tables = [read_only(topic), PER_MINUTE_TABLE]
    job_file = sql_job(site, PER_MINUTE, *tables)
    site.produce(topic, encode([*clicks(0, 200), (7, "DE", YEAR_2099_MS)]))
    reported = At("never", lambda: None)
    run(site, job_file, reported)
    assert any("further ahead than `future_max`" in each for each in reported.warnings)
    # `future_max` says what is believed, not what the state means: it may change.
    late = {"after": "10s", "future_max": "2h"}
    job_file = sql_job(site, PER_MINUTE, read_only(topic, late=late), PER_MINUTE_TABLE)
    site.produce(topic, encode([(8, "DE", YEAR_2099_MS), *clicks(200, 100)]))
    run(site, job_file)
    # Nor does another SELECT from the same state meet a changed plan.
    other = PER_MINUTE.replace("sum(id) AS", "sum(id) + 1 AS")
    job_file = sql_job(site, other, read_only(topic, late=late), PER_MINUTE_TABLE)
    site.produce(topic, encode(clicks(300, 100)))
    run(site, job_file)
    expected = per_minute(clicks(0, 400), watermark_ms=START_MS + 399_000 - 10_000)
    assert read_per_minute(site) == expected
    assert counted(site) == {"far_future": 2}
    site.prove(job_file)
    # Records that are of no use count to the health of the query, as those of landed topics do.
    untimed = [json.dumps({"id": number, "country": "DE"}).encode() for number in range(20)]
    of_1970 = [(number, "DE", START_MS // 1000) for number in range(20)]
    site.produce(topic, [*[b"no JSON"] * 20, *untimed, *encode(of_1970)])
    reported = At("never", lambda: None)
    run(site, job_file, reported)
    bad = {"records_undecodable": 20, "records_untimed": 20, "records_near_1970": 20}
    assert counted(site) == {"far_future": 2, "late": 20, **bad}
    assert read_per_minute(site) == expected
    text = "20 of the last 60 offsets read for ods.per_minute (33.3 %) hold records that"
    assert len([each for each in reported.warnings if text in each]) == 3
    with open_job(job_file) as opened:
        status, ailments = read_job(opened, Allowed())
        notes = verify_job(opened).notes
    warned = [each.text for each in status.warnings if each.kind == "bad_records"]
    assert len(warned) == len([each for each in notes if "offsets read for" in each]) == 3
    assert [each for each in warned if "January or February of 1970" in each]
    assert worst_ailment(ailments) == 1


def test_a_table_whose_directory_goes_while_its_query_runs_stops_it(site: Site) -> None:
    topic = site.topic(1)
    copy = "INSERT INTO ods.copies SELECT id, country FROM clicks;"
    job_file = sql_job(site, copy, read_only(topic), {"table": "ods.copies"})
    site.produce(topic, encode(clicks(0, 20)))
    run(site, job_file)
    site.produce(topic, encode(clicks(20, 20)))
    directory = site.lake / "ods.db" / "copies"
    with pytest.raises(Stopped, match=r"no directory ods\.db/copies"):
        run(site, job_file, At(Step.WRITE, lambda: shutil.rmtree(directory)))
    with open_job(job_file) as opened, pytest.raises(Stopped, match="counts rows there"):
        check_job(opened)  # what tasks have created again is none


UNION = """
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, country, count(*) AS clicks FROM (
        SELECT event_time, country FROM clicks UNION ALL SELECT event_time, country FROM orders)
    GROUP BY window(event_time, '1 minute'), country;
"""


IDLE = {"idle_after": "1ms"}


def test_time_goes_on_without_an_idle_input(site: Site) -> None:
    """It is waited for again once it brings records; those behind the others are late."""
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "orders", seal=IDLE), PER_MINUTE_TABLE]
    job_file = sql_job(site, UNION, *tables)
    reported, again = Reported(), Reported()
    site.produce(first, encode(clicks(0, 200)))
    run(site, job_file, reported)
    assert reported.queries[-1].watermark_ms == START_MS + 189_000
    assert reported.queries[-1].held_by is None
    assert read_per_minute(site) == per_minute(clicks(0, 200), watermark_ms=START_MS + 189_000)

    # Spark runs a batch again from its own watermark, also one that went on without an input.
    path = checkpoint(site, SLICE)
    forget_commit(path, last_commit(path))
    in_time = [(300, "DE", START_MS + 195_000)]
    site.produce(second, encode([*in_time, (1, "DE", START_MS)]))
    site.produce(first, encode(clicks(200, 300)))
    run(site, job_file, again)
    assert counted(site)["late"] == 1
    expected = per_minute([*clicks(0, 500), *in_time], watermark_ms=START_MS + 185_000)
    assert read_per_minute(site) == expected, "orders is at 195 s, and is waited for"
    site.prove(job_file)


UNMATCHED = """
    INSERT INTO ods.unmatched
    SELECT a.id, b.id AS match FROM clicks a LEFT JOIN orders b
    ON a.id = b.id AND b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 1 MINUTE;
"""


def test_a_join_with_an_empty_topic_tells_what_has_no_match(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "orders", seal=IDLE), {"table": "ods.unmatched"}]
    job_file = sql_job(site, UNMATCHED, *tables)
    site.produce(first, encode(clicks(0, 200)))
    run(site, job_file)
    rows = site.read("ods.unmatched").collect()
    assert {row.match for row in rows} == {None}
    found = sorted(row.id for row in rows)
    assert found == list(range(len(found)))
    assert 120 <= len(found) <= 130, "189 s less the minute in which a match could still come"
    site.prove(job_file)


SELECTED = {"kept": "a.id", "dropped": "a.id, a.event_time"}
UNBOUNDED = "".join(
    f"INSERT INTO ods.{table} SELECT {columns} FROM clicks a JOIN orders b ON a.id = b.id;"
    for table, columns in SELECTED.items()
)


def test_what_validate_says_of_late_rows_of_a_join_is_what_happens(site: Site) -> None:
    first, second = site.topic(1), site.topic(1)
    sinks = [{"table": f"ods.{table}"} for table in SELECTED]
    job_file = sql_job(
        *(site, UNBOUNDED, read_only(first), read_only(second, "orders"), *sinks),
        batch={"interval": "300ms", "max_records": 40},
    )
    warned = {each.table: each.warnings for each in describe_queries(site.writer(job_file).job)}
    by_clicks = {table: each[0] for table, each in warned.items()}
    assert all("`clicks.event_time`" in each for each in by_clicks.values())
    assert "keeps rows" in by_clicks["ods.kept"]
    assert "drops rows" in by_clicks["ods.dropped"]
    assert all("keeps rows" in each[1] for each in warned.values()), "of orders nothing is selected"

    late, in_time = (1000, "DE", START_MS), (1000, "DE", START_MS + 40_000)
    site.produce(first, encode([*clicks(0, 40), late]))  # in the third batch: 20 of each topic
    site.produce(second, encode([*clicks(0, 40), in_time]))
    run(site, job_file)

    found = {table: {row.id for row in site.read(f"ods.{table}").collect()} for table in SELECTED}
    assert found == {"kept": {*range(40), 1000}, "dropped": {*range(40)}}


@pytest.mark.long
def test_an_older_checkpoint_catches_up_where_inputs_are_of_different_pace(site: Site) -> None:
    """What a batch forgets stands in the log: runs for the state alone would wait for longer."""
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "orders", seal=IDLE), PER_MINUTE_TABLE]
    job_file = sql_job(site, UNION, *tables)
    path, kept = checkpoint(site, SLICE), site.directory / "kept"
    for number in range(4):
        site.produce(first, encode(clicks(number * 90, 90)))
        run(site, job_file)
        if number == 0:
            shutil.copytree(path, kept)
    assert last_commit(path) - last_commit(kept) >= 3
    planned = planned_times(path)
    shutil.rmtree(path)
    shutil.copytree(kept, path)
    slow = [read_only(first), read_only(second, "orders"), PER_MINUTE_TABLE]
    run(site, sql_job(site, UNION, *slow))
    assert planned.items() <= planned_times(path).items(), "what was too far ahead goes by them"
    site.produce(first, encode(clicks(360, 90)))
    job_file = sql_job(site, UNION, *tables)
    run(site, job_file)
    assert read_per_minute(site) == per_minute(clicks(0, 450), watermark_ms=START_MS + 439_000)
    site.prove(job_file)


def test_the_input_whose_silence_holds_a_query_back_is_named(site: Site) -> None:
    """Spark's watermark is that of the slowest input, since the query was started."""
    first, second = site.topic(1), site.topic(1)
    tables = [read_only(first), read_only(second, "orders"), PER_MINUTE_TABLE]
    job_file = sql_job(site, UNION, *tables)
    empty, both, again = Reported(), Reported(), Reported()
    site.produce(first, encode(clicks(0, 200)))
    run(site, job_file, empty)
    assert empty.queries[-1].held_by == "orders"
    assert empty.queries[-1].state_rows is None, "rows of state are not counted"
    assert empty.queries[-1].state_bytes > 0
    assert site.files("ods.per_minute") == []

    site.produce(second, encode(clicks(200, 1)))
    site.produce(first, encode(clicks(201, 1)))
    run(site, job_file, both)
    assert both.queries[-1].held_by is None
    expected = per_minute(clicks(0, 202), watermark_ms=START_MS + 190_000)
    assert read_per_minute(site) == expected

    # A start forgets what the inputs have brought, and not how far the watermark was.
    site.produce(first, encode(clicks(202, 200)))
    run(site, job_file, again)
    assert again.queries[-1].held_by == "orders"
    assert again.queries[-1].watermark_ms == START_MS + 190_000
    assert again.queries[-1].read == 200, "offsets, since it was started"
    assert read_per_minute(site) == expected


def test_results_do_not_depend_on_the_limits_of_a_batch(site: Site) -> None:
    """One partition is hours ahead of the other, offset by offset."""
    topic = site.topic(2)
    fast, slow = clicks(0, 120, step_ms=60_000), clicks(0, 120, step_ms=2_000)
    site.produce(topic, encode(fast), partition=0)
    site.produce(topic, encode(slow), partition=1)
    reported = Reported()
    job_file = sql_job(
        *(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE),
        batch={"interval": "300ms", "max_records": 50},
    )

    run(site, job_file, reported)

    assert counted(site).get("late", 0) == 0
    assert f"{topic}/1" in {each.behind for each in reported.queries}
    assert all(each.lag is not None for each in reported.queries)
    watermark_ms = fast[-1][2] - 10_000
    assert read_per_minute(site) == per_minute([*fast, *slow], watermark_ms=watermark_ms)
