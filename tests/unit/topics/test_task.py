import gc
import hashlib
import json
import subprocess
import sys
import threading
from datetime import UTC, datetime

import pyarrow as pa
import pytest
from tests.unit.topics.orders import (
    CLICKS,
    HOUR_MS,
    NOW_MS,
    Counting,
    a_batch,
    a_record,
    all_files,
    an_order,
    click,
    key,
    read_back,
    spec,
)

from ashore.base.unique import unique
from ashore.errors import BadRecord, CountsDisagree, InvariantBroken, StorageError, SyncFailed
from ashore.log.files import FileSpan, Role
from ashore.log.positions import OffsetRange
from ashore.storage.memory import MemoryStorage
from ashore.topics.decode.reasons import describe
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write import write_task as task
from ashore.topics.write.batch import KeepSpan, LateRule, TaskResult, merge_results, sort_counters
from ashore.topics.write.data_files import FilePool, PoolLimits
from ashore.topics.write.write_task import write_task
from ashore_lab.testing import FailBefore, FaultyStorage


class Landed:
    """One task, written and read back."""

    def __init__(self, order, *batches, **settings):
        self.storage = Counting()
        self.order = order
        self.result = write_task(order, self.storage, 7, batches, **settings)
        self.files = read_back(self.storage, order, self.result)
        # Raises where something does not add up.
        merge_results(order, [self.result.having_read(order.ranges)])

    @property
    def by_directory(self):
        return {
            each.target.directory: [row.get("id", row.get("offset")) for row in each.rows]
            for each in self.files
        }

    @property
    def counters(self):
        return dict(self.result.counters)


def land(records, *, limits=None, **settings):
    """Land records of one table, one batch."""
    order_keys = {"watermarks", "keep", "partitions"}
    order_settings = {name: settings.pop(name) for name in order_keys & settings.keys()}
    order = an_order({"clicks": spec(**settings)}, **order_settings)
    more = {} if limits is None else {"limits": limits}
    return Landed(order, a_batch(records), **more)


def test_no_records_give_an_empty_result_and_no_call():
    storage = FaultyStorage(MemoryStorage())
    result = write_task(an_order(), storage, 7, [a_batch([])])
    assert result == TaskResult(7, (), (), (), ())
    assert storage.calls == []


def test_rows_of_an_hour_are_one_file_that_says_what_it_holds():
    landed = land([click(5, record_key=b"k"), click(9, ts=NOW_MS - 60_000)])
    (file,) = landed.files
    assert file.target.directory == "ods.db/clicks/date=2026-11-21/hour=08"
    assert file.target.values == (("date", "2026-11-21"), ("hour", "08"))
    assert file.target.schema == (
        "id BIGINT, ts BIGINT, country STRING, kafka_topic STRING, kafka_partition INT, "
        "kafka_offset BIGINT, kafka_timestamp TIMESTAMP"
    )
    assert file.rows[1] == {
        "id": 9,
        "ts": NOW_MS - 60_000,
        "country": "CN",
        "kafka_topic": "clicks",
        "kafka_partition": 0,
        "kafka_offset": 9,
        "kafka_timestamp": datetime.fromtimestamp(NOW_MS / 1000, UTC),
    }
    assert file.file.spans == (FileSpan(0, 5, 10, 2),)
    assert (file.file.event_min_ms, file.file.event_max_ms) == (NOW_MS - 60_000, NOW_MS)
    assert file.file.size_bytes == len(file.content)
    assert file.file.checksum == hashlib.blake2b(file.content, digest_size=8).hexdigest()
    assert file.path.startswith("ods.db/clicks/.ashore/job/main/3/42-")
    assert {name: file.metadata[name] for name in file.metadata if name.startswith("ashore")} == {
        "ashore.job": "job",
        "ashore.slice": "main",
        "ashore.epoch": "3",
        "ashore.batch": "42",
        "ashore.task": "7",
        "ashore.ranges": '[{"topic":"clicks","partition":0,"start":5,"end":10,"rows":2}]',
    }
    (read,) = landed.result.reads
    size = sum(len(click(5)["value"]) for _ in range(2)) + 1
    assert (read.fetched, read.landed, read.size_bytes) == (2, 2, size)
    assert read.event_max_ms == NOW_MS
    assert landed.counters == {}


