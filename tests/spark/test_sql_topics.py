"""SQL into topics: each row at least once, and the newest row of a key what one run would give."""

import json
from pathlib import Path

import pytest
from tests.spark.site import At, Site
from tests.spark.sql_jobs import (
    MINUTE_MS,
    Click,
    checkpoint,
    clicks,
    encode,
    forget_commit,
    last_commit,
    read_only,
    read_topic,
    run,
    sql_job,
)
from tests.spark.test_processes import LOCAL, is_step, launched, wait_for

from ashore.errors import JobFileInvalid, QueryRefused, StorageError, StreamMissing
from ashore.log.names import SliceName, checkpoint_directory, insert_into_topic
from ashore.proof.audit.auditor import Auditor
from ashore.proof.audit.result import Pace
from ashore.proof.status.status import read_status
from ashore.queries.spark.sql.validate import describe_queries
from ashore.topics.open_job import open_job

PER_COUNTRY = """
    INSERT INTO `{topic}`
    SELECT country, count(*) AS clicks, sum(id) AS ids FROM clicks GROUP BY country;
"""
MINUTES = """
    INSERT INTO `{topic}`
    SELECT window.start AS minute, country, count(*) AS clicks
    FROM clicks GROUP BY window(event_time, '1 minute'), country;
"""


def topic_job(
    site: Site, sql: str, source: str, target: dict[str, object], **sections: object
) -> Path:
    """A job that writes one topic; `{topic}` in the SQL is its name."""
    written = {
        "text": sql.replace("{topic}", str(target["topic"])),
        "topics": [target],
        "state_partitions": 2,
        "producer": {"linger.ms": "1"},
    }
    return sql_job(site, "", read_only(source), sql=written, **sections)


def upsert(topic: str, *key: str) -> dict[str, object]:
    return {"topic": topic, "mode": "upsert", "key": list(key)}


def newest(site: Site, topic: str) -> dict[str, object]:
    """The newest value of each key, in the order of each partition."""
    return {
        (key or b"").decode(): json.loads(value or b"null")
        for _place, key, value in read_topic(site, topic)
    }


def per_country(records: list[Click]) -> dict[str, object]:
    """What one run over all of the records ends with."""
    found: dict[str, object] = {}
    for country in {each[1] for each in records}:
        ids = [number for number, of, _ in records if of == country]
        found[country] = {"country": country, "clicks": len(ids), "ids": sum(ids)}
    return found


