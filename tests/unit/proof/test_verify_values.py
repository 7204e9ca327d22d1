"""`--values`: a sample of rows against their records, through a second decoder."""

import io
import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.orc as po
import pyarrow.parquet as pq
import pytest
from tests.unit.proof.lakes import CLICKS_0, Lake, kinds, only_problem
from tests.unit.proof.test_verify_writer import RECORDS, land, make_job, make_lake, make_values

from ashore.errors import JobFileInvalid
from ashore.jobs.file import parse_job
from ashore.log.entries import Prepare
from ashore.log.files import BatchPlace, DataFile, FileSpan, Role, Target
from ashore.log.names import SliceName
from ashore.log.positions import StreamShard
from ashore.proof.evidence.ledger import LoggedFile, PartKey
from ashore.proof.evidence.offsets import Unreadable, read_file_rows
from ashore.proof.evidence.result import Difference, ProblemKind, Status, VerifyResult
from ashore.proof.verify.job import verify_job
from ashore.proof.verify.sample import BLOCK_ROWS, SampleRate, choose_sample, parse_rate
from ashore.proof.verify.value_check import (
    EXPIRED,
    NO_HEADERS,
    NO_OFFSETS,
    NO_RECORD,
    OTHER_BYTES,
    REPLACED,
    kept_time_us,
)
from ashore.tables.ddl import parse_ddl

pytestmark = pytest.mark.slow

EVERY_ROW = SampleRate(1, 7)

RICH_JOB = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema:
      "id BIGINT, b BOOLEAN, d DOUBLE, f FLOAT, s STRING, y BINARY, c DECIMAL(12,3), day DATE,
      at TIMESTAMP, a ARRAY<INT>, m MAP<STRING, DOUBLE>, o STRUCT<x: BIGINT, w: ARRAY<STRING>>,
      place STRING, price DECIMAL(5,2)"
    partition_by: [date, place, price, b, day]
    format: FORMAT
