"""SQL over a topic with masked columns: queries, `where` and dead letters have the masks alone."""

import hashlib
import json

from tests.spark.site import Site
from tests.spark.sql_jobs import read_only, run, sql_job

MASK = {"email": "sha256", "card": "last4"}
SCHEMA = "id BIGINT, email STRING, card STRING, ts BIGINT"


def produce(site: Site, topic: str) -> None:
    people = [
        {"id": n, "email": f"{n % 2}@b.c", "card": f"secret-{n:04}", "ts": 1_795_000_000_000 + n}
        for n in range(10)
    ]
    values = [json.dumps(each).encode() for each in people]
    site.produce(topic, [*values, b'{"id": "secret"}'])


def test_a_query_over_a_view_sees_masks(site: Site) -> None:
    topic = site.topic(1)
    produce(site, topic)
    sql = """
        INSERT INTO ods.people SELECT email, card FROM clicks;
        INSERT INTO ods.plain SELECT id FROM clicks WHERE card LIKE 'secret%' OR email LIKE '%@%';
    """
    view = read_only(topic, schema=SCHEMA, mask=MASK)
    run(site, sql_job(site, sql, view, {"table": "ods.people"}, {"table": "ods.plain"}))
    rows = site.read("ods.people").collect()
    assert {row.email for row in rows} == {
        hashlib.sha256(each).hexdigest() for each in (b"0@b.c", b"1@b.c")
    }
    assert {row.card for row in rows} == {f"*******{n:04}" for n in range(10)}
    assert site.files("ods.plain") == []


def test_select_where_and_dead_letters_of_a_table_have_no_value(site: Site) -> None:
    topic = site.topic(1)
    produce(site, topic)
    table = {
        "topic": topic,
        "table": "ods.events",
        "schema": SCHEMA,
        "select": ["id", "concat(card, '!') AS card"],
        "where": "email NOT LIKE '%@%'",
        "partition_by": [],
        "mask": MASK,
    }
    job_file = site.job_file(table)
    site.writer(job_file).drain()
    assert {row.card for row in site.read().collect()} == {f"*******{n:04}!" for n in range(10)}
    (dead,) = site.read("ods.events__dead").collect()
    assert (dead.value, dead.key, dead.offset, dead.reason) == (None, None, 10, "wrong-type")
    for file in [*site.files(), *site.files("ods.events__dead")]:
        assert b"secret" not in file.read_bytes()