def test_a_result_survives_the_way_to_the_driver():
    result = land([click(5), a_record(6, b"bad")]).result
    assert TaskResult.from_bytes(result.to_bytes()) == result


def test_a_partition_column_leaves_the_file_and_null_is_hives_null():
    landed = land([click(1, country="DE"), click(2, country=None)], partition_by=("country",))
    assert landed.by_directory == {
        "ods.db/clicks/country=DE": [1],
        "ods.db/clicks/country=__HIVE_DEFAULT_PARTITION__": [2],
    }
    assert all("country" not in row for file in landed.files for row in file.rows)
    assert landed.files[1].target.values == (("country", None),)
    assert "country STRING" in landed.files[0].target.schema


def test_a_table_without_partitions_or_provenance():
    landed = land([click(1), click(2)], partition_by=(), provenance=False)
    assert landed.by_directory == {"ods.db/clicks": [1, 2]}
    assert landed.files[0].rows[0].keys() == {"id", "ts", "country"}


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_every_format_is_written_dead_letters_too(extension):
    landed = land([click(1), a_record(2, b"no")], format=extension)
    assert landed.by_directory == {
        "ods.db/clicks/date=2026-11-21/hour=08": [1],
        "ods.db/clicks__dead/date=2026-11-21": [2],
    }
    assert {each.target.extension for each in landed.files} == {extension}


def test_a_dead_row_holds_the_record_as_it_came():
    landed = land([a_record(3, b"\xff{", record_key=b"\x00k"), click(4), a_record(8, None)])
    dead = next(each for each in landed.files if each.target.role is Role.DEAD)
    first, second = dead.rows
    reason = first.pop("reason")
    assert reason
    assert first == {
        "value": b"\xff{",
        "key": b"\x00k",
        "topic": "clicks",
        "partition": 0,
        "offset": 3,
        "timestamp": datetime.fromtimestamp(NOW_MS / 1000, UTC),
    }
    assert (second["value"], second["key"], second["offset"]) == (None, None, 8)
    assert dead.file.spans == (FileSpan(0, 3, 9, 2),)
    assert dead.file.event_max_ms is None
    assert dead.target.table == "ods.clicks__dead"
    assert dead.target.values == (("date", "2026-11-21"),)  # of Shanghai: in UTC it is the same
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.dead) == (3, 1, 2)
    assert landed.counters == {"tombstones": 1}


def test_the_date_of_dead_letters_is_reported_in_the_zone_of_the_table():
    landed = land([a_record(3, b"bad")], timezone="America/New_York")
    assert list(landed.by_directory) == ["ods.db/clicks__dead/date=2026-11-20"]


def test_bad_records_are_dropped_and_counted():
    landed = land([a_record(3, b"bad"), click(4), a_record(5, None)], on_invalid="drop")
    assert list(landed.by_directory.values()) == [[4]]
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.dead, read.dropped) == (3, 1, 0, 2)


def test_a_bad_record_fails_the_task_by_name():
    with pytest.raises(BadRecord, match="clicks/0, offset 5: ") as caught:
        land([click(4), a_record(5, b"bad"), a_record(6, b"worse")], on_invalid="fail")
    fields = caught.value.fields
    assert (fields["topic"], fields["partition"], fields["offset"]) == ("clicks", 0, 5)
    assert fields["reason"] == "not-object"
    assert describe("not-object") in str(caught.value)


def test_a_value_that_no_directory_can_be_named_for_is_bad():
    landed = land(
        [click(1, country="x" * 300), click(2), a_record(3, b"bad")], partition_by=("country",)
    )
    assert landed.by_directory == {
        "ods.db/clicks/country=CN": [2],
        "ods.db/clicks__dead/date=2026-11-21": [1, 3],
    }
    assert landed.counters == {"unnameable": 1}


