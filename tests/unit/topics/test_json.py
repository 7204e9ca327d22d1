import json
import pickle
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from tests.json_decoders import decode_with_all

from ashore.tables.ddl import json_slow_columns, json_supports, parse_ddl
from ashore.topics.decode import json as subject
from ashore.topics.decode import json_text
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.json import JsonDecoder
from ashore.topics.decode.reasons import EMPTY, NOT_OBJECT, NULL, REASON_CHARS_MAX, describe
from ashore.topics.decode.registry import make_decoder


def decode(ddl, *values, arrow_type=None):
    """Decode with every decoder that there is; all tests of this file are for all of them."""
    decoded = decode_with_all(parse_ddl(ddl), pa.array(values, arrow_type or pa.binary()))
    decoded.table.validate(full=True)
    assert decoded.table.schema == to_arrow(parse_ddl(ddl))
    return decoded


def value(ddl_type, text):
    """Decode {"a": text} alone and among others; return the value, or the reason as a string."""
    record = b'{"a":' + text + b"}"
    ddl = f"a {ddl_type}"
    alone = decode(ddl, record)
    among = decode(ddl, b"{}", record, b"{}")
    assert among.table.num_rows == alone.table.num_rows + 2
    if alone.bad:
        assert [(row.index, row.reason) for row in among.bad] == [(1, alone.bad[0].reason)]
        return alone.bad[0].reason
    assert among.table["a"][1] == alone.table["a"][0]
    return alone.table["a"][0].as_py()


