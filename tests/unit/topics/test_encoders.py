import gc
import io
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.orc
import pyarrow.parquet as pq
import pytest

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode import parquet as subject
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.json import JsonDecoder
from ashore.topics.decode.registry import make_decoder, open_encoder

ALL = (
    "id BIGINT NOT NULL, b BOOLEAN, t TINYINT, f FLOAT, d DOUBLE, s STRING, raw BINARY, day DATE, "
    "at TIMESTAMP, wall TIMESTAMP_NTZ, price DECIMAL(38,10), tags ARRAY<STRING>, "
    "m MAP<STRING, ARRAY<INT>>, p STRUCT<x: INT NOT NULL, y: STRUCT<z: DATE>>"
)
SCHEMA = to_arrow(parse_ddl(ALL))
FULL = {
    "id": 1,
    "b": True,
    "t": -1,
    "f": 0.5,
    "d": 1e300,
    "s": "ä\n",
    "raw": b"\x00\xff",
    "day": date(1, 1, 1),
    "at": datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC),
    "wall": datetime.fromisoformat("2026-11-21T08:00:00.000001"),
    "price": Decimal("1234567890123456789.0000000001"),
    "tags": ["a", None],
    "m": [("k", [1, None]), ("l", None)],
    "p": {"x": 1, "y": {"z": None}},
}
EMPTY = dict.fromkeys(SCHEMA.names) | {"id": 2}
ORC_SCHEMA = SCHEMA.remove(SCHEMA.get_field_index("wall"))
ROWS = pa.Table.from_pylist([FULL, EMPTY], schema=SCHEMA)


FORMATS = [("parquet", SCHEMA), ("orc", ORC_SCHEMA), ("jsonl", SCHEMA)]


class File(io.BytesIO):
    """A file that tells whether an encoder closed it."""


def write(name, *tables, schema=SCHEMA, metadata=None):
    file = File()
    encoder = open_encoder(name, file, schema)
    for table in tables:
        encoder.write(table)
    encoder.close(metadata or {})
    assert not file.closed
    assert encoder.bytes_written == len(file.getvalue())
    assert encoder.rows == sum(table.num_rows for table in tables)
    return file.getvalue()


def test_parquet_reads_back_with_its_metadata():
    data = write("parquet", ROWS, ROWS, metadata={"ashore.slice": "main", "ashore.batch": "7"})
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.read().to_pylist() == [FULL, EMPTY] * 2
    assert file.metadata.metadata == {b"ashore.slice": b"main", b"ashore.batch": b"7"}
    assert file.metadata.row_group(0).column(0).compression == "ZSTD"


def test_parquet_types_are_those_that_spark_and_hive_read():
    schema = str(pq.ParquetFile(pa.BufferReader(write("parquet", ROWS))).schema)
    at = "int64 field_id=-1 at (Timestamp(isAdjustedToUTC=true, timeUnit=microseconds"
    wall = "int64 field_id=-1 wall (Timestamp(isAdjustedToUTC=false, timeUnit=microseconds"
    assert at in schema
    assert wall in schema
    lines = [line.strip() for line in schema.splitlines()]
    at = lines.index("optional group field_id=-1 tags (List) {")
    assert lines[at + 1] == "repeated group field_id=-1 list {"
    assert lines[at + 2] == "optional binary field_id=-1 element (String);"
    at = lines.index("optional group field_id=-1 m (Map) {")
    assert lines[at + 1] == "repeated group field_id=-1 key_value {"
    assert lines[at + 2] == "required binary field_id=-1 key (String);"


@pytest.mark.parametrize(("name", "schema"), FORMATS)
def test_a_file_without_rows_is_a_file(name, schema):
    data = write(name, schema=schema)
    if name == "parquet":
        assert pq.read_table(pa.BufferReader(data)).num_rows == 0
    elif name == "orc":
        assert pa.orc.ORCFile(pa.BufferReader(data)).schema.names == ORC_SCHEMA.names
    else:
        assert data == b""


def numbers(rows, start=0):
    names = [f"u{i % 7}" for i in range(start, start + rows)]
    columns = {"id": pa.array(range(start, start + rows)), "who": names}
    return pa.table(columns, schema=pa.schema([("id", pa.int64()), ("who", pa.string())]))


