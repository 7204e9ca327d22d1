"""Queries whose checkpoint is of a release that read topics by Spark's own Kafka source."""

import json
from pathlib import Path

from tests.spark.site import Site
from tests.spark.sql_jobs import (
    PER_MINUTE,
    PER_MINUTE_TABLE,
    START_MS,
    checkpoint,
    clicks,
    encode,
    last_commit,
    per_minute,
    read_only,
    read_per_minute,
    run,
    sql_job,
)

from ashore.queries.state.layout import parse_kafka, write_kafka


def make_former(path: Path) -> dict[str, bytes]:
    """Write the ends of a checkpoint as Spark's own source does; return all of its offsets."""
    complete = path.parent / f"whole-{path.name}.json"
    complete.write_text(json.dumps({"copy_of": None, "state_format": 1}))
    for each in (path / "offsets").iterdir():
        if each.name.isdigit():
            *head, end = each.read_text().splitlines()
            each.write_text("\n".join([*head, write_kafka(parse_kafka(end, ""))]))
            (each.parent / f".{each.name}.crc").unlink(missing_ok=True)
    return read_offsets(path)


def read_offsets(path: Path) -> dict[str, bytes]:
    return {
        each.name: each.read_bytes() for each in (path / "offsets").iterdir() if each.name.isdigit()
    }


def test_a_query_continues_in_a_copy_and_the_former_checkpoint_stays(site: Site) -> None:
    topic = site.topic(partitions=2)
    job_file = sql_job(site, PER_MINUTE, read_only(topic), PER_MINUTE_TABLE)
    first, second = clicks(0, 100), clicks(100, 200)
    site.produce(topic, encode(first[::2]), partition=0)
    site.produce(topic, encode(first[1::2]), partition=1)
    run(site, job_file)
    former = checkpoint(site, "ods__per_minute")
    before, done = make_former(former), last_commit(former)

    site.produce(topic, encode(second), partition=1)
    run(site, job_file)

    copy = checkpoint(site, "ods__per_minute")
    assert copy != former
    assert last_commit(copy) > done
    assert read_offsets(former) == before
    last = max(read_offsets(copy), key=int)
    assert b'"ashore"' in read_offsets(copy)[last].splitlines()[-1]
    expected = per_minute([*first, *second], watermark_ms=START_MS + 299_000 - 10_000)
    assert read_per_minute(site) == expected
    run(site, job_file)
    assert checkpoint(site, "ods__per_minute") == copy
    site.prove(job_file)