@pytest.mark.parametrize(
    ("ddl_type", "text", "expected"),
    [
        ("BOOLEAN", b"true", True),
        ("TINYINT", b"-128", -128),
        ("BIGINT", b"9223372036854775807", 2**63 - 1),
        ("FLOAT", b"0.5", 0.5),
        ("FLOAT", b"-Infinity", float("-inf")),
        ("DOUBLE", b"1.7976931348623158e308", 1.7976931348623157e308),
        ("DOUBLE", b"1.7976931348623159e308", "number-range: a DOUBLE 1.7976931348623159e308"),
        ("FLOAT", b"-1.8e308", "number-range: a FLOAT -1.8e308"),
        ("ARRAY<DOUBLE>", b"[Infinity,1.8e308]", "number-range: a.element DOUBLE 1.8e308"),
        ("MAP<STRING, DOUBLE>", b'{"k":1.8e308}', "number-range: a.value DOUBLE 1.8e308"),
        ("DOUBLE", b'Infinity,"b":1.8e308,"c":"\\"1.8e308"', float("inf")),
        ("DOUBLE", b"1", 1.0),
        ("DOUBLE", b"1e-400", 0.0),
        ("STRING", '"ä\\u0000\\ud83d\\ude00"'.encode(), "ä\0😀"),
        ("STRING", b'""', ""),
        ("BINARY", b'"AAH/"', b"\x00\x01\xff"),
        ("DATE", b'"2026-02-28"', date(2026, 2, 28)),
        ("DATE", b'"0001-01-01"', date(1, 1, 1)),
        ("TIMESTAMP", b'"2026-11-21T08:00:00Z"', datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("TIMESTAMP", b'"2026-11-21T08:00:00"', datetime(2026, 11, 21, 8, tzinfo=UTC)),
        ("TIMESTAMP", b'"2026-11-21 08:00+0530"', datetime(2026, 11, 21, 2, 30, tzinfo=UTC)),
        ("TIMESTAMP", b'"2026-11-21"', datetime(2026, 11, 21, tzinfo=UTC)),
        (
            "TIMESTAMP",
            b'"2026-11-21T08:00:00.123456789Z"',
            datetime(2026, 11, 21, 8, 0, 0, 123456, tzinfo=UTC),
        ),
        (
            "TIMESTAMP_NTZ",
            b'"2026-11-21T08:00:00.5"',
            datetime.fromisoformat("2026-11-21T08:00:00.5"),
        ),
        ("DECIMAL(5,2)", b"123.45", Decimal("123.45")),
        ("DECIMAL(5,2)", b'"123.4500"', Decimal("123.45")),
        ("DECIMAL(5,2)", b"1e2", Decimal("100.00")),
        (
            "DECIMAL(38,18)",
            b"12345678901234567890.123456789012345678",
            Decimal("12345678901234567890.123456789012345678"),
        ),
        ("ARRAY<DATE>", b'["2026-01-01",null]', [date(2026, 1, 1), None]),
        ("ARRAY<ARRAY<INT>>", b"[[1,2],[],null]", [[1, 2], [], None]),
        ("MAP<STRING, DECIMAL(2,1)>", b'{"x":1.10,"y":null}', [("x", Decimal("1.1")), ("y", None)]),
        ("MAP<STRING, MAP<STRING, INT>>", b'{"x":{"y":1}}', [("x", [("y", 1)])]),
        ("MAP<STRING, INT>", b"{}", []),
        ("ARRAY<MAP<STRING, STRING>>", b'[{"k":"\\u00e4"}]', [[("k", "ä")]]),
        ("STRUCT<x: DATE, y: INT>", b'{"y":1,"z":2}', {"x": None, "y": 1}),
        ("STRUCT<x: INT NOT NULL>", b"null", None),
        ("BIGINT", b"null", None),
    ],
)
def test_a_value_is_read_exactly(ddl_type, text, expected):
    assert value(ddl_type, text) == expected


@pytest.mark.parametrize(
    ("ddl_type", "text", "reason"),
    [
        ("BIGINT", b'"1"', 'wrong-type: a BIGINT "1"'),
        ("BIGINT", b"1.5", "not-integer: a BIGINT 1.5"),
        ("BIGINT", b"9223372036854775808", "number-range: a BIGINT 9223372036854775808"),
        ("BIGINT", b'1,"a":2', "field-twice: a"),
        ("TINYINT", b"128", "number-range: a TINYINT 128"),
        ("INT", b"true", "wrong-type: a INT true"),
        ("BOOLEAN", b"1", "wrong-type: a BOOLEAN 1"),
        ("DOUBLE", b"1e400", "number-range: a DOUBLE 1e400"),
        ("FLOAT", b"1e39", "number-range: a FLOAT 1e39"),
        ("STRING", b"1", "wrong-type: a STRING 1"),
        ("STRING", b'{"x":1}', "wrong-type: a STRING {...}"),
        ("STRING", b'"\\ud800"', "not-json: byte 5"),
        ("STRING", b'"a\nb"', "not-json: byte 5"),
        ("STRING", b'"\xff"', "not-utf8"),
        ("BINARY", b'"AAH"', 'not-base64: a BINARY "AAH"'),
        ("BINARY", b'"AA H/"', 'not-base64: a BINARY "AA H/"'),
        ("DATE", b'"2026-02-29"', 'not-time: a DATE "2026-02-29"'),
        ("DATE", b"5", "wrong-type: a DATE 5"),
        ("DATE", b'"0000-01-01"', 'time-range: a DATE "0000-01-01"'),
        ("TIMESTAMP", b"1790000000", "wrong-type: a TIMESTAMP 1790000000"),
        ("TIMESTAMP", b'"2026-11-21Z"', 'not-time: a TIMESTAMP "2026-11-21Z"'),
        ("TIMESTAMP", b'"yesterday"', 'not-time: a TIMESTAMP "yesterday"'),
        (
            "TIMESTAMP",
            b'"9999-12-31T23:59:59-01:00"',
            'time-range: a TIMESTAMP "9999-12-31T23:59:59-01:00"',
        ),
        (
            "TIMESTAMP_NTZ",
            b'"2026-11-21T08:00:00Z"',
            'not-time: a TIMESTAMP_NTZ "2026-11-21T08:00:00Z"',
        ),
        ("DECIMAL(5,2)", b"1.555", "decimal-digits: a DECIMAL(5,2) 1.555"),
        ("DECIMAL(5,2)", b"1000", "number-range: a DECIMAL(5,2) 1000"),
        ("DECIMAL(5,2)", b'"abc"', 'not-decimal: a DECIMAL(5,2) "abc"'),
        ("ARRAY<INT>", b"1", "wrong-type: a ARRAY 1"),
        ("ARRAY<INT>", b'["x"]', 'wrong-type: a.element INT "x"'),
        ("MAP<STRING, INT>", b"1", "wrong-type: a MAP 1"),
        ("MAP<STRING, INT>", b'[{"key":"x","value":1}]', "wrong-type: a MAP [...]"),
        ("MAP<STRING, INT>", b'{"x":1,"x":1}', "key-twice: a"),
        ("MAP<STRING, INT>", b'{"x":1.5}', "not-integer: a.value INT 1.5"),
        ("MAP<STRING, INT>", b'{"x":1},"a":{}', "field-twice: a"),
        ("STRUCT<x: INT>", b"[]", "wrong-type: a STRUCT [...]"),
        ("STRUCT<x: INT>", b'{"x":1,"x":2}', "field-twice: a.x"),
        ("STRUCT<x: INT NOT NULL>", b"{}", "null: a.x"),
        ("ARRAY<STRUCT<x: INT NOT NULL>>", b'[{"x":1},{"x":null}]', "null: a.element.x"),
        ("MAP<STRING, STRUCT<x: INT NOT NULL>>", b'{"k":{}}', "null: a.value.x"),
    ],
)
def test_what_does_not_fit_is_a_bad_record_with_a_reason(ddl_type, text, reason):
    assert value(ddl_type, text) == reason
    assert describe(reason) != reason


@pytest.mark.parametrize("ddl", ["a BIGINT", "a BIGINT, m MAP<STRING, INT>", "m MAP<STRING, INT>"])
@pytest.mark.parametrize("arrow_type", [pa.binary(), pa.large_binary()])
def test_values_that_are_no_single_object_shift_nothing(ddl, arrow_type):
    values = [
        b'{"a":1}',
        None,
        b"",
        b" \r\n",
        b'{"a":1}{"a":2}',  # two documents make up, in number, for the blank value above
        b'{"a":',
        b"1}",
        b"null",
        b'{"a":1}null{"a":1}',
        b'{"a":1}\nnull{}',
        b"[1]",
        b"7",
        b'"x"',
        b'\xef\xbb\xbf{"a":1}',
        b'{"a":1}\x00',
        b'{"b":"}',
        b'{"b":1},{"b":2}',
        b' {\n"a":\t5\r\n} \n',
        b'{"a":6}',
    ]
    decoded = decode(ddl, *values, arrow_type=arrow_type)
    assert decoded.good.to_pylist() == [0, 17, 18]
    if "BIGINT" in ddl:
        assert decoded.table["a"].to_pylist() == [1, 5, 6]
    assert [row.index for row in decoded.bad] == list(range(1, 17))
    reasons = {row.index: row.reason for row in decoded.bad}
    assert reasons[1] == reasons[2] == reasons[3] == EMPTY
    assert reasons[7] == reasons[10] == reasons[14] == NOT_OBJECT


@pytest.mark.parametrize("few_max", [0, 16])
def test_a_few_odd_values_are_stepped_over_as_many_are_sifted_out(monkeypatch, few_max):
    monkeypatch.setattr(subject, "FEW_ROWS", few_max)
    good = b'{"a":1,"b":2}'
    decoded = decode("a BIGINT", b"x", good, None, b"", good, b'{"a":"x"}', b"[1]", good, b'{"a":')
    assert decoded.table["a"].to_pylist() == [1, 1, 1]
    assert decoded.good.to_pylist() == [1, 4, 7]
    assert [row.index for row in decoded.bad] == [0, 2, 3, 5, 6, 8]
    assert [row.reason for row in decoded.bad][1:3] == [EMPTY, EMPTY]
    assert (decoded.unknown_records, decoded.unknown_names) == (3, ("b",))


def test_a_few_values_in_white_space_are_trimmed():
    good = b'{"a":1}'
    decoded = decode("a BIGINT", good, b" \n" + good + b"\n", b"x", good)
    assert decoded.good.to_pylist() == [0, 1, 3]
    assert [row.index for row in decoded.bad] == [2]


def test_documents_that_only_together_have_the_right_number():
    decoded = decode("a INT", b'{"a":1}{"a":2}', b'{"a":{}', b"{}}", b'{"a":3}')
    assert decoded.good.to_pylist() == [3]
    assert decoded.table["a"].to_pylist() == [3]


def test_a_slice_of_a_batch_is_decoded_as_itself():
    values = pa.array([b"x", b'{"a":1}', b' {"a":2}', b"y"], pa.binary())
    decoded = decode_with_all(parse_ddl("a INT"), values.slice(1, 2))
    assert decoded.table["a"].to_pylist() == [1, 2]


def test_empty_batches_and_batches_without_a_good_record():
    assert decode("a INT").good is None
    nothing = decode("a INT, m MAP<STRING, INT>", None, b"x")
    assert (nothing.table.num_rows, nothing.good.to_pylist(), len(nothing.bad)) == (0, [], 2)


class CountingDecoder(JsonDecoder):
    calls = 0

    def _parse(self, sources, start, count):
        self.calls += 1
        return super()._parse(sources, start, count)


def test_a_batch_of_bad_records_costs_at_most_two_calls_each():
    decoder = CountingDecoder(parse_ddl("a INT"))
    decoded = decoder.decode(pa.array([b'{"a":"x"}'] * 1000))
    assert len(decoded.bad) == 1000
    assert decoder.calls <= 2 * 1000


def test_not_null_at_the_top():
    decoded = decode("a INT NOT NULL, b INT", b'{"a":1}', b'{"a":null}', b"{}", b'{"a":2}')
    assert decoded.good.to_pylist() == [0, 3]
    assert {row.reason for row in decoded.bad} == {f"{NULL}: a"}


def test_bad_records_among_many_cost_few_native_calls():
    rows = 40_000
    values = [b'{"a":%d}' % i for i in range(rows)]
    bad = [0, 17, 32_767, 32_768, 39_999]
    for row in bad:
        values[row] = b'{"a":"%d"}' % row
    decoder = CountingDecoder(parse_ddl("a INT"))
    decoded = decoder.decode(pa.array(values))
    assert [row.index for row in decoded.bad] == bad
    assert decoded.table["a"].to_pylist() == [i for i in range(rows) if i not in bad]
    assert decoded.good.to_pylist() == decoded.table["a"].to_pylist()
    assert decoder.calls < 5 * 4 * subject.SPLIT + 2
    before = decoder.calls
    assert decoder.decode(pa.array(values)).bad == decoded.bad
    assert before < decoder.calls < 2 * before + 8


def test_blocks_are_bounded_by_bytes(monkeypatch):
    monkeypatch.setattr(subject, "BLOCK_BYTES", 100)
    texts = pa.array([b"x" * size for size in (10, 500, 10, 10, 60, 60)], pa.binary())
    blocks = subject._cut(texts, 100)
    assert [row for start, count in blocks for row in range(start, start + count)] == list(range(6))
    assert all(count == 1 or texts.slice(start, count).nbytes <= 100 for start, count in blocks)


def test_no_block_of_the_parser_begins_within_a_value():
    """Arrow cuts its input at newlines near 1 MiB, and a block that begins with null kills it."""
    value = b'{"a":"' + b"x" * ((1 << 20) - 100) + b'"}\nnull{"b":"' + b"y" * 200 + b'"}'
    decoded = decode("a STRING", value, b'{"a":"z"}')
    assert decoded.table["a"].to_pylist() == ["z"]


def test_unknown_fields_are_ignored_and_counted():
    few = decode("a INT", b'{"a":1,"b":2}', b'{"a":1}', b'{"A":1}', b'{"c":"x"', b'{"a":[]}')
    assert (few.unknown_records, few.unknown_names) == (2, ("A", "b"))
    many = decode("a INT", *[b'{"a":1,"b":2}', b'{"a":1}'] * 501)
    assert 0 < many.unknown_records <= 1002
    assert many.unknown_names == ("b",)


def test_hostile_depth_is_survived():
    deep = b'{"a":1,"b":' + b"[" * 200_000 + b"]" * 200_000 + b"}"
    assert decode("a INT", deep).table["a"].to_pylist() == [1]
    mapped = decode("a INT, m MAP<STRING, INT>", deep, b'{"a":2}')
    assert mapped.table["a"].to_pylist() == [2]
    assert mapped.bad[0].reason == "too-deep"


def test_reasons_are_short():
    reason = decode("a INT", b'{"a":' + b"9" * 5000 + b"}").bad[0].reason
    assert len(reason) <= REASON_CHARS_MAX


def test_columns_that_are_slow_are_named():
    ddl = "a INT, m MAP<STRING, INT>, s STRUCT<x: ARRAY<MAP<STRING, INT>>>, t STRUCT<x: INT>"
    assert json_slow_columns(parse_ddl(ddl)) == ["m", "s"]


def test_map_keys_that_json_does_not_have_are_refused():
    schema = parse_ddl("a ARRAY<MAP<INT, INT>>, b MAP<STRING, INT>, c INT")
    assert json_supports(schema) == ["a"]
    with pytest.raises(ValueError, match="STRING: a"):
        JsonDecoder(schema)


def test_rewriting_maps_leaves_the_rest_to_the_parser():
    fields = parse_ddl("s STRUCT<m: MAP<STRING, DOUBLE>, n: DOUBLE>").fields
    texts = pa.array(
        [b'{"z":1,"s":{"n":1.50e0,"u":[true,null,"\\u00e4"],"m":{"k":NaN}}}'], pa.binary()
    )
    rewritten, refused = subject.rewrite_maps(texts, fields)
    assert not refused
    assert rewritten.to_pylist() == [
        b'{"s":{"n":1.50e0,"u":[true,null,"\\u00e4"],"m":[{"key":"k","value":NaN}]}}'
    ]


def test_fields_may_come_in_any_order():
    records = [{"a": 1, "b": "x"}, {"b": "y", "a": 2}, {"b": "z"}]
    decoded = decode("a INT, b STRING", *[json.dumps(record).encode() for record in records])
    assert decoded.table["b"].to_pylist() == ["x", "y", "z"]


def decode_in_a_child(ddl, *records):
    """Decode where a crash of the parser is found as one: exit code and what came out."""
    code = (
        "import sys, pickle, pyarrow as pa\n"
        "from ashore.tables.ddl import parse_ddl\n"
        "from ashore.topics.decode.json import JsonDecoder\n"
        "ddl, records = pickle.load(sys.stdin.buffer)\n"
        "found = JsonDecoder(parse_ddl(ddl)).decode(pa.array(records, pa.binary()))\n"
        "rows = found.table.to_pylist(), [(row.index, row.reason) for row in found.bad]\n"
        "pickle.dump(rows, sys.stdout.buffer)\n"
    )
    asked = pickle.dumps((ddl, records))
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, input=asked, capture_output=True, check=False)
    assert ended.returncode == 0, ended
    return pickle.loads(ended.stdout)