@pytest.mark.parametrize(
    ("policy", "places", "counters"),
    [
        (
            "rehome",
            {"clicks/date=2026-11-21/hour=08": [1, 2, 3, 4]},
            {"late": 1, "far_future": 1, "no_event_time": 1, "rehomed": 3},
        ),
        (
            "keep",
            {
                "clicks/date=2026-11-21/hour=08": [1, 3, 4],
                "clicks/date=2026-11-21/hour=03": [2],
            },
            {"late": 1, "far_future": 1, "no_event_time": 1, "rehomed": 2},
        ),
        (
            "side",
            {
                "clicks/date=2026-11-21/hour=08": [1, 4],
                "clicks__late/date=2026-11-21/hour=08": [2, 3],
            },
            {"late": 1, "far_future": 1, "no_event_time": 1, "rehomed": 1, "sided": 2},
        ),
    ],
)
def test_records_out_of_time(policy, places, counters):
    times = [NOW_MS, NOW_MS - 5 * HOUR_MS, NOW_MS + 3 * HOUR_MS, None]
    landed = land(
        [click(1 + i, ts=ts) for i, ts in enumerate(times)],
        late=LateRule(2 * HOUR_MS, policy, HOUR_MS),
        watermarks=[("ods.clicks", NOW_MS - HOUR_MS), ("ods.other", NOW_MS + 99 * HOUR_MS)],
    )
    assert landed.by_directory == {f"ods.db/{place}": ids for place, ids in places.items()}
    assert landed.counters == counters
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.event_max_ms) == (4, 4, NOW_MS)
    roles = {each.target.table: each.target.role for each in landed.files}
    assert roles.get("ods.clicks__late", Role.LATE) is Role.LATE
    assert roles["ods.clicks"] is Role.MAIN


def test_without_an_event_column_kafkas_timestamp_counts():
    landed = land([click(1, ts=0, timestamp_ms=NOW_MS - HOUR_MS)], event_column=None)
    assert landed.by_directory == {"ods.db/clicks/date=2026-11-21/hour=07": [1]}
    assert landed.result.reads[0].event_max_ms == NOW_MS - HOUR_MS


IMPOSSIBLE_MS = -(10**14)  # before the year 1


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
@pytest.mark.parametrize("event_column", ["ts", None])
def test_a_timestamp_of_kafka_that_no_table_can_hold_is_null(extension, event_column):
    landed = land(
        [
            click(1),
            click(2, timestamp_ms=IMPOSSIBLE_MS),
            a_record(3, b"no", timestamp_ms=10**15),
            a_record(4, b"no"),
        ],
        format=extension,
        event_column=event_column,
    )
    main, dead = landed.files
    assert main.target.directory == "ods.db/clicks/date=2026-11-21/hour=08"
    assert [row.get("kafka_timestamp") is None for row in main.rows] == [False, True]
    assert [row.get("timestamp") is None for row in dead.rows] == [True, False]
    assert landed.counters["times_out_of_range"] == 2
    assert landed.counters.get("no_event_time", 0) == (event_column is None)
    assert landed.result.reads[0].event_max_ms == NOW_MS


def test_a_time_that_orc_cannot_hold_makes_a_record_bad_in_orc_only():
    """Written as it is, Spark could not read the file: times before 1970 need whole seconds."""
    at = [b'{"at":"1969-12-31T23:59:59Z"}', b'{"at":"1969-12-31T23:59:59.5Z"}', b'{"at":null}']
    records = [a_record(1 + i, value) for i, value in enumerate(at)]
    settings = {"schema": "at TIMESTAMP", "event_column": None}
    assert land(records, **settings).result.reads[0].landed == 3
    landed = land(records, format="orc", **settings)
    main, dead = landed.files
    assert [row["kafka_offset"] for row in main.rows] == [1, 3]
    assert [(row["offset"], row["reason"]) for row in dead.rows] == [(2, "unwritable-time")]


def test_unknown_fields_are_counted():
    record = a_record(1, {"id": 1, "ts": NOW_MS, "more": 1})
    assert land([record, click(2)]).counters == {"unknown_fields": 1}


def spark_batch(*records):
    """Return what Spark has selected: (offset, value, struct, keep), and a reason if known."""
    struct = pa.struct([("id", pa.int64()), ("ts", pa.int64()), ("country", pa.string())])
    added = {"decoded": struct, "keep": pa.bool_(), "reason": pa.string()}
    rows = [
        {**a_record(offset, value), **dict(zip(added, [*values, None], strict=False))}
        for offset, value, *values in records
    ]
    return a_batch(rows, pa.schema([*FETCHED, *map(pa.field, added, added.values())]))