"""


def rich_value(number: int) -> bytes:
    row = {
        "id": number,
        "b": [True, False, None][number % 3],
        "d": [0.1, -0.0, float("nan"), float("-inf")][number % 4],
        "f": 0.1 * number,
        "s": "é\u0000\n" * (number % 3),
        "y": "AAEC",
        "c": f"{number}.5",
        "day": "2026-11-21",
        "at": "2026-11-21T08:05:06.1234567+01:00",
        "a": [number % 3, None],
        "m": {"": 1.5, "x": None},
        "o": {"x": number, "w": ["", "z"]},
        "place": ["Paris", "", None, "a/b=c"][number % 4],
        "price": 1.5,
    }
    return json.dumps(row).encode()


def compare(lake: Lake, sample: SampleRate = EVERY_ROW, since: str | None = None) -> VerifyResult:
    return verify_job(lake.opened(), since=since, sample=sample)


def make_rich(file_format: str) -> Lake:
    lake = Lake()
    lake.job = parse_job(RICH_JOB.replace("FORMAT", file_format))
    lake.source.create("clicks", 2)
    lake.open()
    lake.join(0, 1)
    values = [rich_value(number) for number in range(RECORDS)]
    values[13] = b'{"id": "\xff'
    land(lake, values)
    return lake


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
def test_what_the_writer_wrote_is_what_the_records_hold(file_format: str):
    for lake in (make_lake(file_format)[0], make_rich(file_format)):
        result = compare(lake)
        assert (result.exit_code, result.problems, result.notes) == (0, (), ())
        assert result.values is not None
        assert (result.values.compared, result.values.different) == (2 * RECORDS, 0)
        assert result.summary.startswith("lost 0, duplicated 0, values ")
        assert result.summary.endswith(f" {2 * RECORDS:,} rows compared: 0 differ")


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
@pytest.mark.parametrize("at", [12, 13])  # a row; a dead letter
@pytest.mark.parametrize(
    ("landed", "now", "shown"),
    [
        ((("a", b"1"), ("b", None)), (("a", b"2"), ("b", None)), "b'1'"),
        ((("a", b"1"), ("a", b"2")), (("a", b"2"), ("a", b"1")), "b'1'"),
        ((("a", None),), (("a", b""),), "None"),
        ((("a", b""),), (), "b''"),
        ((), (("a", b""),), "None"),
    ],
)
def test_other_headers_are_found(file_format: str, at: int, landed, now, shown: str):
    lake = make_lake_with_headers(file_format, at, landed)
    assert compare(lake).exit_code == 0
    set_headers(lake, at, now)

    result = compare(lake)

    assert result.exit_code == 5
    column = "headers" if at == 13 else "kafka_headers"
    for problem in result.problems:
        assert problem.kind is ProblemKind.VALUE
        assert (problem.offsets, problem.difference.column) == ((at,), column)
        assert shown in problem.difference.in_table
    assert len(result.problems) == 2  # one in each shard


def test_a_key_is_compared_up_to_its_first_nul_which_is_what_the_second_reader_has():
    lake = make_lake_with_headers("parquet", 12, (("a\0b", b"1"),))
    set_headers(lake, 12, (("a", b"1"),))
    assert compare(lake).exit_code == 0
    set_headers(lake, 12, (("ab", b"1"),))
    assert compare(lake).exit_code == 5


def test_headers_that_the_second_reader_cannot_read_are_said():
    lake = make_lake_with_headers("parquet", 12, (("a\ufffd", b"1"),))
    set_headers(lake, 12, None)
    values = compare(lake).values
    assert [(each.reason, each.rows) for each in values.not_compared] == [(NO_HEADERS, 2)]


def make_lake_with_headers(file_format: str, at: int, headers) -> Lake:
    """Return a lake in which one record of each shard has headers."""
    lake = Lake()
    lake.job = make_job(file_format, provenance="headers")
    lake.source.create("clicks", 2)
    lake.open()
    lake.join(0, 1)
    append = lake.source.append

    def append_with_headers(shard, *values):
        append(shard, *values)
        set_headers(lake, at, headers, shard)

    lake.source.append = append_with_headers
    land(lake, make_values(lake.clock.now_ms()))
    return lake


def set_headers(lake: Lake, at: int, headers, *shards: StreamShard) -> None:
    for shard in shards or (StreamShard("clicks", "0"), StreamShard("clicks", "1")):
        records = lake.source._find(shard).records
        records[at] = records[at]._replace(headers=headers)


def test_nobody_asked_for_values():
    result = make_lake("parquet")[0].verify()
    assert result.values is None
    assert result.to_dict()["values"] is None


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
@pytest.mark.parametrize(
    "time_ms", [-62_135_596_800_000, -12_219_292_800_001, -1, -1_000, 253_402_300_799_999]
)
def test_timestamps_at_the_ends_of_what_a_table_holds(file_format: str, time_ms: int):
    lake = Lake()
    lake.job = parse_job(RICH_JOB.replace("FORMAT", file_format))
    lake.source.create("clicks", 2)
    lake.open()
    lake.join(0, 1)
    append = lake.source.append

    def append_at(shard, *values):
        append(shard, *values)
        records = lake.source._find(shard).records
        records[:] = [each._replace(timestamp_ms=time_ms) for each in records]

    lake.source.append = append_at
    land(lake, [rich_value(number) for number in range(RECORDS)])
    result = compare(lake)
    assert result.problems == ()
    assert result.values is not None
    if file_format != "orc" or time_ms != 253_402_300_799_999:  # Arrow cannot read these back
        assert (result.values.compared, result.values.different) == (2 * RECORDS, 0)
    else:
        assert (result.values.compared, result.exit_code) == (0, 6)


# ---- differences


def change(lake: Lake, role: Role, column: str, value: object) -> tuple[str, int]:
    """Change one value of a file of that role, in file and log; return path and offset."""
    entry = lake.entries[-1]
    body = entry.body
    assert isinstance(body, Prepare)
    index = next(i for i, f in enumerate(body.files) if body.targets[f.target].role is role)
    path = lake.final(entry, index)
    data = lake.storage.read(path)
    offset_name = "offset" if role is Role.DEAD else "kafka_offset"
    match path.rpartition(".")[2]:
        case "jsonl":
            rows = [json.loads(line) for line in data.splitlines()]
            rows[0][column] = value
            offset = rows[0][offset_name]
            changed = "".join(json.dumps(row) + "\n" for row in rows).encode()
        case extension:
            read, write = (
                (pq.read_table, pq.write_table)
                if extension == "parquet"
                else (po.read_table, po.write_table)
            )
            table = read(io.BytesIO(data))
            place = table.schema.get_field_index(column)
            offset = table[offset_name][0].as_py()
            values = [value, *table[column].to_pylist()[1:]]
            array = pa.array(values, table.schema.field(place).type)
            sink = io.BytesIO()
            write(table.set_column(place, table.schema.field(place), array), sink)
            changed = sink.getvalue()
    lake.relist(entry, index, changed)
    return path, offset


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
@pytest.mark.parametrize("role", [Role.MAIN, Role.LATE])
def test_a_value_that_is_another_is_found(file_format: str, role: Role):
    lake = make_lake(file_format)[0]
    path, offset = change(lake, role, "id", 1_000_000)
    assert lake.verify().exit_code == 0  # each offset is there once, and the log agrees
    result = compare(lake)
    problem = only_problem(result, ProblemKind.VALUE)
    assert (problem.place, problem.offsets) == (path, (offset,))
    assert problem.difference == Difference("id", "1000000", str(offset))
    assert problem.table == "ods.clicks"
    assert result.values is not None
    assert (result.values.compared, result.values.different) == (2 * RECORDS, 1)
    assert "1 differ" in result.summary
    assert "other problems" not in result.summary


@pytest.mark.parametrize("file_format", ["parquet", "orc", "jsonl"])
def test_a_dead_letter_with_other_bytes_is_found(file_format: str):
    lake = make_lake(file_format)[0]
    other = "b3RoZXI=" if file_format == "jsonl" else b"other"
    _, offset = change(lake, Role.DEAD, "value", other)
    problem = only_problem(compare(lake), ProblemKind.VALUE)
    assert problem.offsets == (offset,) == (13,)
    assert problem.difference == Difference("value", "b'other'", "b'not JSON'")


def test_rows_under_the_wrong_directory_are_found():
    lake = make_rich("parquet")
    body = lake.entries[-1].body
    assert isinstance(body, Prepare)
    wrong = [
        replace(target, values=tuple((k, "9" if k == "price" else v) for k, v in target.values))
        for target in body.targets
    ]
    lake.rewrite(replace(body, targets=tuple(wrong)))
    result = compare(lake)
    found = [each.difference for each in result.problems if each.kind is ProblemKind.VALUE]
    assert set(found) == {Difference("price", "Decimal('9')", "Decimal('1.5')")}


def test_a_record_that_is_no_row_is_a_finding_of_its_row():
    lake = make_lake("parquet")[0]
    place = lake.source._find(CLICKS_0)
    place.records[20] = place.records[20]._replace(value=b'{"id": 1.0}')
    problem = only_problem(compare(lake), ProblemKind.VALUE)
    assert problem.offsets == (20,)
    assert problem.difference is not None
    assert (problem.difference.column, problem.difference.in_table) == ("", "a row")
    assert "1.0" in problem.difference.in_source


def test_a_long_value_is_cut():
    lake = make_lake("parquet")[0]
    place = lake.source._find(CLICKS_0)
    place.records[13] = place.records[13]._replace(value=b"x" * 10_000_000)
    problem = only_problem(compare(lake), ProblemKind.VALUE)
    assert len(json.dumps(problem.to_dict())) < 1_000


# ---- what cannot be compared


def not_compared(result: VerifyResult) -> dict[str, int]:
    assert result.values is not None
    counts: dict[str, int] = {}
    for each in result.values.not_compared:
        counts[each.reason] = counts.get(each.reason, 0) + each.rows
    assert result.values.compared + sum(counts.values()) == 2 * RECORDS
    return counts


def test_what_the_source_no_longer_has_is_counted():
    lake = make_lake("parquet")[0]
    lake.source.expire(CLICKS_0, 100)
    result = compare(lake)
    assert (result.exit_code, not_compared(result)) == (0, {EXPIRED: 100})
    assert "100 rows could not be" in result.summary
    assert any(EXPIRED in note for note in result.notes)


def test_what_was_compacted_away_is_no_difference():
    lake = make_lake("parquet")[0]
    del lake.source._find(CLICKS_0).records[50:60]
    assert not_compared(compare(lake)) == {NO_RECORD: 10}


def test_another_topic_is_not_compared_with():
    lake = make_lake("parquet")[0]
    lake.source.delete_and_recreate("clicks", 2)
    for value in make_values(0):
        lake.source.append(CLICKS_0, value)
    result = compare(lake)
    assert (result.exit_code, result.status) == (6, Status.UNPROVABLE)
    assert set(not_compared(result)) <= {REPLACED, NO_RECORD}
    assert ProblemKind.VALUE not in kinds(result)


def test_a_run_that_could_compare_nothing_is_not_ok():
    for spoil in ("silent", "expired", "countless"):
        lake = make_lake("parquet", provenance=spoil != "countless")[0]
        if spoil == "silent":
            lake.source.is_reachable = False
        for shard in ("0", "1") if spoil == "expired" else ():
            lake.source.expire(CLICKS_0._replace(shard=shard), RECORDS)
        result = compare(lake)
        if spoil == "countless":  # dead letters always say where they were
            assert not_compared(result) == {NO_OFFSETS: 2 * RECORDS - 2}
            assert result.exit_code == 0
        else:
            assert (result.exit_code, result.status) == (6, Status.UNPROVABLE)
            assert "none of 1,200 rows" in result.summary


@pytest.mark.parametrize("line", ['select: ["id"]', 'where: "id > 5"'])
def test_what_spark_decoded_is_not_compared(line: str):
    lake = make_lake("parquet")[0]
    text = """\