MANY = b"1" + b"0" * 70
BEYOND_THE_TABLE = [
    *[b"1e-100000000", b'"1e-100000000"', b"1E-230", b'"-1.5e-230"', b"0e-115", b'"1.e-230"'],
    *[MANY + b"e-134", b"0." + b"0" * 75 + b"1e-39", b"1e-2147483648", b"1e-99999999999999999999"],
    *[b"1e-" + b"0" * 40 + b"230", b'"1\\u0065-230"', b'"1\\u0045-230"', b'"1e\\u002D230"'],
    *[b'"1e-\\u0032\\u00330"', b'"0\\u002e0e-230"', b'"1e-230 "'],
]


def test_exponents_beyond_arrows_table_are_bad_and_never_reach_it():
    records = [b'{"a":' + text + b" }" for text in BEYOND_THE_TABLE]
    deep = [b'{"s":[{"m":{"k":' + text + b"}}]}" for text in BEYOND_THE_TABLE]
    among = [each for record in records + deep for each in (b'{"a":1}', record)]
    ddl = "a DECIMAL(38,10), s ARRAY<STRUCT<m: MAP<STRING, DECIMAL(5,2)>>>"
    rows, bad = decode_in_a_child(ddl, *among)
    assert [row["a"] for row in rows] == [Decimal(1)] * len(records + deep)
    paths = ["a DECIMAL(38,10)"] * len(records) + ["s.element.m.value DECIMAL(5,2)"] * len(deep)
    texts = [text.decode() for text in BEYOND_THE_TABLE] * 2
    found = [
        (
            1 + 2 * each,
            f"{'not-decimal' if ' ' in text else 'decimal-digits'}: {path} {text}"[
                :REASON_CHARS_MAX
            ],
        )
        for each, (path, text) in enumerate(zip(paths, texts, strict=True))
    ]
    assert bad == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"0e-114", Decimal(0)),
        (b'"0e-00000000000000000000000000000001"', Decimal(0)),
        (MANY + b"e-70", Decimal(1)),
        (b"1e-10", Decimal("1e-10")),
        (b"1e-39", "decimal-digits: a DECIMAL(38,10) 1e-39"),
        (b"1e76", "number-range: a DECIMAL(38,10) 1e76"),
    ],
)
def test_exponents_within_arrows_table_are_as_they_were(text, expected):
    found = value("DECIMAL(38,10)", text)
    assert found == expected