def test_what_spark_has_decoded_is_taken_over():
    good = {"id": 1, "ts": NOW_MS, "country": "CN"}
    clicks = spec(where="true", schema=SCHEMA_NOT_NULL, decode_schema="id BIGINT, ts BIGINT")
    order = an_order({"clicks": clicks})
    landed = Landed(
        order,
        spark_batch(
            (1, b"a", good, True),
            (2, b"b", good, False),
            (3, b"c", good, None),
            (4, b"d", None, True),
            (5, None, None, None),
            (6, b"e", {**good, "country": None}, True),
            (7, b"f", {**good, "id": 7}, True),
            (8, b' {"id":"x"}', None, None),
            (9, b"{broken", None, None, "not-json"),
        ),
    )
    main, dead = landed.files
    assert [(row["kafka_offset"], row["id"]) for row in main.rows] == [(1, 1), (7, 7)]
    assert {row["offset"]: row["reason"] for row in dead.rows} == {
        4: "not-object",
        5: "empty",
        6: "null",
        8: 'wrong-type: id BIGINT "x"',
        9: "not-json",
    }
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.dead, read.filtered) == (9, 2, 5, 2)


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_a_time_of_spark_that_no_table_can_hold_makes_a_record_bad(extension):
    struct = pa.struct([("at", pa.timestamp("us", "UTC")), ("day", pa.date32())])
    columns = {
        **{name: a_batch([click(i) for i in range(1, 5)]).column(name) for name in FETCHED.names},
        "decoded": pa.StructArray.from_arrays(
            [
                pa.array([0, 10**18, 0, 10**18], pa.int64()).view(struct.field("at").type),
                pa.array([0, 0, 10**7, 0], pa.int32()).view(pa.date32()),
            ],
            fields=list(struct),
        ),
        "keep": pa.array([True, True, True, False]),
        "reason": pa.nulls(4, pa.string()),
    }
    table = spec(where="true", schema="at TIMESTAMP, day DATE", format=extension, event_column=None)
    landed = Landed(an_order({"clicks": table}), pa.RecordBatch.from_pydict(columns))
    main, dead = landed.files
    assert [row["kafka_offset"] for row in main.rows] == [1]
    assert [row["offset"] for row in dead.rows] == [2, 3]
    (read,) = landed.result.reads
    assert (read.landed, read.dead, read.filtered) == (1, 2, 1)


SCHEMA_NOT_NULL = "id BIGINT, ts BIGINT, country STRING NOT NULL"


def test_readers_may_deliver_wide_bytes_and_instants_in_another_zone():
    batch = a_batch([click(1), a_record(2, b"bad")])
    schema = FETCHED.set(3, pa.field("timestamp", pa.timestamp("us", "Asia/Tokyo")))
    for index, name in ((4, "key"), (5, "value")):
        schema = schema.set(index, pa.field(name, pa.large_binary()))
    landed = Landed(an_order(), batch.cast(schema))
    main, dead = landed.files
    assert main.rows[0]["kafka_timestamp"] == dead.rows[0]["timestamp"]
    assert main.rows[0]["kafka_timestamp"] == datetime.fromtimestamp(NOW_MS / 1000, UTC)
    assert dead.rows[0]["value"] == b"bad"


def test_counters_have_a_meaning_and_are_not_zero():
    assert sort_counters({"late": 2, "far_future": 1, "sided": 0}) == (
        ("far_future", 1),
        ("late", 2),
    )
    with pytest.raises(InvariantBroken, match="mystery"):
        sort_counters({"mystery": 1})


def test_topics_share_a_table_and_a_file():
    order = an_order({"a": CLICKS, "b": CLICKS})
    landed = Landed(order, a_batch([click(1, topic="a"), click(1, topic="b", partition=1)]))
    (file,) = landed.files
    assert [(row["kafka_topic"], row["kafka_partition"]) for row in file.rows] == [
        ("a", 0),
        ("b", 1),
    ]
    assert file.file.spans == (FileSpan(0, 1, 2, 1), FileSpan(1, 1, 2, 1))
    assert json.loads(file.metadata["ashore.ranges"])[1]["topic"] == "b"


def test_a_shard_that_comes_back_ascending_after_another_has_a_span_each_time():
    landed = land([click(1), click(1, partition=1), click(4), click(2)])
    (file,) = landed.files
    assert file.file.spans == (
        FileSpan(0, 1, 2, 1),
        FileSpan(1, 1, 2, 1),
        FileSpan(0, 4, 5, 1),
        FileSpan(0, 2, 3, 1),
    )
    assert landed.counters == {}


