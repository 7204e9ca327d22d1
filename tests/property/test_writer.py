"""A record is in exactly one place, and what a task reports is what the storage holds."""

import hashlib
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.specs import landing
from tests.unit.topics.orders import (
    HOUR_MS,
    NOW_MS,
    Counting,
    a_batch,
    a_record,
    all_files,
    an_order,
    read_back,
    spec,
)

from ashore.errors import StorageError
from ashore.log.files import Role
from ashore.log.positions import OffsetRange
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write.batch import KeepSpan, LateRule, TaskResult, merge_results
from ashore.topics.write.data_files import PoolLimits
from ashore.topics.write.write_task import write_task
from ashore_lab.testing import FailBefore, FaultyStorage

WATERMARK_MS = NOW_MS - HOUR_MS
AFTER_MS = 2 * HOUR_MS
LONG = "x" * 300

BEYOND_MS = (-(10**14), 10**15)  # in no table's years

STRUCT = pa.struct([("id", pa.int64()), ("ts", pa.int64()), ("country", pa.string())])
SELECTED = pa.schema(
    [
        *FETCHED,
        pa.field("decoded", STRUCT),
        pa.field("keep", pa.bool_()),
        pa.field("reason", pa.string()),
    ]
)


def a_table(name, policy, **changes):
    late = LateRule(AFTER_MS, policy, HOUR_MS)
    return spec(table=f"ods.{name}", late=late, **changes)


TABLES = {
    "dead": a_table("dead", "rehome"),
    "drop": a_table("drop", "keep", on_invalid="drop", timezone="America/St_Johns", format="orc"),
    "side": a_table("side", "side", partition_by=("country", "date")),
    "spark": a_table("spark", "side", where="true", partition_by=(), format="jsonl"),
}
TIMES = {
    "good": st.integers(WATERMARK_MS - AFTER_MS, NOW_MS + HOUR_MS),
    "late": st.integers(WATERMARK_MS - 9 * AFTER_MS, WATERMARK_MS - AFTER_MS - 1),
    "future": st.integers(NOW_MS + HOUR_MS + 1, NOW_MS + 99 * HOUR_MS),
    "untimed": st.none(),
    "unnameable": st.just(NOW_MS),
    "bad": st.just(NOW_MS),
    "tombstone": st.just(NOW_MS),
    "filtered": st.just(NOW_MS),
}


@dataclass(frozen=True)
class Fate:
    """A record, and where it has to be."""

    topic: str
    partition: int
    offset: int
    kind: str
    ts: int | None
    country: str | None
    kafka_ms: int = NOW_MS  # the time that Kafka keeps

    @property
    def place(self):
        return (self.topic, self.partition, self.offset)

    @property
    def record(self):
        row = {"id": self.offset, "ts": self.ts, "country": self.country}
        value = {"bad": b"{bad", "tombstone": None}.get(self.kind, row)
        shard = {"topic": self.topic, "partition": self.partition}
        columns = a_record(self.offset, value, **shard, timestamp_ms=self.kafka_ms)
        is_bad = self.kind in ("bad", "tombstone")
        return {
            **columns,
            "decoded": None if is_bad else row,
            "keep": None if is_bad else self.kind != "filtered",
            "reason": "not JSON" if is_bad else None,
        }

    @property
    def is_bad(self):
        if self.kind == "unnameable":
            return "country" in TABLES[self.topic].output.partition_by
        return self.kind in ("bad", "tombstone")

    @property
    def outcome(self):
        """The role of its file, or `filtered` or `dropped`."""
        table = TABLES[self.topic]
        if self.is_bad:
            return Role.DEAD if table.on_invalid == "dead_letter" else "dropped"
        if self.kind == "filtered" and table.is_selected:
            return "filtered"
        if self.kind in ("late", "future") and table.late.policy == "side":
            return Role.LATE
        return Role.MAIN

    @property
    def partition_values(self):
        """What the directory has to say, by the rules of the late policy."""
        table = TABLES[self.topic]
        if self.outcome is Role.DEAD:
            return (("date", f"{_local(NOW_MS, table):%Y-%m-%d}"),)
        is_own = self.ts is not None and (
            self.kind not in ("late", "future")
            or (self.kind == "late" and table.late.policy == "keep")
        )
        local = _local(self.ts if is_own else NOW_MS, table)
        known = {"date": f"{local:%Y-%m-%d}", "hour": f"{local:%H}", "country": self.country}
        return tuple((name, known[name]) for name in table.output.partition_by)


