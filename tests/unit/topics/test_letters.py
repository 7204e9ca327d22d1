"""Dead letters of a query become files: each record as it came, with its reason and its offset."""

import base64
import json
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.unit.topics.test_rows import NAME, NOON_MS, item

from ashore.errors import CountsDisagree
from ashore.log.files import BatchPlace, FileSpan, Role
from ashore.log.positions import BatchTime, OffsetRange, ShardKey
from ashore.log.tables import HEADERS_TYPE
from ashore.storage import MemoryStorage
from ashore.storage.open import LakeAddress
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import arrow_type
from ashore.topics.loop.table_checks import sink_output
from ashore.topics.read.record_columns import FETCHED
from ashore.topics.write.batch import LettersOrder, TaskResult
from ashore.topics.write.rows import write_letters

ZERO, ONE = (ShardKey("kafka:ods__result", "clicks", 1, shard) for shard in ("0", "1"))
HEADERS_OF_RECORDS = arrow_type(parse_ddl(f"h {HEADERS_TYPE}").fields[0].type)
SCHEMA = FETCHED.append(pa.field("reason", pa.string()))


def order() -> LettersOrder:
    output = sink_output(item(on_error="dead_letter"), "`n` bigint")
    shards = (ZERO, ONE)
    return LettersOrder(LakeAddress("memory:"), NAME, 1, 4, BatchTime(NOON_MS), output, shards)


def records(*places: tuple[int, int], topic: str = "clicks") -> pa.RecordBatch:
    rows = [
        {
            "topic": topic,
            "partition": partition,
            "offset": offset,
            "timestamp": 1_000,
            "key": None,
            "value": b"v%d" % offset,
            "reason": f"why {offset}",
        }
        for partition, offset in places
    ]
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def written(storage: MemoryStorage, result: TaskResult) -> list[dict[str, object]]:
    (file,) = result.files
    place = BatchPlace(NAME, 1, 4).place(file, result.targets[file.target])
    return [json.loads(line) for line in storage.read(place.pending).splitlines()]


def test_each_record_is_a_row_with_its_reason_and_counted_by_its_shard() -> None:
    storage = MemoryStorage()
    batches = [records((0, 3), (0, 7)), records((1, 5), (0, 9))]
    result = write_letters(order(), storage, 2, batches)
    (target,) = result.targets
    assert (target.table, target.role) == ("ods.result__dead", Role.DEAD)
    assert target.partition.startswith("date=")
    rows = written(storage, result)
    assert [(row["partition"], row["offset"], row["reason"]) for row in rows] == [
        (0, 3, "why 3"),
        (0, 7, "why 7"),
        (1, 5, "why 5"),
        (0, 9, "why 9"),
    ]
    assert [base64.b64decode(str(row["value"])) for row in rows] == [b"v3", b"v7", b"v5", b"v9"]
    (file,) = result.files
    assert (file.rows, file.task) == (4, 2)
    assert file.spans == (
        FileSpan(0, 3, 8, 2),
        FileSpan(1, 5, 6, 1),
        FileSpan(0, 9, 10, 1),
    )
    assert [(read.key, read.offsets, read.fetched, read.dead) for read in result.reads] == [
        (ZERO, OffsetRange(3, 10), 3, 3),
        (ONE, OffsetRange(5, 6), 1, 1),
    ]
    assert {read.table for read in result.reads} == {"ods.result"}


def test_a_record_that_the_batch_has_not_read_is_refused() -> None:
    with pytest.raises(CountsDisagree, match="a dead letter of orders/0"):
        write_letters(order(), MemoryStorage(), 0, [records((0, 3), topic="orders")])


def test_nothing_left_aside_is_no_file() -> None:
    result = write_letters(order(), MemoryStorage(), 0, [])
    assert (result.files, result.reads) == ((), ())


@pytest.mark.parametrize("has_headers", [True, False])
def test_headers_are_kept_where_the_table_has_them(has_headers: bool) -> None:
    storage, plain = MemoryStorage(), order()
    asked = replace(plain, output=replace(plain.output, headers_aside=has_headers))
    batch = records((0, 3), (0, 4))
    headers = pa.array([[{"key": "trace", "value": b"1"}], None], HEADERS_OF_RECORDS)
    batch = batch.append_column("headers", headers)
    result = write_letters(asked, storage, 0, [batch])
    assert ("headers" in result.targets[0].schema) is has_headers
    found = [row.get("headers", "no column") for row in written(storage, result)]
    kept = [[{"key": "trace", "value": "MQ=="}], None]
    assert found == (kept if has_headers else ["no column"] * 2)
