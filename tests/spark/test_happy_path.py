"""Topics become tables: what Spark SQL reads back is what was produced."""

import datetime as dt

from tests.kafka_tools import produce
from tests.spark.site import PROVENANCE, Site, event, events, table_of

HOUR_MS = 3_600_000
BELIEVED = {"policy": "keep", "future_max": "9000d"}  # each record goes to the bucket of its time
NOON_MS = 1_795_003_200_000 - 1_795_003_200_000 % 86_400_000 + 12 * HOUR_MS


def test_two_topics_land_in_partitioned_tables(site: Site) -> None:
    clicks, orders = site.topic(4, "clicks"), site.topic(4, "orders")
    countries = ["DE", "CN", None, "a/b=c"]
    for partition in range(4):
        stamped = [
            event(number, countries[number % 4], NOON_MS + number % 2 * HOUR_MS)
            for number in range(partition * 100, partition * 100 + 100)
        ]
        site.produce(clicks, stamped[:50], partition)
        site.produce(clicks, [b'{"id": not json', None, b'{"id": "no number"}'], partition)
        site.produce(clicks, stamped[50:], partition)
        site.produce(orders, events(1_000 + partition * 100, 100), partition)
    job_file = site.job_file(
        table_of(
            clicks,
            "ods.clicks",
            event_time={"column": "ts"},
            partition_by=["date", "hour", "country"],
            late=BELIEVED,
        ),
        table_of(
            orders,
            "ods.orders",
            select=["id", "lower(country) AS country", "id % 2 AS parity"],
            where="id % 10 <> 3",
            partition_by=["parity"],
        ),
    )

    site.writer(job_file).drain()

    noon = dt.datetime.fromtimestamp(NOON_MS / 1000, dt.UTC).date()
    rows = site.read("ods.clicks").select("id", "country", "date", "hour", *PROVENANCE).collect()
    assert {row.id: (row.country, row.date, row.hour) for row in rows} == {
        number: (countries[number % 4], noon, 12 + number % 2) for number in range(400)
    }
    committed = site.committed(clicks)
    for row in rows:
        stamped = event(row.id, row.country, NOON_MS + row.id % 2 * HOUR_MS)
        assert committed.pop((row[4], row[5], row[6])) == stamped  # and no place comes twice

    orders_read = site.read("ods.orders").select("id", "country", "parity").collect()
    assert sorted(tuple(row) for row in orders_read) == [
        (number, "de", number % 2) for number in range(1_000, 1_400) if number % 10 != 3
    ]

    dead = site.read("ods.clicks__dead").collect()
    assert {(row.topic, row.partition, row.offset): row.value for row in dead} == {
        (clicks, partition, 50 + index): value
        for partition in range(4)
        for index, value in enumerate([b'{"id": not json', None, b'{"id": "no number"}'])
    }
    assert all(row.reason for row in dead)

    totals = site.prove(job_file).totals
    assert (totals.fetched, totals.landed, totals.dead, totals.filtered) == (812, 760, 12, 40)
    assert site.fold().unclosed is None
    assert site.staged("ods.clicks") == site.staged("ods.orders") == []


def test_text_and_bytes_land_as_they_are(site: Site) -> None:
    text, raw = site.topic(2, "text"), site.topic(1, "raw")
    lines = ["plain", "", 'two\nlines "quoted"', "日本 €"]
    blobs = [b"\x00\xff\n", b"", b"x" * 10_000]
    sent = [line.encode() for line in lines] + [b"\xff\xfe"]
    produce(site.servers, text, sent, partition=1, timestamp_ms=NOON_MS + 1)
    site.produce(raw, [*blobs, None])
    job_file = site.job_file(
        {"topic": text, "table": "ods.text", "decode": "text", "late": BELIEVED},
        {"topic": raw, "table": "ods.raw", "decode": "bytes", "on_invalid": "drop"},
    )

    site.writer(job_file).drain()

    rows = site.read("ods.text").orderBy("kafka_offset").collect()
    assert [row.value for row in rows] == lines
    noon = dt.datetime.fromtimestamp(NOON_MS / 1000, dt.UTC)  # Kafka's time is the event's here
    assert {(row.date, row.hour) for row in rows} == {(noon.date(), 12)}
    stamps = site.read("ods.text").selectExpr("unix_millis(kafka_timestamp)").distinct().collect()
    assert [row[0] for row in stamps] == [NOON_MS + 1]
    assert [bytes(row.value) for row in site.read("ods.raw").orderBy("kafka_offset").collect()] == (
        blobs
    )
    dead = site.read("ods.text__dead").collect()
    assert [(row.offset, bytes(row.value)) for row in dead] == [(4, b"\xff\xfe")]
    totals = site.prove(job_file).totals
    assert (totals.landed, totals.dead, totals.dropped) == (7, 1, 1)


def test_spark_decodes_and_finds_the_same_bad_records(site: Site) -> None:
    """With `where`, `from_json` does what columnar decoding does elsewhere."""
    topic = site.topic(1)
    site.produce(topic, [b'{"id": 1, "tags": {"a": 1}}', b'{"id": 2}', b"{broken", None])
    job_file = site.job_file(
        table_of(topic, schema="id BIGINT, tags MAP<STRING, INT>", where="id > 0")
    )

    site.writer(job_file).drain()

    rows = site.read().orderBy("id").collect()
    assert [(row.id, row.tags) for row in rows] == [(1, {"a": 1}), (2, None)]
    assert {row.offset for row in site.read("ods.events__dead").collect()} == {2, 3}
    site.prove(job_file)


def test_later_batches_continue_where_the_last_one_ended(site: Site) -> None:
    topic = site.topic(2)
    site.produce(topic, events(0, 25), partition=0)
    site.produce(topic, events(100, 5), partition=1)
    job_file = site.job_file(table_of(topic), batch={"max_records": 10})

    site.writer(job_file).drain()
    site.produce(topic, events(200, 3), partition=1)
    site.writer(job_file).drain()

    assert site.landed_ids() == site.committed_ids(topic)
    assert site.prove(job_file).totals.batches == 4