def _local(time_ms, table):
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone(ZoneInfo(table.output.timezone))


@st.composite
def fates(draw):
    """Runs of several shards, mixed; offsets of a shard ascend, with holes."""
    offsets: Counter = Counter()
    records = []
    for _ in range(draw(st.integers(0, 8))):
        topic, partition = draw(st.sampled_from(sorted(TABLES))), draw(st.integers(0, 1))
        for _ in range(draw(st.integers(1, 12))):
            offsets[topic, partition] += draw(st.integers(1, 3))
            kind = draw(st.sampled_from(sorted(TIMES)))
            country = LONG if kind == "unnameable" else draw(st.sampled_from(["CN", "D/E", None]))
            place = topic, partition, offsets[topic, partition]
            kafka_ms = draw(st.sampled_from([NOW_MS, *BEYOND_MS]))
            records.append(Fate(*place, kind, draw(TIMES[kind]), country, kafka_ms))
    return records


def cut(draw, records):
    """Cut records into batches as a reader might. Spark decodes a topic in a job of its own."""
    batches, rest = [], list(records)
    while rest:
        count = draw(st.integers(1, len(rest)))
        is_spark = TABLES[rest[0].topic].is_selected
        taken = rest[:count]
        for index, each in enumerate(taken):
            if TABLES[each.topic].is_selected != is_spark:
                taken = taken[:index]
                break
        rows = [each.record for each in taken]
        batches.append(a_batch(rows, SELECTED if is_spark else FETCHED))
        rest = rest[len(taken) :]
    return batches


def orders(draw):
    roll_bytes = draw(st.sampled_from([1, 3000, 10**9]))
    tables = {topic: landing(table, roll_bytes=roll_bytes) for topic, table in TABLES.items()}
    watermarks = [(table.table, WATERMARK_MS) for table in tables.values()]
    return an_order(tables, watermarks=sorted(watermarks))


def where(each, row):
    """Return topic, partition and offset of a row that was read back."""
    if each.target.role is Role.DEAD:
        return (row["topic"], row["partition"], row["offset"])
    return (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])


def rows_by_place(files):
    """Return each row with its file, by topic, partition and offset: once each."""
    rows = [(where(each, row), (each.target, row)) for each in files for row in each.rows]
    assert len(dict(rows)) == len(rows), "a record is in two places"
    return dict(rows)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(60))
@given(st.data(), fates())
def test_every_record_is_in_exactly_one_place(data, records):
    order = orders(data.draw)
    limits = PoolLimits(data.draw(st.integers(1, 4)), data.draw(st.integers(1, 2)))
    storage = Counting()
    result = write_task(order, storage, 7, cut(data.draw, records), limits=limits)
    files = read_back(storage, order, result)
    rows = rows_by_place(files)

    inside = {each.place: each for each in records if isinstance(each.outcome, Role)}
    assert rows.keys() == inside.keys()
    for place, each in inside.items():
        target, row = rows[place]
        assert (target.role, target.values) == (each.outcome, each.partition_values)
        kafka_time = row["timestamp" if target.role is Role.DEAD else "kafka_timestamp"]
        assert (kafka_time is None) == (each.kafka_ms in BEYOND_MS)
        if not each.is_bad:
            assert (row["id"], row["ts"]) == (each.offset, each.ts)
    assert dict(result.counters).get("times_out_of_range", 0) == sum(
        each.kafka_ms in BEYOND_MS for each in records
    )
    check_ledger(order, result, records)
    check_files(storage, result, files)
    assert storage.open_most <= limits.open_max + limits.closing_max
    assert storage.open_now == 0


