"""SQL over topics, into tables: the rows are those of one run over the whole input."""

import json
from collections import Counter
from pathlib import Path

from tests.spark.site import Site

START_MS = 1_795_003_200_000  # the start of a minute
MINUTE_MS = 60_000
SECONDS = {"event_time": {"column": "ts"}, "late": {"after": "10s"}}


def click(number: int, country: str, at_ms: int) -> bytes:
    return json.dumps({"id": number, "country": country, "ts": at_ms}).encode()


def source_table(topic: str, name: str = "clicks", **changes: object) -> dict[str, object]:
    """A topic that only SQL reads."""
    table = {
        "topic": topic,
        "table": f"ods.{name}",
        "land": False,
        "on_invalid": "drop",
        "schema": "id BIGINT, country STRING, ts BIGINT",
        **SECONDS,
    }
    return {**table, **changes}


def sql_job(site: Site, sql: str, *tables: dict[str, object], **sections: object) -> Path:
    written = {"text": sql, "state_partitions": 2}
    return site.job_file(*tables, sql=written, batch={"interval": "500ms"}, **sections)


def run(site: Site, job_file: Path) -> None:
    """Run the job until all that is there has been read, as `--available-now` does."""
    writer = site.writer(job_file)
    writer.assembly.run(until_drained=True).run()


def rows(site: Site, table: str) -> list[tuple]:
    return sorted(tuple(row) for row in site.read(table).collect())


PER_MINUTE = """
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, country, count(*) AS clicks, sum(id) AS ids
    FROM clicks GROUP BY window(event_time, '1 minute'), country;
"""


def test_windows_are_counted_once(site: Site) -> None:
    topic = site.topic(2)
    clicks = [
        (number, "DE" if number % 3 else "CN", START_MS + number * 1000) for number in range(300)
    ]
    job_file = sql_job(
        site,
        PER_MINUTE,
        source_table(topic),
        {"table": "ods.per_minute", "event_time": {"column": "minute"}, "partition_by": ["date"]},
    )
    for part in (clicks[:100], clicks[100:220], clicks[220:]):
        site.produce(topic, [click(*each) for each in part if each[0] % 2], 0)
        site.produce(topic, [click(*each) for each in part if not each[0] % 2], 1)
        run(site, job_file)

    expected = Counter()
    for _number, country, at_ms in clicks:
        expected[at_ms // MINUTE_MS, country] += 1
    found = (
        site.read("ods.per_minute").selectExpr("unix_millis(minute)", "country", "clicks").collect()
    )
    # The watermark is ten seconds behind the last record: the last minute is not over.
    over = {
        key: count
        for key, count in expected.items()
        if (key[0] + 1) * MINUTE_MS <= clicks[-1][2] - 10_000
    }
    assert {(row[0] // MINUTE_MS, row[1]): row[2] for row in found} == over
    assert len(found) == len(over)
    site.prove(job_file)