def test_a_span_goes_on_over_the_end_of_a_batch():
    landed = Landed(an_order(), a_batch([click(1), click(2)]), a_batch([click(5)]))
    assert landed.files[0].file.spans == (FileSpan(0, 1, 6, 3),)
    (read,) = landed.result.reads
    assert (read.fetched, read.size_bytes) == (3, 3 * len(click(1)["value"]))


def test_files_are_rolled():
    batches = [a_batch([click(10 * i + j) for j in range(10)]) for i in range(5)]
    landed = Landed(an_order({"clicks": spec(roll_bytes=1)}), *batches)
    assert [each.file.spans for each in landed.files] == [
        (FileSpan(0, 10 * i, 10 * i + 10, 10),) for i in range(5)
    ]
    assert len({each.file.unique for each in landed.files}) == 5


def test_spans_of_rolled_files_that_cannot_be_reported_apart_are_counted():
    order = an_order({"clicks": spec(roll_bytes=1)})
    batches = [a_batch([click(1), click(9)]), a_batch([click(5)])]
    assert Landed(order, *batches).counters == {"overlapping_spans": 1}
    assert Landed(an_order(), *batches).counters == {}  # in one file nothing is to be told apart


def test_the_least_recently_used_file_is_closed_when_too_many_are_open():
    countries = ["a", "b", "a", "c", "a", "b"]
    batches = [a_batch([click(i, country=country)]) for i, country in enumerate(countries)]
    order = an_order({"clicks": spec(partition_by=("country",))})
    limits = PoolLimits(open_max=2, closing_max=1, held_bytes_max=0)
    landed = Landed(order, *batches, limits=limits)
    ids = [[row["id"] for row in each.rows] for each in landed.files]
    assert ids == [[0, 2, 4], [1], [3], [5]]
    assert landed.storage.open_most <= 3
    assert landed.storage.open_now == 0


def test_open_files_are_bounded_whatever_the_data_are():
    records = [click(i, country=f"c{i}") for i in range(100)]
    landed = land(records, partition_by=("country",), limits=PoolLimits(8, 4))
    assert len(landed.files) == 100
    assert landed.storage.open_most <= 12
    assert landed.storage.open_now == 0


def test_few_rows_for_each_of_many_targets_are_one_file_a_target():
    batches = [a_batch([click(n * 100 + i, country=f"c{i}") for i in range(100)]) for n in range(5)]
    order = an_order({"clicks": spec(partition_by=("country",))})
    landed = Landed(order, *batches, limits=PoolLimits(8, 4))
    assert [file.file.rows for file in landed.files] == [5] * 100
    assert landed.storage.open_most <= 12

    landed = Landed(order, *batches, limits=PoolLimits(8, 4, files_max=50))
    assert len(landed.files) == 500  # each comes again when it was closed
    assert landed.storage.open_most <= 12


def test_rows_that_are_not_encoded_yet_are_bounded_for_all_open_files_together():
    held = []

    class Watched(FilePool):
        def write(self, piece):
            super().write(piece)
            held.append(sum(file.held_bytes for file in self._open.values()))

    batches = [
        a_batch([click(i, country=f"c{i % 8}") for i in range(n, n + 100)])
        for n in range(0, 1_000, 100)
    ]
    order = an_order({"clicks": spec(partition_by=("country",))})
    limits = PoolLimits(held_bytes_max=100_000)
    pool = Watched(order, 0, MemoryStorage(), unique, limits)
    writer = task._TaskWriter(order, 0, pool)
    for batch in batches:
        writer.write_all(batch)
    result = writer.finish()
    assert sum(file.rows for file in result.files) == 1_000
    assert len(result.files) == 8  # memory was freed by row groups, not by more files
    assert 50_000 < max(held) <= 100_000


def test_files_are_closed_side_by_side():
    together = threading.Barrier(4, timeout=10)  # breaks, and fails the test, unless four meet

    class Slow(MemoryStorage):
        def open_write(self, path):
            file = super().open_write(path)
            finish = file.close
            file.close = lambda: (together.wait(), finish())[1]
            return file

    records = [click(i, country=f"c{i}") for i in range(8)]
    order = an_order({"clicks": spec(partition_by=("country",))})
    result = write_task(order, Slow(), 0, [a_batch(records)], limits=PoolLimits(8, 4))
    assert len(result.files) == 8


