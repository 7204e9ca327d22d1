"""Verification of what the real writer writes: every format, roll, dead letters, late records."""

import json
from dataclasses import replace

import pytest
from tests.unit.proof.lakes import Lake

from ashore.jobs.file import match_topics, parse_job
from ashore.log.entries import Prepare
from ashore.log.files import Role
from ashore.log.positions import BatchTime, OffsetRange, ShardRange, StreamShard
from ashore.proof.evidence.result import CheckedBy, ProblemKind
from ashore.storage.base import Staged
from ashore.storage.open import LakeAddress
from ashore.topics.loop.job import landing_spec
from ashore.topics.write.batch import BatchOrder, merge_results
from ashore.topics.write.write_task import write_task
from ashore_lab.testing import fetched_batch

JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
    event_time: {column: ts, unit: ms}
    partition_by: [date, hour]
    late: {after: 1h, policy: side}
    format: FORMAT
    provenance: PROVENANCE
    roll: {size: 2KB}
"""
RECORDS = 600
HOUR_MS = 3_600_000


def make_job(file_format: str, *, provenance: bool | str = True):
    text = JOB.replace("FORMAT", file_format).replace("PROVENANCE", str(provenance).lower())
    return parse_job(text)


def make_values(now_ms: int) -> list[bytes]:
    values = [
        json.dumps({"id": n, "ts": now_ms - (n % 7) * HOUR_MS}).encode() for n in range(RECORDS)
    ]
    values[13] = b"not JSON"
    return values


def land(lake: Lake, values: list[bytes]) -> Prepare:
    """Land two shards with the job's writer, pieces of both mixed."""
    now_ms = lake.clock.now_ms()
    for shard in (0, 1):
        lake.source.append(StreamShard("clicks", str(shard)), *values)
        lake.source.leave_hole(StreamShard("clicks", str(shard)), 2)
    end = RECORDS + 2
    spec = landing_spec(match_topics(lake.job, ["clicks"])["clicks"])
    ranges = tuple(ShardRange(lake.key(shard), OffsetRange(0, end)) for shard in (0, 1))
    order = BatchOrder(
        lake=LakeAddress("memory:///"),
        name=lake.name,
        epoch=lake.epoch,
        batch=0,
        time=BatchTime(now_ms, (("ods.clicks", now_ms),)),
        ranges=ranges,
        tables=(("clicks", spec),),
    )
    result = write_task(order, lake.storage, 0, fetch(lake))
    written = merge_results(order, [result.having_read(order.ranges)])
    body = Prepare(
        batch=0,
        time=order.time,
        shards=written.reads,
        targets=written.targets,
        files=written.files,
        counters=(),
        query=None,
    )
    entry = lake.append(body)
    for _, pending, final in lake.files(entry):
        lake.storage.publish(Staged(pending), final)
    return body


def fetch(lake: Lake):
    """Yield batches of a hundred records, from one shard and the other by turns."""
    for start in range(0, RECORDS, 100):
        for shard in (0, 1):
            there = StreamShard("clicks", str(shard))
            records = list(lake.source.read_again(there, OffsetRange(start, start + 100)))
            yield fetched_batch(there, records)


def make_lake(file_format: str, *, provenance: bool | str = True) -> tuple[Lake, Prepare]:
    lake = Lake()
    lake.job = make_job(file_format, provenance=provenance)
    lake.source.create("clicks", 2)
    lake.open()
    lake.join(0, 1)
    return lake, land(lake, make_values(lake.clock.now_ms()))


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
def test_what_the_writer_wrote_is_in_order(file_format: str):
    lake, body = make_lake(file_format)
    result = lake.verify()
    assert (result.exit_code, result.problems, result.notes) == (0, (), ())
    (row,) = result.tables
    assert row.checked_by is CheckedBy.PROVENANCE
    assert (row.tally.landed, row.tally.dead) == (2 * RECORDS - 2, 2)
    assert {target.role for target in body.targets} == {*Role}
    assert len(body.files) > len(body.targets)  # files were rolled


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
def test_a_file_of_each_table_that_is_gone_is_missed(file_format: str):
    lake, body = make_lake(file_format)
    for role in Role:
        index = next(i for i, f in enumerate(body.files) if body.targets[f.target].role is role)
        file, _, path = lake.files(lake.entries[-1])[index]
        kept = lake.storage.read(path)
        lake.storage.delete(path)
        result = lake.verify()
        assert (result.totals.lost, result.exit_code) == (file.rows, 5)
        assert result.problem_counts[ProblemKind.FILE_MISSING] == 1
        lake.storage.create(path, kept)
    assert lake.verify().exit_code == 0


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
def test_without_provenance_rows_are_counted(file_format: str):
    lake, body = make_lake(file_format, provenance=False)
    result = lake.verify()
    assert (result.exit_code, result.tables[0].checked_by) == (0, CheckedBy.COUNTS)
    fewer = replace(body.files[0], rows=body.files[0].rows + 1)
    lake.rewrite(replace(body, files=(fewer, *body.files[1:])))
    assert ProblemKind.FILE_ROWS in lake.verify().problem_counts