def check_ledger(order, result, records):
    """Each shard's counts are what became of its records."""
    merge_results(order, [result.having_read(order.ranges)])
    assert TaskResult.from_bytes(result.to_bytes()) == result
    expected: dict = {}
    for each in records:
        expected.setdefault((each.topic, each.partition), Counter())[each.outcome] += 1
    found = {
        (read.key.stream, int(read.key.shard)): (
            read.fetched,
            read.landed,
            read.dead,
            read.filtered,
            read.dropped,
        )
        for read in result.reads
    }
    assert found == {
        shard: (
            counts.total(),
            counts[Role.MAIN] + counts[Role.LATE],
            counts[Role.DEAD],
            counts["filtered"],
            counts["dropped"],
        )
        for shard, counts in expected.items()
    }
    for read in result.reads:
        times = [
            each.ts
            for each in records
            if (each.topic, str(each.partition)) == (read.key.stream, read.key.shard)
            if each.outcome in (Role.MAIN, Role.LATE) and each.ts is not None
            if each.kind != "future"
        ]
        assert read.event_max_ms == max(times, default=None)


def check_files(storage, result, files):
    """What is listed is what is there, and says of itself what it holds."""
    assert sorted(each.path for each in files) == all_files(storage, "ods.db")
    for each in files:
        listed = each.file
        assert listed.size_bytes == len(each.content)
        assert listed.checksum == hashlib.blake2b(each.content, digest_size=8).hexdigest()
        rows = each.rows
        assert listed.rows == len(rows) == sum(span.rows for span in listed.spans)
        for span in listed.spans:
            shard = result.reads[span.shard].key
            offsets = [
                offset
                for topic, partition, offset in (where(each, row) for row in rows)
                if (topic, str(partition)) == (shard.stream, shard.shard)
                if span.start <= offset < span.end
            ]
            assert (offsets[0], offsets[-1] + 1) == (span.start, span.end)
            assert span.rows == len(offsets)
        times = [row["ts"] for row in rows if row.get("ts") is not None]
        assert listed.event_min_ms == min(times, default=None)
        assert listed.event_max_ms == max(times, default=None)
    # Offsets of a shard ascend here, so files of one target can be told apart by their spans.
    assert "overlapping_spans" not in dict(result.counters)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(st.data(), fates())
def test_lost_files_are_landed_again_with_the_same_rows(data, records):
    order = orders(data.draw)
    storage = Counting()
    batches = cut(data.draw, records)
    result = write_task(order, storage, 7, batches, limits=PoolLimits(2, 1))
    files = read_back(storage, order, result)
    lost = [each for each in files if data.draw(st.booleans())]
    keep = tuple(
        KeepSpan(
            each.target.table,
            each.target.partition,
            result.reads[span.shard].key,
            OffsetRange(span.start, span.end),
        )
        for each in lost
        for span in each.file.spans
    )
    again = replace(order, keep=keep)
    elsewhere = Counting()
    relanded = write_task(again, elsewhere, 0, cut(data.draw, records))
    merge_results(again, [relanded.having_read(again.ranges)])
    assert rows_by_place(read_back(elsewhere, again, relanded)) == rows_by_place(lost)
    assert sum(read.fetched for read in relanded.reads) == sum(each.file.rows for each in lost)


@pytest.mark.slow
@settings(deadline=None, max_examples=examples(30))
@given(st.data(), fates())
def test_a_storage_that_fails_at_any_call_fails_the_task_and_lists_nothing(data, records):
    order = orders(data.draw)
    limits = PoolLimits(2, 2)
    batches = cut(data.draw, records)
    fine = FaultyStorage(Counting())
    write_task(order, fine, 7, batches, limits=limits)
    if not fine.calls:
        return
    number = data.draw(st.integers(1, len(fine.calls)))
    inner = Counting()
    with pytest.raises(StorageError, match="injected"):
        write_task(order, FaultyStorage(inner, [FailBefore(number)]), 7, batches, limits=limits)
    assert inner.open_now == 0
    assert all(path.endswith(".in-progress") for path in all_files(inner, "ods.db"))