def test_directories_are_synced_once_after_the_last_close():
    storage = FaultyStorage(MemoryStorage())
    order = an_order({"clicks": spec(partition_by=("country",))})
    records = [click(0), click(1, country="b"), a_record(2, b"bad")]
    write_task(order, storage, 0, [a_batch(records)])
    kinds = [call.kind for call in storage.calls]
    assert kinds.count("open_write") == kinds.count("close") == 3
    assert kinds.count("sync") == 1
    assert kinds[-1] == "sync"
    assert set(kinds) == {"open_write", "write", "close", "sync"}


@pytest.mark.parametrize(
    ("kind", "number"),
    [*((kind, n) for kind in ("open_write", "write", "close") for n in (1, 3, 12)), ("sync", 1)],
)
def test_a_storage_that_fails_lists_nothing_and_leaves_nothing_open(kind, number):
    inner = Counting()
    storage = FaultyStorage(inner, [FailBefore(number, kind)])
    order = an_order({"clicks": spec(partition_by=("country",), roll_bytes=1)})
    batches = [a_batch([click(10 * i + j, country=f"c{j}") for j in range(4)]) for i in range(3)]
    with pytest.raises(StorageError, match="injected"):
        write_task(order, storage, 0, batches, limits=PoolLimits(2, 2))
    assert storage.fired
    assert inner.open_now == 0
    assert not [each for each in threading.enumerate() if each.name.startswith("close")]
    assert all_files(inner, "ods.db") == [], "what it staged is of no use, and takes a full disk"
    assert not [call for call in storage.calls if call.kind in ("publish", "list")]


def test_a_reader_that_fails_leaves_nothing_open():
    """Nor a foreign writer that writes its footer when it is collected, as ORC's does."""
    inner = Counting()
    storage = FaultyStorage(inner)

    def batches():
        yield a_batch([click(1)])
        raise SyncFailed("what the reader raised")

    with pytest.raises(SyncFailed, match="what the reader raised"):
        write_task(an_order({"clicks": spec(format="orc")}), storage, 0, batches())
    gc.collect()
    assert inner.open_now == 0
    assert storage.calls == []  # a row is not much, so it was still in memory


@pytest.mark.parametrize(
    "record",
    [click(1, topic="other"), click(1, partition=9), click(1000), a_record(1000, b"bad")],
    ids=["topic", "partition", "offset", "bad record"],
)
def test_what_was_not_asked_for_is_refused(record):
    with pytest.raises(CountsDisagree, match="assigned"):
        land([click(0), record])


def test_landing_lost_files_again_writes_their_rows_only():
    records = [
        click(0),
        click(1, country="b"),
        a_record(2, None),
        click(3, ts=None),
        a_record(4, b"x"),
        click(9),
    ]
    keep = (
        KeepSpan("ods.clicks", "country=CN", key("clicks", 0), OffsetRange(0, 9)),
        KeepSpan("ods.clicks__dead", "date=2026-11-21", key("clicks", 0), OffsetRange(4, 5)),
        KeepSpan("ods.clicks", "country=b", key("clicks", 1), OffsetRange(0, 9)),
    )
    landed = land(records, partition_by=("country",), keep=keep)
    assert landed.by_directory == {
        "ods.db/clicks/country=CN": [0, 3],
        "ods.db/clicks__dead/date=2026-11-21": [4],
    }
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.dead) == (3, 2, 1)
    assert landed.counters == {}


@pytest.mark.parametrize("on_invalid", ["drop", "fail"])
def test_landing_lost_files_again_passes_over_bad_records(on_invalid):
    date = "date=2026-11-21/hour=08"
    keep = (KeepSpan("ods.clicks", date, key("clicks", 0), OffsetRange(0, 9)),)
    landed = land([click(0), a_record(1, b"bad")], on_invalid=on_invalid, keep=keep)
    (read,) = landed.result.reads
    assert (read.fetched, read.landed, read.dropped) == (1, 1, 0)


def test_an_executor_needs_neither_spark_nor_the_command_line():
    forbidden = ["pyspark", "typer", "rich", "pydantic", "confluent_kafka"]
    code = (
        "import sys, ashore.topics.write, ashore.storage.open\n"
        f"print([name for name in {forbidden} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