def test_small_batches_become_large_row_groups(monkeypatch):
    monkeypatch.setattr(subject, "GROUP_BYTES", 100_000)
    tables = [numbers(100, 100 * i) for i in range(300)]
    data = write("parquet", *tables, schema=tables[0].schema)
    file = pq.ParquetFile(pa.BufferReader(data))
    assert file.read()["id"].to_pylist() == list(range(30_000))
    groups = [file.metadata.row_group(i).num_rows for i in range(file.metadata.num_row_groups)]
    assert 3 <= len(groups) <= 5
    assert min(groups[:-1]) > 6000


def test_a_few_rows_at_a_time_wait_in_a_few_arrays():
    pieces = [pa.table({"id": [number]}) for number in range(64)]
    file = File()
    encoder = open_encoder("parquet", file, pieces[0].schema)
    for piece in pieces:
        encoder.write(piece)
    assert encoder.held_bytes < 64 * subject.ARRAY_BYTES / 3
    encoder.close({})
    assert pq.read_table(pa.BufferReader(file.getvalue()))["id"].to_pylist() == list(range(64))


def test_a_large_batch_becomes_bounded_row_groups(monkeypatch):
    monkeypatch.setattr(subject, "GROUP_BYTES", 100_000)
    table = numbers(50_000)
    file = pq.ParquetFile(pa.BufferReader(write("parquet", table, schema=table.schema)))
    assert file.metadata.num_row_groups == table.nbytes // 100_000


def test_the_size_is_known_while_writing(monkeypatch):
    monkeypatch.setattr(subject, "GROUP_BYTES", 200_000)
    file = File()
    encoder = open_encoder("parquet", file, numbers(0).schema)
    assert encoder.bytes_written == 0
    encoder.write(numbers(1000))
    assert encoder.bytes_written > 0
    for i in range(1, 60):
        encoder.write(numbers(1000, 1000 * i))
    estimate = encoder.bytes_written
    encoder.close({})
    assert 0.5 < estimate / encoder.bytes_written < 2


