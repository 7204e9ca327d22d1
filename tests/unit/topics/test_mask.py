"""Columns that are masked where records are decoded."""

import hashlib
import json

import pyarrow as pa
import pytest
from tests.unit.topics.test_row_maker import rows_of, shape_of

from ashore.proof.evidence.plain_rows import decode_row, mask_row
from ashore.tables.ddl import parse_ddl
from ashore.tables.masks import check_mask
from ashore.topics.decode.registry import make_decoder

SCHEMA = "id BIGINT NOT NULL, email STRING, card STRING, note STRING, who STRUCT<a: STRING, b: INT>"
MASK = (("card", "last4"), ("email", "sha256"), ("note", "null"), ("who.a", "last4"))
RECORDS: list[dict[str, object]] = [
    {"id": 1, "email": "a@b.c", "card": "4111111111111111", "note": "x", "who": {"a": "Adamina"}},
    {"id": 2, "email": "a@b.c", "card": "123", "note": 5},
    {"id": 3, "email": None, "card": "", "who": None},
    {"id": 4, "email": "ä", "card": "äöüß😀", "who": {"a": None, "b": 7}},
    {"id": 5, "card": "1234", "who": {}},
]
VALUES = [json.dumps(each).encode() for each in RECORDS]


@pytest.mark.parametrize("reader", ["native", "python"])
def test_rows_have_masks_instead_of_values(reader: str) -> None:
    decoded = make_decoder("json", parse_ddl(SCHEMA), reader, MASK).decode(pa.array(VALUES))
    rows = decoded.table.to_pylist()
    digest = hashlib.sha256(b"a@b.c").hexdigest()
    assert [row["email"] for row in rows] == [
        digest,
        None,
        hashlib.sha256("ä".encode()).hexdigest(),
        None,
    ]
    assert [row["card"] for row in rows] == ["************1111", "", "*öüß😀", "****"]
    assert [row["note"] for row in rows] == [None] * 4
    assert [row["who"] for row in rows] == [
        {"a": "***mina", "b": None},
        None,
        {"a": None, "b": 7},
        {"a": None, "b": None},
    ]
    assert [row["id"] for row in rows] == [1, 3, 4, 5]  # what is masked is judged all the same
    assert list(decoded.bad) == [(1, "wrong-type")]  # without the value
    assert decoded.table.schema == make_decoder("json", parse_ddl(SCHEMA), reader).schema


def test_the_second_decoder_of_verify_masks_as_the_first() -> None:
    schema = parse_ddl(SCHEMA)
    first = make_decoder("json", schema, "native", MASK).decode(pa.array(VALUES)).table.to_pylist()
    good = [value for number, value in enumerate(VALUES) if number != 1]
    assert [mask_row(decode_row(value, "json", schema), dict(MASK)) for value in good] == first


def test_no_row_of_a_stream_has_what_a_record_holds() -> None:
    rows = rows_of(shape_of(SCHEMA, mask=MASK, keeps_values=True), VALUES)
    assert [(row["value"], row["key"]) for row in rows] == [(None, None)] * 5
    assert [row["reason"] for row in rows] == [None, "wrong-type", None, None, None]
    assert "a@b.c" not in str(rows)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"nam": "null"}, "nam is not a column of the schema, nor a field of a STRUCT in it"),
        ({"who.c": "null"}, "who.c is not a column of the schema"),
        ({"email.x": "null"}, "email.x is not a column of the schema"),
        ({"id": "null"}, "id is NOT NULL, and its mask is null"),
        ({"who.b": "sha256"}, "who.b is INT, and sha256 is for STRING"),
        ({"email": "md5"}, "email has the mask md5, which is not one of sha256, last4, null"),
    ],
)
def test_a_column_that_cannot_be_masked_is_refused(mask: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        check_mask(parse_ddl(SCHEMA), mask.items())
