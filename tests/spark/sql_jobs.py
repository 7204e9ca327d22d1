"""Jobs with SQL for the tests: records, job files, and runs in this process."""

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from tests.spark.site import LOCAL, Site

from ashore.log.names import SliceName, checkpoint_attempt, checkpoint_directory
from ashore.log.positions import OffsetRange, StreamShard
from ashore.log.progress import Progress, Quiet
from ashore.plans.query import PlannedQuery
from ashore.queries.spark.sql.assembly import assembled
from ashore.queries.spark.sql.validate import plan_stored
from ashore.queries.state.attempts import Attempts
from ashore.topics.loop.job import load_job_file
from ashore.topics.read.kafka import KafkaSource

START_MS = 1_795_003_200_000  # the start of a minute
MINUTE_MS = 60_000

Click = tuple[int, str, int]  # id, country, ms

PER_MINUTE = """
    INSERT INTO ods.per_minute
    SELECT window.start AS minute, country, count(*) AS clicks, sum(id) AS ids
    FROM clicks GROUP BY window(event_time, '1 minute'), country;
"""
PER_MINUTE_TABLE = {
    "table": "ods.per_minute",
    "event_time": {"column": "minute"},
    "partition_by": ["date"],
}


def clicks(start: int, count: int, step_ms: int = 1000) -> list[Click]:
    """Records from `start` on, one each `step_ms`."""
    return [
        (number, "DE" if number % 3 else "CN", START_MS + number * step_ms)
        for number in range(start, start + count)
    ]


def encode(records: Iterable[Click]) -> list[bytes]:
    return [
        json.dumps({"id": number, "country": country, "ts": at_ms}).encode()
        for number, country, at_ms in records
    ]


def read_only(topic: str, name: str = "clicks", **changes: object) -> dict[str, object]:
    """A topic that only SQL reads, with a watermark of ten seconds."""
    table = {
        "topic": topic,
        "table": f"ods.{name}",
        "land": False,
        "on_invalid": "drop",
        "schema": "id BIGINT, country STRING, ts BIGINT",
        "event_time": {"column": "ts"},
        "late": {"after": "10s"},
    }
    return {**table, **changes}


def sql_job(
    site: Site, text: str, *tables: dict[str, object], refresh: str = "1m", **sections: object
) -> Path:
    """Write a job file with SQL; `sections` replaces whole keys. Processes of it start soon."""
    written = {"text": text, "state_partitions": 2, "refresh": refresh}
    default = {"sql": written, "batch": {"interval": "300ms"}, "spark": LOCAL}
    return site.job_file(*tables, **{**default, **sections})


def run(site: Site, job_file: Path, progress: Progress | None = None) -> None:
    """Run the job until all that is there has been read, as `--available-now` does."""
    site.writer(job_file, progress).job.loop(until_drained=True).run()


def plan_here(site: Site, job_file: Path) -> tuple[PlannedQuery, ...]:
    """Return what a job would do, by the session of the tests: a Spark of its own takes longer."""
    with assembled(load_job_file(job_file), site.spark, Quiet()) as assembly:
        return plan_stored(assembly)


def per_minute(records: Iterable[Click], *, watermark_ms: int) -> dict[tuple[int, str], int]:
    """What PER_MINUTE counts, of minutes that are over."""
    counts = Counter((at_ms // MINUTE_MS, country) for _, country, at_ms in records)
    return {key: count for key, count in counts.items() if (key[0] + 1) * MINUTE_MS <= watermark_ms}


def read_per_minute(site: Site) -> dict[tuple[int, str], int]:
    """What stands in the table. Fails where a minute appears twice."""
    columns = ("unix_millis(minute)", "country", "clicks")
    rows = site.read("ods.per_minute").selectExpr(*columns).collect()
    found = {(row[0] // MINUTE_MS, row[1]): row[2] for row in rows}
    assert len(found) == len(rows), "a minute appears twice"
    return found


def checkpoint(site: Site, insert: str, job: str = "landing") -> Path:
    """The newest attempt of a query; before the first start that which it will make."""
    path = checkpoint_directory(SliceName(job, insert))
    newest = Attempts(site.storage, path, "").newest()
    return site.lake / (newest.path if newest else checkpoint_attempt(path, 1))


def forget_commit(path: Path, batch: int) -> None:
    """Make Spark run a batch again that it has finished."""
    (path / "commits" / str(batch)).unlink()
    (path / "commits" / f".{batch}.crc").unlink(missing_ok=True)


def last_commit(path: Path) -> int:
    return max(int(each.name) for each in (path / "commits").iterdir() if each.name.isdigit())


def planned_times(path: Path) -> dict[int, int]:
    """Return the time of each batch of a checkpoint, as Spark planned it."""
    files = [each for each in (path / "offsets").iterdir() if each.name.isdigit()]
    settings = {each.name: json.loads(each.read_text().splitlines()[1]) for each in files}
    return {int(name): each["batchTimestampMs"] for name, each in settings.items()}


def read_topic(site: Site, topic: str) -> list[tuple[int, bytes | None, bytes | None]]:
    """Return partition, key and value of every record of a topic, each partition in its order."""
    source = KafkaSource(site.servers, {}, timeout_s=20)
    try:
        shards = [
            StreamShard(topic, each) for each in source.describe_streams([topic])[topic].shards
        ]
        return [
            (int(shard.shard), record.key, record.value)
            for shard, there in sorted(source.read_offsets(shards).items())
            for record in source.read_again(shard, OffsetRange(there.earliest, there.end))
        ]
    finally:
        source.close()