def test_dictionaries_only_where_values_repeat():
    rows = 5000
    table = pa.table(
        {
            "id": range(rows),
            "country": ["DE", "CN"] * (rows // 2),
            "flag": [True, False] * (rows // 2),
            "tags": [["a", "b"]] * rows,
            "ids": [[i] for i in range(rows)],
            "p": [{"x": i, "y": i % 3} for i in range(rows)],
            "m": pa.array(
                [[("k", str(i))] for i in range(rows)], pa.map_(pa.string(), pa.string())
            ),
            "none": pa.nulls(rows, pa.string()),
            "price": pa.array([Decimal(i % 9) for i in range(rows)], pa.decimal128(10, 2)),
        }
    )
    chosen = ["country", "tags.list.element", "p.y", "m.key_value.key", "price"]
    assert subject.choose_dictionary_columns(table) == chosen
    assert subject.choose_dictionary_columns(table.slice(100, 1000)) == chosen
    data = write("parquet", table, schema=table.schema)
    group = pq.ParquetFile(pa.BufferReader(data)).metadata.row_group(0)
    columns = [group.column(i) for i in range(group.num_columns)]
    assert [c.path_in_schema for c in columns if c.has_dictionary_page] == chosen


def test_columns_of_large_values_have_neither_statistics_nor_a_dictionary():
    """Arrow would hold such a value three times more, for statistics that no file has."""
    large = "x" * subject.LARGE_VALUE_BYTES
    table = pa.table({"id": [1, 1], "pad": [large, large], "tags": [["a", large], ["a"]]})
    data = write("parquet", table, schema=table.schema)
    file = pq.ParquetFile(pa.BufferReader(data))
    columns = [file.metadata.row_group(0).column(i) for i in range(3)]
    assert [each.statistics is not None for each in columns] == [True, False, False]
    assert [each.has_dictionary_page for each in columns] == [True, False, False]
    assert file.read().equals(table)


def test_few_rows_answer_for_the_sample_only_where_they_are_clear(monkeypatch):
    counted = []
    count = subject.pc.count_distinct
    monkeypatch.setattr(
        subject.pc,
        "count_distinct",
        lambda leaf, mode: counted.append(len(leaf)) or count(leaf, mode),
    )
    rows, few = subject.SAMPLE_ROWS, subject.FEW_ROWS
    columns = {
        "few values": ([i % 100 for i in range(rows)], [few]),
        "all differ": (range(rows), [few]),
        "by turns": ([i % 2_301 for i in range(rows)], [few, rows]),
        "side by side": ([i // 2 for i in range(rows)], [few, rows]),
        "differ later": ([i if i > few else i % 100 for i in range(rows)], [few, rows]),
        "come later": ([None] * 3 * few + ["x"] * (rows - 3 * few), [few]),
    }
    chosen = []
    for name, (values, expected) in columns.items():
        counted.clear()
        chosen += subject.choose_dictionary_columns(pa.table({name: values}))
        assert counted == expected, name
    assert chosen == ["few values", "by turns", "side by side", "come later"]


def test_orc_reads_back():
    ddl = "id BIGINT, at TIMESTAMP, m MAP<STRING, INT>, d DECIMAL(10,2)"
    schema = to_arrow(parse_ddl(ddl))
    row = {"id": 1, "at": FULL["at"], "m": [("k", 1)], "d": Decimal("1.25")}
    data = write("orc", pa.Table.from_pylist([row], schema=schema), schema=schema)
    assert pa.orc.ORCFile(pa.BufferReader(data)).read().to_pylist() == [row]


@pytest.mark.parametrize("ddl", ["a TIMESTAMP_NTZ", "a ARRAY<STRUCT<x: TIMESTAMP_NTZ>>"])
def test_orc_refuses_what_spark_cannot_read_back(ddl):
    with pytest.raises(ValueError, match="a: Spark"):
        open_encoder("orc", File(), to_arrow(parse_ddl(ddl)))


def test_json_lines_read_back_through_the_decoder():
    data = write("jsonl", ROWS)
    decoded = JsonDecoder(parse_ddl(ALL)).decode(pa.array(data.splitlines(), pa.binary()))
    assert not decoded.bad
    assert decoded.table.to_pylist() == [FULL, EMPTY]


def test_json_lines_have_exact_decimals_and_bare_words_for_odd_floats():
    schema = to_arrow(parse_ddl("d DECIMAL(10,2), f DOUBLE"))
    rows = [{"d": Decimal("1.50"), "f": float("nan")}, {"d": Decimal(0), "f": float("-inf")}]
    table = pa.Table.from_pylist(rows, schema=schema)
    assert write("jsonl", table, schema=schema) == (
        b'{"d":"1.50","f":NaN}\n{"d":"0.00","f":-Infinity}\n'
    )


@pytest.mark.parametrize(("name", "schema"), FORMATS)
def test_an_abandoned_file_gets_no_more_bytes(name, schema):
    file = File()
    encoder = open_encoder(name, file, schema)
    encoder.write(ROWS.select(schema.names))
    size = len(file.getvalue())
    encoder.abandon()
    del encoder
    gc.collect()
    assert len(file.getvalue()) == size


class FullDisk:
    def __init__(self, room):
        self.room = room

    def write(self, data):
        self.room -= len(data)
        if self.room < 0:
            raise OSError("no space left")
        return len(data)


@pytest.mark.parametrize(("name", "schema"), FORMATS)
@pytest.mark.parametrize("room", [0, 100, 2000])
def test_an_error_of_the_file_reaches_the_writer(name, schema, room, monkeypatch):
    monkeypatch.setattr(subject, "GROUP_BYTES", 1000)
    encoder = None
    with pytest.raises(OSError, match="no space"):  # noqa: PT012 - formats differ in when
        encoder = open_encoder(name, FullDisk(room), schema)
        for i in range(200):
            rows = [FULL | {"s": f"{i}" * 40}] * 20
            encoder.write(pa.Table.from_pylist(rows, schema=schema))
        encoder.close({})
    if encoder:
        encoder.abandon()
    del encoder
    gc.collect()


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match="parquet, orc, jsonl"):
        open_encoder("avro", File(), SCHEMA)
    with pytest.raises(ValueError, match="json, json_whole, text, bytes"):
        make_decoder("avro", parse_ddl(ALL))
    assert make_decoder("json", parse_ddl(ALL)).schema == SCHEMA
