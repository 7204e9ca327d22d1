import pyarrow as pa
import pytest

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.plain import BytesDecoder, TextDecoder


@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()])
def test_text_keeps_what_is_utf8(arrow_type):
    values = pa.array([b"x", None, b"", "ä".encode(), b"\xff", b"\xe4b"], arrow_type)
    decoded = TextDecoder(parse_ddl("line STRING")).decode(values)
    assert decoded.table.to_pydict() == {"line": ["x", "", "ä"]}
    assert decoded.good.to_pylist() == [0, 2, 3]
    assert [(row.index, row.reason) for row in decoded.bad] == [
        (1, "empty"),
        (4, "not-utf8"),
        (5, "not-utf8"),
    ]


def test_a_character_cut_between_two_values_is_bad_in_both():
    decoded = TextDecoder(parse_ddl("line STRING")).decode(pa.array([b"\xc3", b"\xa4"]))
    assert len(decoded.bad) == 2


@pytest.mark.parametrize("decoder", [TextDecoder, BytesDecoder])
def test_all_good_and_none_at_all(decoder):
    ddl = "raw STRING" if decoder is TextDecoder else "raw BINARY"
    subject = decoder(parse_ddl(ddl))
    decoded = subject.decode(pa.array([b"a", b"b"]))
    assert (decoded.good, decoded.bad, decoded.table.num_rows) == (None, (), 2)
    assert decoded.table.schema == subject.schema
    assert subject.decode(pa.array([], pa.binary())).table.schema == subject.schema


def test_bytes_stay_as_they_are():
    decoded = BytesDecoder(parse_ddl("raw BINARY")).decode(pa.array([b"\xff", None, b""]))
    assert decoded.table.to_pydict() == {"raw": [b"\xff", b""]}
    assert [row.index for row in decoded.bad] == [1]


@pytest.mark.parametrize(
    ("decoder", "ddl"),
    [(TextDecoder, "a BINARY"), (TextDecoder, "a STRING, b STRING"), (BytesDecoder, "a STRING")],
)
def test_other_schemas_are_refused(decoder, ddl):
    with pytest.raises(ValueError, match="a schema of one"):
        decoder(parse_ddl(ddl))