def test_rows_are_records_of_a_plain_topic(site: Site) -> None:
    """Every row once as long as nothing fails; a batch that the log holds is not sent again."""
    source, target = site.topic(2), site.topic(2, "out.big")
    sql = "INSERT INTO `{topic}` SELECT id, country, event_time, null AS note FROM clicks;"
    job_file = topic_job(site, sql, source, {"topic": target, "key": ["id"]})
    for start in (0, 20):
        site.produce(source, encode(clicks(start, 20)), start // 20)
        run(site, job_file)
        path = checkpoint(site, insert_into_topic(target))
        forget_commit(path, last_commit(path))  # as if killed before Spark was told
        run(site, job_file)

    records = read_topic(site, target)
    assert sorted(int(key or b"") for _, key, _ in records) == list(range(40))
    value = next(json.loads(value or b"") for _, key, value in records if key == b"1")
    assert value == {
        "id": 1,
        "country": "DE",
        "event_time": "2026-11-18T12:00:01.000000Z",
        "note": None,
    }
    verdict = site.prove(job_file)
    assert any("at least once" in note for note in verdict.notes)
    with open_job(job_file) as opened:
        (query,) = read_status(opened).slices
        assert (query.lag, query.counters) == (0, {"sent": 40})
        auditor = Auditor(opened, Pace(1.0))
        assert auditor.tick().findings == ()


def test_an_upsert_topic_ends_with_what_one_run_gives(site: Site) -> None:
    source, target = site.topic(2), site.topic(2, "totals", **{"cleanup.policy": "compact"})
    job_file = topic_job(site, PER_COUNTRY, source, upsert(target, "country"))
    for number in range(3):
        site.produce(source, encode(clicks(number * 30, 30)), number % 2)
        run(site, job_file)
        assert newest(site, target) == per_country(clicks(0, number * 30 + 30))
    # One record for each key that a batch has changed.
    assert len(read_topic(site, target)) == 6


# Every day at each call in memory: tests/crash/test_topic_sink.py.
@pytest.mark.long
@pytest.mark.parametrize("steps", [("prepare",), ("prepare", "landed")], ids="-".join)
def test_killed_while_it_writes_a_topic_ends_with_what_one_run_gives(
    site: Site, steps: tuple[str, ...]
) -> None:
    source, target = site.topic(2), site.topic(2, "minutes", **{"cleanup.policy": "compact"})
    key = ("minute", "country")
    job_file = topic_job(site, MINUTES, source, upsert(target, *key), spark=LOCAL)
    for number, step in enumerate(steps):
        part = encode(clicks(number * 90, 90))
        site.produce(source, part[::2], 0)
        site.produce(source, part[1::2], 1)
        with launched(job_file) as launch:
            wait_for(launch, is_step(step))
            launch.kill()
            launch.wait()
    total = (len(steps) + 1) * 90
    site.produce(source, encode(clicks(total - 90, 90)))
    run(site, job_file)

    once = site.topic(2, "once")
    run(site, topic_job(site, MINUTES, source, upsert(once, *key), job="whole"))
    expected = newest(site, once)
    assert len(expected) == len({(at_ms // MINUTE_MS, of) for _, of, at_ms in clicks(0, total)})
    assert newest(site, target) == expected
    site.prove(job_file)


def test_rows_of_a_batch_that_was_cut_short_come_again(site: Site) -> None:
    """At `prepare` all of its rows have been sent, and nothing of it is in the log."""
    source, target = site.topic(1), site.topic(1, "totals")
    job_file = topic_job(site, PER_COUNTRY, source, upsert(target, "country"))
    site.produce(source, encode(clicks(0, 30)))

    def cut_short() -> None:
        raise StorageError("the lake is away")

    reported = At("prepare", cut_short)
    run(site, job_file, reported)

    assert any("the lake is away" in warning for warning in reported.warnings)
    sent = [(key, json.loads(value or b"")) for _, key, value in read_topic(site, target)]
    whole = per_country(clicks(0, 30))
    assert sorted(key or b"" for key, _ in sent) == [b"CN", b"CN", b"DE", b"DE"]
    assert all(value == whole[(key or b"").decode()] for key, value in sent)
    with open_job(job_file) as opened:
        (query,) = read_status(opened).slices
        assert query.counters == {"sent": 2}


def test_a_topic_that_one_query_writes_another_reads(site: Site) -> None:
    """What is written is read back: times to the microsecond, nulls, and nothing else."""
    source, between = site.topic(1), site.topic(1, "between")
    sql = {
        "text": f"""
            INSERT INTO `{between}` SELECT id, event_time AS at, null AS note FROM clicks;
            INSERT INTO ods.again SELECT id, at, note FROM passed_on;
        """,
        "topics": [{"topic": between}],
        "state_partitions": 2,
    }
    again = read_only(between, "passed_on", schema="id BIGINT, at TIMESTAMP, note STRING")
    del again["event_time"], again["late"]
    job_file = sql_job(site, "", read_only(source), again, {"table": "ods.again"}, sql=sql)
    site.produce(source, encode(clicks(0, 20)))
    run(site, job_file)
    run(site, job_file)  # the second query may have ended before the first had written

    rows = site.read("ods.again").selectExpr("id", "unix_millis(at)", "note").collect()
    expected = [(number, at_ms, None) for number, _, at_ms in clicks(0, 20)]
    assert sorted(tuple(row) for row in rows) == expected
    site.prove(job_file)


SESSIONS = """
    SELECT session_window.start AS began, country, count(*) AS n
    FROM clicks GROUP BY session_window(event_time, '5 seconds'), country
"""
UNMATCHED = """
    SELECT a.id FROM clicks a LEFT JOIN clicks b
    ON a.id = b.id AND b.event_time BETWEEN a.event_time AND a.event_time + INTERVAL 5 SECONDS
"""
HIDDEN = """
    SELECT country, count(*) AS n FROM clicks GROUP BY window(event_time, '1 minute'), country
"""
REFUSED = [
    ("SELECT country, count(*) AS n FROM clicks GROUP BY country", {}, "mode: upsert"),
    (SESSIONS, {"mode": "upsert", "key": ["country"]}, "mode: append"),
    (UNMATCHED, {"mode": "upsert", "key": ["id"]}, "mode: append"),
    (HIDDEN, {"mode": "upsert", "key": ["country"]}, "add that to `key`"),
    ("SELECT id FROM clicks", {"mode": "upsert", "key": ["id"]}, "max_by(struct(...), ts)"),
    ("SELECT id FROM clicks", {"key": ["country"]}, "name one of id"),
    ("SELECT id, id FROM clicks", {}, "with `AS`"),
]


def test_rows_that_make_no_records_are_refused_with_what_to_write(site: Site) -> None:
    source, target = site.topic(1), site.topic(1, "refused")
    for number, (select, item, words) in enumerate(REFUSED):
        sql = f"INSERT INTO `{{topic}}` {select};"
        job_file = topic_job(site, sql, source, {"topic": target, **item}, job=f"job{number}")
        with pytest.raises(QueryRefused) as refused:
            run(site, job_file)
        assert words in refused.value.hint, (refused.value.message, refused.value.hint)
        assert "\n" not in refused.value.message


def test_a_topic_is_not_written_by_what_reads_it(site: Site) -> None:
    source = site.topic(1)
    sql = "INSERT INTO `{topic}` SELECT id FROM clicks;"
    with pytest.raises(QueryRefused, match="that it writes"):
        run(site, topic_job(site, sql, source, {"topic": source}))
    names = topic_job(site, "INSERT INTO other SELECT id FROM clicks;", source, {"topic": source})
    with pytest.raises(JobFileInvalid, match=r"nor a topic of `sql\.topics`"):
        run(site, names)


@pytest.mark.long  # Kafka's producer waits a minute for it
def test_a_topic_that_is_written_has_to_be_there(site: Site) -> None:
    sql = "INSERT INTO `{topic}` SELECT id FROM clicks;"
    with pytest.raises(StreamMissing, match="nowhere"):
        run(site, topic_job(site, sql, site.topic(1), {"topic": "nowhere"}))


def test_a_row_without_a_key_stops_an_upsert_topic(site: Site) -> None:
    source, target = site.topic(1), site.topic(1, "totals")
    job_file = topic_job(site, PER_COUNTRY, source, upsert(target, "country"))
    site.produce(source, [b'{"id": 1, "ts": 1795003200000}', *encode(clicks(0, 3))])
    with pytest.raises(QueryRefused, match="its country is null") as refused:
        run(site, job_file)
    assert "WHERE country IS NOT NULL" in refused.value.hint

    mended = PER_COUNTRY.replace("FROM clicks", "FROM clicks WHERE country IS NOT NULL")
    run(site, topic_job(site, mended, source, upsert(target, "country")))
    assert newest(site, target) == per_country(clicks(0, 3))


def test_validate_tells_what_is_promised(site: Site) -> None:
    job_file = topic_job(site, MINUTES, "nowhere", upsert("counts", "minute", "country"))
    job = site.writer(job_file).job

    (described,) = describe_queries(job)

    assert (described.topic, described.mode) == ("counts", "upsert")
    assert described.key == ("minute", "country")
    assert "at least once" in described.guarantee
    path = checkpoint_directory(SliceName("landing", "topic__counts"))
    assert described.checkpoint.endswith(path)
    assert list(site.lake.iterdir()) == []