job: clicks
lake: file:///data/lake
source: {kafka: {bootstrap_servers: "127.0.0.1:9092"}}
tables:
  - topic: clicks
    table: ods.clicks
    schema: "id BIGINT, ts BIGINT"
"""
    lake.job = parse_job(f"{text}    {line}\n")
    result = compare(lake)
    assert result.values is not None
    assert result.values.compared == 2  # dead letters are bytes, whoever has decoded
    assert sum(each.rows for each in result.values.not_compared) == 2 * RECORDS - 2


def test_what_was_written_before_is_not_read():
    lake = make_lake("parquet")[0]
    lake.clock.advance(3600)
    result = compare(lake, since="1m")
    assert result.values is not None
    assert (result.values.compared, result.values.not_compared, result.exit_code) == (0, (), 6)


def test_a_timestamp_that_no_table_holds_is_null():
    assert (kept_time_us(None, "parquet"), kept_time_us(-1, "orc")) == (None, None)
    assert kept_time_us(-1, "parquet") == -1_000


@pytest.mark.slow
def test_a_damaged_file_ends_nothing():
    for file_format in ("parquet", "orc", "jsonl"):
        lake = make_lake(file_format)[0]
        path = lake.final(lake.entries[-1])
        data = lake.storage.read(path)
        lake.overwrite(path, data[: len(data) // 3] + b"\xff\x00" + data[len(data) // 3 + 2 :])
        result = compare(lake)
        assert ProblemKind.FILE_CHECKSUM in result.problem_counts
        assert result.values is not None
        counts = not_compared(result)
        assert all("cannot be read" in reason or reason == OTHER_BYTES for reason in counts)
        if file_format == "orc":
            assert OTHER_BYTES in counts


# ---- rows of files

BLOCKS = ((0, 1), (5, 12), (12, 13), (25, 31))


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl"])
def test_exactly_the_rows_of_the_blocks_are_read(extension: str):
    table = pa.table({"id": pa.array(range(31), pa.int64()), "s": ["é\n"] * 31})
    sink = io.BytesIO()
    match extension:
        case "parquet":
            pq.write_table(table, sink, row_group_size=7)
        case "orc":
            with po.ORCWriter(sink, stripe_size=1, batch_size=7) as writer:
                for start in range(0, 31, 7):
                    writer.write(table.slice(start, 7))
            assert po.ORCFile(io.BytesIO(sink.getvalue())).nstripes > 1
        case _:
            sink.write("".join(json.dumps(row) + "\n" for row in table.to_pylist()).encode())
    storage = Lake().storage
    storage.create("file", sink.getvalue())
    schema = parse_ddl("id BIGINT, s STRING")
    place = ("file", len(sink.getvalue()))
    rows = list(read_file_rows(storage, place, extension, schema, BLOCKS))
    assert rows == [{"id": id_, "s": "é\n"} for start, end in BLOCKS for id_ in range(start, end)]


@pytest.mark.parametrize("extension", ["parquet", "orc", "jsonl", "csv"])
def test_what_is_no_file_of_its_format_is_unreadable(extension: str):
    storage = Lake().storage
    storage.create("file", b"\xff" * 100)
    with pytest.raises(Unreadable):
        list(read_file_rows(storage, ("file", 100), extension, parse_ddl("id BIGINT"), ((0, 1),)))


# ---- the sample


def logged(number: int, rows: int, table: str = "ods.clicks") -> LoggedFile:
    name = SliceName("clicks", "main")
    file = DataFile(0, 0, f"{number:016x}", rows, 1, "", (FileSpan(0, 0, rows, rows),), None, None)
    target = Target(table, Role.MAIN, f"date={number:03d}", (), "id BIGINT", "parquet")
    place = BatchPlace(name, 1, 0)
    parts = (PartKey("main", 2, Lake().key()),)
    return LoggedFile("main", 2, 2, 0, table, place, target, file, parts)


def test_a_seed_chooses_the_same_rows_and_another_seed_others():
    files = [logged(number, 50_000) for number in range(40)]
    first = choose_sample(files, SampleRate(0.01, 1))
    assert first == choose_sample(reversed(files), SampleRate(0.01, 1))
    assert first != choose_sample(files, SampleRate(0.01, 2))
    more = choose_sample([*files, logged(1, 5_000, "a.b")], SampleRate(0.01, 1))
    assert more[1:] == first  # what another table holds changes nothing


def test_a_sample_has_its_size_and_lies_evenly():
    files = [logged(number, 50_000) for number in range(40)]
    sample = choose_sample(files, SampleRate(0.01, 1))
    assert sum(each.rows for each in sample) == 20_000
    assert max(each.rows for each in sample) <= 2 * BLOCK_ROWS
    assert len(sample) >= 15  # of 20 blocks


def test_each_table_has_a_part_and_a_rate_of_one_is_every_row():
    files = [logged(0, 1, "a.b"), logged(1, 1_000_001, "c.d"), logged(2, 0, "e.f")]
    small = choose_sample(files, SampleRate(1e-9, 1))
    assert [each.file.target.table for each in small] == ["a.b", "c.d"]
    for each in choose_sample(files, SampleRate(1, 1)):
        rows = [row for start, end in each.blocks for row in range(start, end)]
        assert rows == list(range(each.file.file.rows))


def test_only_the_chosen_rows_are_compared():
    lake = make_lake("parquet")[0]
    result = compare(lake, SampleRate(0.01, 1))
    assert result.values is not None
    assert 0 < result.values.compared < 2 * RECORDS


@pytest.mark.parametrize(("text", "rate"), [("0.01", 0.01), ("1%", 0.01), ("1", 1), ("100%", 1)])
def test_rates(text: str, rate: float):
    assert parse_rate(text) == rate


@pytest.mark.parametrize("text", ["0", "-1", "2", "101%", "nan", "all", ""])
def test_rates_that_are_none(text: str):
    with pytest.raises(JobFileInvalid, match="is not a rate"):
        parse_rate(text)
