"""Which changes of columns readers can stand, held against what Arrow reads; Spark has its own."""

from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from tests.evolution import READABLE, write_files

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.evolution import Compatibility, compare_schemas


def judge(known: str, wanted: str, file_format: str = "parquet") -> list[tuple[Compatibility, str]]:
    changes = compare_schemas(parse_ddl(known), parse_ddl(wanted), file_format)
    return [(each.verdict, each.text) for each in changes]


@pytest.mark.parametrize(
    ("known", "wanted", "expected"),
    [
        ("id INT", "id INT", []),
        ("id INT, n INT", "n INT, id INT", []),
        ("id INT", "id BIGINT", ["allowed"]),
        ("id BIGINT", "id INT", ["refused"]),
        ("id TINYINT", "id SMALLINT", ["risky"]),
        ("x FLOAT", "x DOUBLE", ["risky"]),
        ("x BIGINT", "x DOUBLE", ["refused"]),
        ("x INT", "x STRING", ["refused"]),
        ("x DECIMAL(10,2)", "x DECIMAL(12,2)", ["allowed"]),
        ("x DECIMAL(10,2)", "x DECIMAL(12,4)", ["risky"]),
        ("x DECIMAL(10,2)", "x DECIMAL(11,4)", ["refused"]),
        ("x DECIMAL(10,2)", "x DECIMAL(9,2)", ["refused"]),
        ("x INT", "x DECIMAL(10,0)", ["risky"]),
        ("x INT", "x DECIMAL(9,0)", ["refused"]),
        ("x TINYINT", "x DECIMAL(9,0)", ["refused"]),
        ("x BIGINT", "x DECIMAL(19,0)", ["refused"]),
        ("x BIGINT", "x DECIMAL(20,0)", ["risky"]),
        ("x TIMESTAMP", "x TIMESTAMP_NTZ", ["refused"]),
        ("id INT", "id INT, s STRING", ["allowed"]),
        ("id INT", "id INT, s STRING NOT NULL", ["risky"]),
        ("id INT, s STRING", "id INT", ["risky"]),
        ("id INT", "ID INT", ["risky", "allowed"]),
        ("id INT NOT NULL", "id INT", ["allowed"]),
        ("id INT", "id INT NOT NULL", ["risky"]),
        ("id INT NOT NULL", "id BIGINT", ["allowed", "allowed"]),
        ("s STRUCT<a: INT>", "s STRUCT<a: INT, b: INT>", ["allowed"]),
        ("s STRUCT<a: INT, b: INT>", "s STRUCT<a: INT>", ["risky"]),
        ("s STRUCT<a: BIGINT>", "s STRUCT<a: INT>", ["refused"]),
        ("s ARRAY<STRUCT<a: INT>>", "s ARRAY<STRUCT<a: BIGINT>>", ["allowed"]),
        ("s MAP<STRING, INT>", "s MAP<STRING, BIGINT>", ["allowed"]),
        ("s MAP<INT, INT>", "s MAP<BIGINT, INT>", ["refused"]),
        ("s ARRAY<INT>", "s INT", ["refused"]),
    ],
)
def test_verdicts(known: str, wanted: str, expected: list[str]):
    assert [verdict.value for verdict, _ in judge(known, wanted)] == expected


def test_a_change_names_the_column_and_both_types():
    [(_, text)] = judge("s STRUCT<a: ARRAY<INT>>", "s STRUCT<a: ARRAY<STRING>>")
    change, _, why = text.rpartition(": ")
    assert change == "column s.a[] changes from INT to STRING"
    assert why.startswith("older and newer files")


def test_what_is_widened_in_orc_is_never_more_than_risky():
    assert [verdict for verdict, _ in judge("id INT", "id BIGINT", "orc")] == [Compatibility.RISKY]
    assert [verdict for verdict, _ in judge("id INT", "id INT, n INT", "orc")] == [
        Compatibility.ALLOWED
    ]


@pytest.mark.parametrize(("known", "wanted"), [("TINYINT", "SMALLINT"), ("SMALLINT", "INT")])
def test_readers_of_a_delta_table_are_given_the_wider_type(known: str, wanted: str):
    assert [verdict for verdict, _ in judge(f"n {known}", f"n {wanted}", "delta")] == [
        Compatibility.ALLOWED
    ]


@pytest.mark.parametrize(
    ("known", "wanted", "expected"),
    [
        ("TINYINT", "SMALLINT", "allowed"),
        ("INT", "BIGINT", "allowed"),
        ("FLOAT", "DOUBLE", "allowed"),
        ("DECIMAL(10,2)", "DECIMAL(12,2)", "allowed"),
        ("ARRAY<INT>", "ARRAY<BIGINT>", "allowed"),
        ("BIGINT", "INT", "refused"),
        ("INT", "DOUBLE", "refused"),
        ("INT", "DECIMAL(12,0)", "refused"),
        ("DECIMAL(10,2)", "DECIMAL(12,3)", "refused"),
        ("DATE", "TIMESTAMP_NTZ", "refused"),
    ],
)
def test_an_iceberg_table_has_one_type_for_all_files(
    known: str, wanted: str, expected: str
) -> None:
    assert [verdict for verdict, _ in judge(f"v {known}", f"v {wanted}", "iceberg")] == [expected]


@pytest.mark.parametrize(("known", "wanted", "file_format"), READABLE)
def test_arrow_reads_old_and_new_rows_where_a_change_can_be_read(
    tmp_path: Path, known: str, wanted: str, file_format: str
):
    [(verdict, _)] = judge(f"v {known}", f"v {wanted}", file_format)
    expected = write_files(tmp_path, known, wanted, file_format)
    columns = pa.schema([*to_arrow(parse_ddl(f"id BIGINT, v {wanted}")), ("hour", pa.string())])
    reported = ds.dataset(tmp_path, schema=columns, format=file_format, partitioning="hive")
    assert reported.to_table(columns=["v"])["v"].to_pylist() == expected
    if verdict is Compatibility.ALLOWED:
        found = read_unreported(tmp_path, file_format)
        assert found is None or found == expected


def read_unreported(root: Path, file_format: str) -> list[object] | None:
    """Read as one does who takes the columns of the first file; None: Arrow refuses."""
    try:
        table = ds.dataset(root, format=file_format, partitioning="hive").to_table(columns=["v"])
    except (pa.ArrowInvalid, NotImplementedError):
        return None
    return table["v"].to_pylist()
