import pyarrow as pa
import pytest

from ashore.tables import ddl
from ashore.tables.ddl import Atom, DdlError, Field, Schema, parse_ddl, to_ddl
from ashore.topics.decode.arrow_types import to_arrow


def test_every_type_and_alias_is_sparks():
    schema = parse_ddl(
        "a boolean, b TINYINT, c byte, d SmallInt, e short, f int, g INTEGER, h bigint, i long, "
        "j float, k real, l double, m string, n binary, o date, p timestamp, q timestamp_ltz, "
        "r timestamp_ntz, s decimal(10,2), t DEC(3), u numeric"
    )
    assert [str(field.type) for field in to_arrow(schema)] == [
        *["bool", "int8", "int8", "int16", "int16", "int32", "int32", "int64", "int64"],
        *["float", "float", "double", "string", "binary", "date32[day]"],
        *["timestamp[us, tz=UTC]", "timestamp[us, tz=UTC]", "timestamp[us]"],
        *["decimal128(10, 2)", "decimal128(3, 0)", "decimal128(10, 0)"],
    ]


def test_nested_types_not_null_comments_and_quoted_names():
    schema = parse_ddl(
        "id BIGINT NOT NULL COMMENT 'it\\'s', "
        'm MAP<STRING, ARRAY<INT>> comment "a, b > c", '
        "s STRUCT<a: INT NOT NULL COMMENT 'x', `b ``c`: STRUCT<d DECIMAL(10,2)>>, date DATE"
    )
    inner = ddl.Struct((Field("d", ddl.Decimal(10, 2)),))
    assert schema == Schema(
        (
            Field("id", Atom.BIGINT, nullable=False),
            Field("m", ddl.Map(Atom.STRING, ddl.Array(Atom.INT))),
            Field("s", ddl.Struct((Field("a", Atom.INT, nullable=False), Field("b `c", inner)))),
            Field("date", Atom.DATE),
        )
    )
    assert parse_ddl(to_ddl(schema)) == schema
    assert to_ddl(schema) == (
        "id BIGINT NOT NULL, m MAP<STRING, ARRAY<INT>>, "
        "s STRUCT<a: INT NOT NULL, `b ``c`: STRUCT<d: DECIMAL(10,2)>>, date DATE"
    )


def test_arrays_have_the_element_name_that_spark_and_hive_look_for():
    arrow = to_arrow(parse_ddl("a ARRAY<INT>"))
    assert arrow.field("a").type == pa.list_(pa.field("element", pa.int32()))


@pytest.mark.parametrize(
    ("text", "position", "says"),
    [
        ("", 0, "expected a column name, got the end"),
        ("a", 1, "a type"),
        ("a INT b STRING", 6, "expected ',' or the end, got 'b'"),
        ("a INT,", 6, "a column name"),
        ("a VARCHAR(3)", 2, "VARCHAR is not supported"),
        ("a BIGGINT", 2, "'BIGGINT' is not a type"),
        ("a INT, b INT, A STRING", 14, "'A' appears twice"),
        ("s STRUCT<x: INT, X: INT>", 17, "'X' appears twice"),
        (
            "a TIMESTAMP_NS",
            2,
            "a type of a column: times have microseconds",
        ),
        ("a ARRAY<timestamptz_ns>", 8, "TIMESTAMPTZ_NS is not supported as a type"),
        ("a TIMESTAMP(9)", 11, "TIMESTAMP takes no precision: times have microseconds"),
        ("s STRUCT<a: timestamp_ntz(9)>", 25, "TIMESTAMP_NTZ takes no precision"),
        ("a DECIMAL(39,1)", 9, "DECIMAL(39,1)"),
        ("a DECIMAL(5,6)", 9, "scale 0 to precision"),
        ("a DECIMAL(0)", 9, "precision is 1 to 38"),
        ("a DECIMAL(x)", 10, "a number"),
        ("a ARRAY<INT", 11, "'>'"),
        ("a MAP<STRING>", 12, "','"),
        ("a STRUCT<>", 9, "a column name"),
        ("a INT NOT", 9, "'NULL'"),
        ("a INT COMMENT x", 14, "a quoted comment"),
        ("a `INT`", 2, "a type"),
        ("a INT ; b INT", 6, "';' is not expected"),
    ],
)
def test_errors_name_the_position_and_what_is_expected(text, position, says):
    with pytest.raises(DdlError) as caught:
        parse_ddl(text)
    assert caught.value.position == position
    assert says in str(caught.value)
