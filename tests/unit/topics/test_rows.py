"""Rows of a query become files: each in the bucket of its own time, none with offsets."""

import json

import pyarrow as pa
import pytest

from ashore.errors import BadRecord, QueryRefused
from ashore.jobs.file import Table
from ashore.log.files import BatchPlace
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.topics.loop.table_checks import sink_output
from ashore.topics.write.batch import RowsOrder, TaskResult
from ashore.topics.write.rows import write_rows

NAME = SliceName("job", "ods__result")
NOON_MS = 1_795_003_200_000 - 1_795_003_200_000 % 86_400_000 + 43_200_000
DDL = "`minute` timestamp, `n` bigint, `country` string"


def item(**keys: object) -> Table:
    written = {"table": "ods.result", "format": "jsonl", **keys}
    return Table.model_validate(written)


def order(table: Table, ddl: str = DDL) -> RowsOrder:
    return RowsOrder(
        LakeAddress("memory:"), NAME, 1, 4, BatchTime(NOON_MS), sink_output(table, ddl)
    )


def batch(*rows: tuple[int | None, int, str | None]) -> pa.RecordBatch:
    columns = [
        pa.array([row[0] for row in rows], pa.timestamp("ms", "UTC")).cast(
            pa.timestamp("us", "UTC")
        ),
        pa.array([row[1] for row in rows], pa.int64()),
        pa.array([row[2] for row in rows], pa.string()),
    ]
    return pa.record_batch(columns, names=["minute", "n", "country"])


def read(storage: MemoryStorage, result: TaskResult) -> dict[str, list[int]]:
    """The values of n by partition."""
    found: dict[str, list[int]] = {}
    for file in result.files:
        target = result.targets[file.target]
        pending = BatchPlace(NAME, 1, 4).place(file, target).pending
        lines = storage.read(pending).splitlines()
        assert len(lines) == file.rows
        assert file.spans == ()
        found.setdefault(target.partition, []).extend(json.loads(line)["n"] for line in lines)
    return found


def test_each_row_is_in_the_bucket_of_its_time_however_old() -> None:
    storage = MemoryStorage()
    table = item(event_time={"column": "minute"}, partition_by=["date", "country"])
    day_ms = 86_400_000
    rows = batch(
        *((NOON_MS, 1, "DE"), (NOON_MS - 5000 * day_ms, 2, "DE"), (NOON_MS, 3, None)),
        *((NOON_MS + 900 * day_ms, 4, "DE"), (None, 5, "DE"), (NOON_MS, 6, "DE")),
    )
    result = write_rows(order(table), storage, 0, [batch(), rows])
    found = read(storage, result)
    assert sum(map(len, found.values())) == 6
    assert [1, 5, 6] in found.values()  # without a time: the bucket of now
    assert len(found) == 4
    assert dict(result.counters)["no_event_time"] == 1
    assert result.reads == ()


def test_a_table_without_times_has_no_partitions() -> None:
    storage = MemoryStorage()
    result = write_rows(order(item()), storage, 3, [batch((None, 1, "DE"), (NOON_MS, 2, None))])
    assert read(storage, result) == {"": [1, 2]}
    assert [file.task for file in result.files] == [3]
    assert "no_event_time" not in dict(result.counters)


def test_no_rows_make_no_file() -> None:
    result = write_rows(order(item()), MemoryStorage(), 0, [])
    assert (result.targets, result.files) == ((), ())


def test_a_value_that_no_directory_can_be_named_for() -> None:
    table = item(partition_by=["country"])
    with pytest.raises(BadRecord, match="too long"):
        write_rows(order(table), MemoryStorage(), 0, [batch((NOON_MS, 1, "x" * 300))])


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_a_time_that_no_table_can_hold_is_null_and_counted(extension: str) -> None:
    """Spark computes with years that no file and no calendar of a reader has."""
    table = item(format=extension, event_time={"column": "at"}, partition_by=["date", "day"])
    ddl = "`at` timestamp, `day` date, `past` array<date>"
    days = pa.array([10, 10**7, 10, 10], pa.int32()).view(pa.date32())
    times = pa.array([NOON_MS * 1000, NOON_MS * 1000, 10**18, -(10**18)], pa.int64())
    offsets = pa.array([0, 1, 2, 3, 4], pa.int32())
    rows = pa.record_batch(
        [times.view(pa.timestamp("us", "UTC")), days, pa.ListArray.from_arrays(offsets, days)],
        names=["at", "day", "past"],
    )
    storage = MemoryStorage()
    result = write_rows(order(table, ddl), storage, 0, [rows])
    assert sum(file.rows for file in result.files) == 4
    assert dict(result.counters) == {"no_event_time": 2, "times_out_of_range": 4}
    days_of = {dict(target.values)["day"] for target in result.targets}
    assert days_of == {"1970-01-11", None}
    assert max(file.event_max_ms or 0 for file in result.files) == NOON_MS


def test_a_key_of_a_map_that_no_table_can_hold_ends_the_batch() -> None:
    days = pa.array([10**7], pa.int32()).view(pa.date32())
    kind = pa.map_(pa.date32(), pa.int32())
    maps = pa.MapArray.from_arrays(pa.array([0, 1], pa.int32()), days, pa.array([1], pa.int32()))
    rows = pa.record_batch([maps.cast(kind)], names=["m"])
    with pytest.raises(BadRecord, match="map m is a time"):
        write_rows(order(item(), "`m` map<date, int>"), MemoryStorage(), 0, [rows])


@pytest.mark.parametrize(
    ("table", "ddl", "words"),
    [
        (item(schema="n BIGINT"), DDL, "has the columns"),
        (item(event_time={"column": "nope"}), DDL, "no column nope"),
        (item(event_time={"column": "country"}), DDL, "cannot be a time"),
        (item(partition_by=["nope"]), DDL, "nope"),
        (item(), "`a` bigint, `a` bigint", "a"),
        (item(), "`v` variant", "VARIANT"),
        (item(partition_by=["n"]), "`n` bigint", "every column"),
    ],
)
def test_what_could_not_be_written_is_refused(table: Table, ddl: str, words: str) -> None:
    with pytest.raises(QueryRefused, match=words) as refused:
        sink_output(table, ddl)
    assert refused.value.hint


def test_a_schema_that_says_the_same_is_accepted() -> None:
    assert sink_output(item(schema=DDL.replace("`", "")), DDL).schema == DDL
