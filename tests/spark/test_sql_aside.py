"""Records that SQL cannot compute go to the dead letters; the rest of their batch lands, once."""

import json

import pytest
from tests.spark.site import Site
from tests.spark.sql_jobs import (
    START_MS,
    checkpoint,
    encode,
    forget_commit,
    last_commit,
    read_only,
    run,
    sql_job,
)

from ashore.errors import QueryRefused, RowNotComputed
from ashore.log.names import SliceName
from ashore.log.store.reader import read_log
from ashore.proof.verify.job import verify_job
from ashore.proof.verify.sample import SampleRate
from ashore.proof.verify.value_check import WRITTEN_BY_SQL
from ashore.queries.spark.sql import row_writer
from ashore.topics.open_job import open_job

NAME = SliceName("landing", "ods__numbers")
SQL = """
    INSERT INTO ods.numbers
        SELECT id, CAST(country AS INT) AS number, 12 div id AS part FROM clicks;
"""
NUMBERS: dict[str, object] = {"table": "ods.numbers", "on_error": "dead_letter"}
GOOD = [(number, str(number), START_MS) for number in (1, 2, 3, 5, 6)]
BAD = [(4, "x", START_MS), (0, "3", START_MS)]


def numbers(site: Site) -> list[tuple[int, int]]:
    return sorted((row.id, row.number) for row in site.read("ods.numbers").collect())


def letters(site: Site, table: str = "ods.numbers__dead") -> list[tuple[int, str]]:
    rows = site.read(table).collect()
    assert len({(row.partition, row.offset) for row in rows}) == len(rows)
    return sorted((json.loads(bytes(row.value))["id"], row.reason) for row in rows)


def test_records_that_sql_cannot_compute_are_dead_letters_and_the_rest_lands(site: Site) -> None:
    topic = site.topic(1)
    far = (9, "z", START_MS * 2)
    site.produce(topic, encode([*GOOD[:2], *BAD, *GOOD[2:], far]))
    job_file = sql_job(site, SQL, read_only(topic), NUMBERS)
    run(site, job_file)
    assert numbers(site) == [(number, number) for number, _, _ in GOOD]
    zero, four, nine = letters(site)
    assert (zero[0], four[0], nine[0]) == (0, 4, 9)
    assert "(DIVIDE_BY_ZERO)" in zero[1]
    assert "'x'" in four[1]
    assert "(CAST_INVALID_INPUT)" in four[1]
    assert nine[1] == "too-far: ods__numbers"
    assert all(why.startswith("not-computed: ods__numbers: ") for _, why in (zero, four))
    fold = read_log(site.storage, NAME)
    assert sum(state.dead for state in fold.shards.values()) == 3
    assert fold.counters["far_future"] == 1
    with open_job(job_file) as opened:
        verified = verify_job(opened, sample=SampleRate(1, 7))
    totals, values = verified.totals, verified.values
    assert (totals.landed, totals.dead, totals.lost, totals.duplicated) == (5, 3, 0, 0)
    assert values is not None
    assert (values.compared, values.different) == (3, 0), "dead letters are as their records are"
    assert [(each.reason, each.rows) for each in values.not_compared] == [(WRITTEN_BY_SQL, 5)]

    path = checkpoint(site, NAME.slice)
    forget_commit(path, last_commit(path))
    run(site, job_file)  # the batch runs again, and the log has it
    assert (len(numbers(site)), len(letters(site))) == (5, 3)
    site.prove(job_file)


@pytest.mark.long
def test_what_is_too_far_ahead_needs_no_other_error(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode([*GOOD, (9, "9", START_MS * 2)]))
    job_file = sql_job(site, SQL, read_only(topic), NUMBERS)
    run(site, job_file)
    assert (len(numbers(site)), [number for number, _ in letters(site)]) == (5, [9])
    site.produce(topic, encode([(6, "z", START_MS), (7, "7", START_MS)]))
    run(site, job_file)
    assert [number for number, _ in letters(site)] == [6, 9]
    site.prove(job_file)


@pytest.mark.long
def test_dead_letters_may_be_wanted_once_a_query_has_stopped(site: Site) -> None:
    topic = site.topic(1)
    site.produce(topic, encode([*GOOD[:3], *BAD]))
    with pytest.raises(RowNotComputed):
        run(site, sql_job(site, SQL, read_only(topic), {"table": "ods.numbers"}))
    job_file = sql_job(site, SQL, read_only(topic), NUMBERS)
    run(site, job_file)
    assert (len(numbers(site)), len(letters(site))) == (3, 2)
    site.prove(job_file)


@pytest.mark.long
def test_more_of_them_than_are_exceptions_stop_the_query(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_writer, "LETTERS_MAX", 1)
    topic = site.topic(1)
    site.produce(topic, encode([*GOOD[:3], *BAD]))
    with pytest.raises(RowNotComputed, match="more than 1 records"):
        run(site, sql_job(site, SQL, read_only(topic), NUMBERS))
    assert read_log(site.storage, NAME).query is None


@pytest.mark.long
def test_what_stands_beside_the_topics_is_no_fault_of_a_record(site: Site) -> None:
    topic = site.topic(1)
    site.spark.sql("SELECT 'x' AS code").write.parquet(str(site.lake / "dim"))
    sql = f"""
        CREATE TEMPORARY VIEW dim (code STRING) USING parquet OPTIONS (path '{site.lake}/dim');
        CREATE TEMPORARY VIEW codes AS SELECT CAST(code AS INT) AS number FROM dim;
        INSERT INTO ods.numbers SELECT id, number FROM clicks, codes;
    """
    site.produce(topic, encode(GOOD[:3]))
    with pytest.raises(RowNotComputed):
        run(site, sql_job(site, sql, read_only(topic), NUMBERS))
    assert read_log(site.storage, NAME).query is None


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("SELECT id FROM clicks UNION ALL SELECT -id FROM clicks", "reads .* twice"),
        (
            "SELECT a.id FROM clicks a JOIN clicks b ON a.event_time = b.event_time",
            "reads .* twice",
        ),
    ],
)
def test_a_query_that_no_record_can_be_left_out_of_is_refused(
    site: Site, sql: str, why: str
) -> None:
    topic = site.topic(1)
    job_file = sql_job(site, f"INSERT INTO ods.numbers {sql};", read_only(topic), NUMBERS)
    with pytest.raises(QueryRefused, match=why):
        run(site, job_file)