def test_such_texts_elsewhere_in_a_record_are_no_decimals():
    record = b'{"d":1e-230,"t":"1e-230","u":"3fa85f6e-1234-4e-562e-9999","x":{"a":"1e-230"},"a":1}'
    decoded = decode("a DECIMAL(5,2), d DOUBLE, t STRING", record)
    assert decoded.table.to_pylist() == [{"a": Decimal(1), "d": 1e-230, "t": "1e-230"}]


def test_suspects_are_found_across_the_edges_of_what_is_scanned(monkeypatch):
    monkeypatch.setattr(json_text, "_CHUNK_BYTES", 4)
    for pad in range(8):
        for text in (b"1e-230", b'"1\\u0065-230"'):
            assert decode("a DECIMAL(5,2)", b'{"x":"' + b"-" * pad + b'","a":' + text + b"}").bad


@pytest.mark.parametrize("reader", ["python", "auto"])
def test_whole_numbers_are_taken_by_the_name_that_job_files_give(reader):
    values = pa.array([b'{"a":5.0}', b'{"a":5.5}', b'{"a":7}'], pa.binary())
    schema = parse_ddl("a INT")
    whole = make_decoder("json_whole", schema, reader).decode(values)
    assert whole.table.to_pylist() == [{"a": 5}, {"a": 7}]
    assert list(whole.bad) == [(1, "not-integer: a INT 5.5")]
    strict = make_decoder("json", schema, reader).decode(values)
    assert strict.table.to_pylist() == [{"a": 7}]
