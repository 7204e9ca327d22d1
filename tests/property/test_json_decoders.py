"""All decoders of JSON agree: on values, on verdicts, and on the reasons for them."""

import itertools
import json
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.fuzz import fuzz
from tests.json_decoders import decode_with_all

from ashore.proof.evidence.plain_rows import Odd, decode_row
from ashore.tables.ddl import parse_ddl

pytestmark = pytest.mark.property

SCHEMA = (
    "o BOOLEAN, t TINYINT, s SMALLINT, i INT, l BIGINT, f FLOAT, d DOUBLE, c STRING, b BINARY, "
    "y DATE, z TIMESTAMP, n TIMESTAMP_NTZ, p DECIMAL(5,2), q DECIMAL(38,10), a ARRAY<BIGINT>, "
    "r STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<u: STRING, v: DOUBLE>>>"
)
NAMES = [field.name for field in parse_ddl(SCHEMA).fields]
LIMITS = [f"{sign}{number}" for n in (7, 8, 15, 16, 31, 32, 63, 64, 65) for sign in ("", "-")
          for number in (2**n - 1, 2**n, 2**n + 1)]  # fmt: skip
NUMBERS = [
    *("0", "-0", "00", "01", "-01", "1.", ".5", "1.0", "-1.5", "+1", "1e3", "1E+3", "1e", "1e+"),
    *("0.1", "1e22", "1e23", "123456789012345678901", "1.7976931348623157e308", "4.9e-324"),
    *("2.2250738585072011e-308", "9007199254740993", "9007199254740993.0", "0.30000000000000004"),
    *("1.7976931348623158e308", "1.7976931348623159e308", "-1.8e308", "1" + "0" * 309, "-Inf"),
    *("1e400", "-1e400", "1e-400", "1e309", "1e308", "9" * 400, "0." + "0" * 400 + "1"),
    *("1e99999999999999999999", "0e99999999999999999999", "1e-99999999999999999999"),
    *("3.4028235e38", "3.4028236e38", "1e39", "1e-46", "16777217", "1.401298464324817e-45"),
    *("NaN", "Infinity", "-Infinity", "Inf", "-Inf", "-NaN", "nan", "NaNx", "Infinit", "N", "I"),
    *("999.99", "999.995", "1000", "1.555", "1.550", "12e1", "12e-1", "1e-2", "1e-3", "1e2"),
    *("0e-100", "0e-200", "0e37", "1e-115", "1e-230", "1" * 38, "1" * 39, "9" * 28 + ".5"),
    *("18446744073709551615", "36893488147419103230", "0." + "0" * 90, "1" + "0" * 40 + "e-20"),
]
DATES = ["2026-11-21", "0001-01-01", "0000-12-31", "9999-12-31", "10000-01-01", "2026-02-29"]
DATES += ["2024-02-29", "1900-02-29", "2000-02-29", "2026-13-01", "2026-1-1", "20261121", "-001-01"]
CLOCKS = ["", "T08", "T08:00", " 08:00:00", "T23:59:59", "T24:00:00", "T08:00:60", "t08:00", "T"]
CLOCKS += ["T08:00:00.", "T08:00:00.1", "T08:00:00.123456", "T08:00:00.1234567", "T8:00", "T08:00:"]
CLOCKS += ["T08:00:00.1234567890123", "T08:00.5", "T08:00:00,5", "T080000", " ", "T08:00:00.12345x"]
ZONES = [
    "",
    "Z",
    "z",
    "+01",
    "-01",
    "+0130",
    "+01:30",
    "-23:59",
    "+24:00",
    "+01:60",
    " +01:00",
    "+1",
]
TEXTS = [
    *("", "x", "é", "😀", "\\u0000", "\\ud83d\\ude00", "\\ud800", "\\udc00", "\\ud800\\u0041"),
    *("\\ud800x", "\\u12", "\\u12g4", "\\q", "\\", '\\"', "\\/", "\\b\\f\\n\\r\\t\\\\", "\n", "\0"),
    *("\t", "\x1f", "\x7f", "a" * 31, "a" * 32, "a" * 33, "a" * 63 + "\\n", "é" * 40, "a" * 5_000),
    *("YWJj", "YQ==", "YWI=", "YQ", "Y", "====", "YQ==YQ==", "YWJj\\n", "YR==", "-_-_", "YWJj="),
]
BARE = [
    "true",
    "false",
    "null",
    "True",
    "tru",
    "nul",
    "truex",
    "[]",
    "[1]",
    "[1,]",
    "[,1]",
    "[1 2]",
]
BARE += ["{}", '{"x":1}', '{"x":null}', '{"x":1,"x":2}', '{"x":1,}', "[null]", '{"y":[{"u":"a"}]}']
BARE += ['{"x":1,"y":[{"v":1e400}]}', "[[1]]", '["1"]', '{"x" : 1 , "y" : [ ] }', "", "//", "/**/1"]
BARE += ['{"x":1,"y":[{"v":1.8e308},{"v":Infinity}]}']
TOKENS = [*LIMITS, *NUMBERS, *BARE]
TOKENS += [f'"{text}"' for text in [*NUMBERS, *TEXTS]]
TOKENS += [f'"{day}{clock}{zone}"' for day in DATES[:2] for clock in CLOCKS for zone in ZONES]
TOKENS += [f'"{day}{zone}"' for day in DATES for zone in ZONES]


@pytest.mark.thirds
@pytest.mark.parametrize("name", NAMES)
def test_every_token_in_every_type(name: str):
    values = [f'{{"{name}":{token}}}'.encode() for token in TOKENS]
    schema = parse_ddl(SCHEMA)
    (field,) = [each for each in schema.fields if each.name == name]
    own = type(schema)((field,))
    decoded = decode_with_all(own, pa.array(values, pa.binary()))
    assert 0 < decoded.table.num_rows < len(values)
    beside = [f'{{"u":{token},"{name}":null}}'.encode() for token in TOKENS]
    decode_with_all(own, pa.array(beside, pa.binary()))


NESTED = [b"[" * n + b"]" * n for n in (1, 100, 127, 128, 129, 130, 5_000, 100_000)]
NESTED += [b'{"a":' * n + b"1" + b"}" * n for n in (1, 127, 128, 129, 5_000)]
NESTED += [b"[" * 100_000, b'{"a":' * 5_000]
WHOLE = [
    None,
    *(b"", b" ", b"\n", b"null", b"[]", b"7", b"{", b"}", b"{}", b" {} ", b"{ }", b"{}{}"),
    *(b"{}\n{}", b"{}x", b"x{}", b"\xef\xbb\xbf{}", b"{}\0", b"\0{}", b"\x0b{}", b'{"l":1}\x00}'),
    *(b'{"l":1}}', b'{"l":1', b'{"l"', b'{"l":', b"{l:1}", b"{'l':1}", b'{"l" 1}'),
    *(b'{"l":1,}', b'{,"l":1}', b'{"l":1,"l":2}', b'{"l":null,"l":null}', b'{"\\u006c":1}'),
    *(b'{"\\u006c":1,"l":2}', b'{"L":1}', b'{"":1}', b'{"l":1,"x":"\xff"}', b'{"l":1}{'),
    *(b'{"l":1 "i":2}', b"{},{}"),
    *(b'{"c":"\xc3', b'{"c":"\xc3"}', b'{"c":"\xed\xa0\x80"}', b'{"c":"\xf4\x90\x80\x80"}'),
    *(b'{"c":"\xf0\x9f\x98\x80"}', b'{"c":"a\nb"}', b'{\n"l"\t:\r\n1\n}\n', b'{"x":{"l":2},"l":1}'),
    b'{"' + b"n" * 300 + b'":1,"l":2}',
]  # fmt: skip


@pytest.mark.parametrize("schema", ["l BIGINT, i INT, c STRING", "l BIGINT, m MAP<STRING, BIGINT>"])
def test_whole_values_alone_and_together(schema: str):
    values = WHOLE + [b'{"l":1,"u":' + each + b"}" for each in NESTED]
    ddl = parse_ddl(schema)
    whole = decode_with_all(ddl, pa.array(values, pa.large_binary()))
    assert whole.table.num_rows
    for value in WHOLE:
        decode_with_all(ddl, pa.array([value], pa.binary()))


@pytest.mark.thirds
@pytest.mark.parametrize("cut", range(0, 170, 7))
def test_a_value_that_is_cut_anywhere(cut: int):
    record = (
        '{"c":"é😀x","l":-12.5e3,"a":[1,2,{}],"o":true,"x":{"y":["\\u00e9",null]},"d":1.5e-3}' * 2
    )
    content = record.encode()
    values = [content[: cut + i] for i in range(7)] + [content[cut + i :] for i in range(7)]
    decode_with_all(parse_ddl(SCHEMA), pa.array(values, pa.binary()))


IGNORED = [
    *("1e309", "-1e400", "9" * 5_000, "[1e309]", '{"y":1e309}', '"\\ud83d"', '"\\udc00x"'),
    *('["\\ud83d"]', '{"\\ud83d":1}', '{"y":{"z":"\\ud83d\\ud83d"}}', '"\\ud83d\\ude00"'),
]


@pytest.mark.parametrize(
    "schema", ["a INT", "a INT, m MAP<STRING, INT>, p DECIMAL(5,2)", "m MAP<STRING, INT>"]
)
@pytest.mark.parametrize("ignored", IGNORED)
def test_an_ignored_value_makes_no_record_bad(schema: str, ignored: str):
    names = {"a": "7", "m": '{"k":1}', "p": "0.50"}
    own = ",".join(f'"{name}":{token}' for name, token in names.items() if f"{name} " in schema)
    plain, broken = f"{{{own}}}", f'{{{own},"x":{ignored},"x":tru}}'
    values = [plain, f'{{"x":{ignored},{own}}}', plain, f'{{{own},"x":{ignored}}}', broken]
    decoded = decode_with_all(
        parse_ddl(schema), pa.array([each.encode() for each in values], pa.binary())
    )
    (bad,) = decoded.bad
    assert bad.index == 4
    assert bad.reason.startswith("not-json: byte")
    first, *rest = decoded.table.to_pylist()
    assert rest == [first] * 3


ZEROS = ["0e114", "0e39", "0.00e200", "-0e99999999999999999999", '"0e114"', '"+.0E500"', "0e-114"]


@pytest.mark.parametrize("zero", ZEROS)
def test_a_zero_is_a_decimal_whatever_its_exponent(zero: str):
    ddl = "p DECIMAL(5,2), m MAP<STRING, DECIMAL(5,2)>"
    values = [f'{{"p":{zero}}}', f'{{"m":{{"k":{zero}}},"p":1}}', '{"p":1e114}']
    decoded = decode_with_all(
        parse_ddl(ddl), pa.array([each.encode() for each in values], pa.binary())
    )
    assert decoded.table.to_pylist() == [
        {"p": Decimal("0.00"), "m": None},
        {"p": Decimal("1.00"), "m": [("k", Decimal("0.00"))]},
    ]
    assert [each.index for each in decoded.bad] == [2]


WHOLE_SCHEMA = (
    "t TINYINT, s SMALLINT, i INT, l BIGINT, d DOUBLE, p DECIMAL(5,2), c STRING, a ARRAY<BIGINT>, "
    "m MAP<STRING, INT>, r STRUCT<x: INT NOT NULL>"
)
WHOLE_TOKENS = [
    *NUMBERS,
    *LIMITS,
    *("5.0", "-128.00", "1.27e2", "128e0", "2147483647.0", "1e-1", '"5.0"', "1e18", "1e19"),
    *("9223372036854775807.000", "-9223372036854775808.0", "9223372036854775808.0"),
    *("0.00005e5", "1" + "0" * 40 + "e-30", "1e-999999999999"),
]


@pytest.mark.parametrize("name", parse_ddl(WHOLE_SCHEMA).names)
def test_whole_numbers_of_any_form(name: str):
    forms = {"a": "[{}]", "m": '{{"k":{}}}', "r": '{{"x":{}}}'}
    form = forms.get(name, "{}")
    values = [f'{{"{name}":{form.format(token)},"d":1.5}}' for token in WHOLE_TOKENS]
    values += [f'{{"u":{token},"{name}":{form.format("1e0")}}}' for token in WHOLE_TOKENS]
    array = pa.array([each.encode() for each in values], pa.binary())
    decode_with_all(parse_ddl(WHOLE_SCHEMA), array, takes_whole=True)


@pytest.mark.parametrize(
    ("ddl", "token", "result"),
    [
        ("v BIGINT", "5.0", 5), ("v BIGINT", "1e3", 1000), ("v INT", "-0.0", 0),
        ("v TINYINT", "1.27e2", 127), ("v TINYINT", "1.28e2", "number-range: v TINYINT 1.28e2"),
        ("v INT", "5.5", "not-integer: v INT 5.5"), ("v INT", "NaN", "not-integer: v INT NaN"),
        ("v INT", '"5.0"', 'wrong-type: v INT "5.0"'), ("v INT", "0e999999999999999999999", 0),
        ("v INT", "1e999999999999999999999", "number-range: v INT 1e999999999999999999999"),
        ("v INT", "1e-999999999999999999999", "not-integer: v INT 1e-999999999999999999999"),
    ],
)  # fmt: skip
def test_a_whole_number_is_taken_where_the_job_file_says_so(ddl: str, token: str, result: object):
    array = pa.array([f'{{"v":{token}}}'.encode()], pa.binary())
    decoded = decode_with_all(parse_ddl(ddl), array, takes_whole=True)
    if isinstance(result, str):
        assert [each.reason for each in decoded.bad] == [result]
        with pytest.raises(Odd):
            decode_row(array[0].as_py(), "json_whole", parse_ddl(ddl))
    else:
        assert decoded.table.to_pylist() == [{"v": result}]
        assert decode_row(array[0].as_py(), "json_whole", parse_ddl(ddl)) == {"v": result}
        assert decode_with_all(parse_ddl(ddl), array).bad, "it is strict by default"


keys = st.sampled_from([*NAMES, "zz", "é", 'q"', "l" * 40])
leaves = st.one_of(st.sampled_from(TOKENS), st.integers(-(2**66), 2**66).map(str), st.floats().map(
    json.dumps), st.text(max_size=40).map(json.dumps),
    st.text(max_size=9).map(lambda text: json.dumps(text, ensure_ascii=False)))  # fmt: skip
spaces = st.sampled_from(["", "", "", " ", "\n  ", "\t"])


@st.composite
def records(draw: st.DrawFn) -> bytes:
    fields = draw(st.lists(st.tuples(keys, leaves), max_size=6))
    space, colon = draw(spaces), draw(spaces)
    parts = [f"{space}{json.dumps(name)}{colon}:{space}{token}" for name, token in fields]
    return ("{" + ",".join(parts) + space + "}").encode("utf-8", "surrogatepass")


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(records(), max_size=30))
def test_records_of_any_fields_in_any_order(values: list[bytes]):
    decode_with_all(parse_ddl(SCHEMA), pa.array(values, pa.binary()))


# Of the kind of their columns, and none that fits: what is said first of several is asked here.
DECIMALS = [
    *("1.555", "1000", "12345.678", "18446744073709551615", "1" * 25, "1" * 40, "1e-200"),
    "0." + "1" * 40,
    *("5." + "0" * 40, '"n/a"', '""', '"."', '"one-way"', '"1e"', '"x1"', '"+5.00"', '"12 "'),
]
INSTANTS = [
    *("2026-13-01T08:00:00.123Z", "2026-11-21 Z", "2026-11-21T08:00+24:00", "Z", "T+01"),
    *("2026-11-21T08:00.1234567", "2026-11-21T24:00:00.1234567Z", "0000-01-01T00:00:00.5Z"),
]
MISFITS = {
    "i": ["3000000000", "1.0", "NaN"],
    "l": [str(2**63), "1e3"],
    "t": ["128"],
    "f": ["1e39"],
    "d": ["1.8e308"],
    "p": DECIMALS,
    "y": ['"2026-02-30"', '"0000-01-01"', '""'],
    "z": [f'"{text}"' for text in INSTANTS],
    "n": ['"2026-11-21T08:00:00.5Z"', '"2026-13-01"', '"2026-11-21T24:00:00.1234567+01"'],
    "b": ['"a-b"', '"YQ"', '"YWJjY"', '"é"', '"="', '"YWJj="', '"a b="'],
    "k": ["null", "1000"],
    "g": ['["2026-02-30"]', '["2026-11-21","x","y"]'],
    "r": ['{"x":null}', '{"y":[{"v":1}]}', '{"x":3000000000}', '{"x":1,"y":[{"u":"x"},{"u":""}]}'],
}
MISFIT_SCHEMA = (
    "z TIMESTAMP, p DECIMAL(5,2), i INT, l BIGINT, t TINYINT, f FLOAT, d DOUBLE, b BINARY, "
    "y DATE, n TIMESTAMP_NTZ, g ARRAY<DATE>, "
    "r STRUCT<x: INT NOT NULL, y: ARRAY<STRUCT<u: DATE, v: DOUBLE>>>"
)


REQUIRED = ", k TINYINT NOT NULL"
MAPS = ", m MAP<STRING, INT>, q INT, o ARRAY<MAP<STRING, DATE>>"
BESIDE = [*itertools.product(("", REQUIRED), ("", MAPS))]


# Every day each of them beside one of these, by turns.
@pytest.mark.thirds
@pytest.mark.parametrize(
    ("name", "required", "maps"),
    [
        pytest.param(
            *(name, *beside), marks=[pytest.mark.long] * ((number - turn) % len(BESIDE) != 0)
        )
        for number, name in enumerate(MISFITS)
        for turn, beside in enumerate(BESIDE)
    ],
)
def test_misfits_one_and_two_in_a_record(name: str, required: str, maps: str):
    others = {other: tokens[:2] for other, tokens in MISFITS.items() if other != name}
    if maps:
        others |= {"m": ['{"a":1}', '{"a":3000000000}', '{"a":1,"a":2}', "7"]}
        others |= {"q": ['"x"', "3000000000"], "o": ['[{"a":"x"}]', "[{}]"]}
    values = []
    for token in MISFITS[name]:
        own = f'"{name}":{token}'
        values += [f"{{{own}}}", f'{{"k":1,{own},"u":[{{}}]}}', f'{{{own},"k":1,"u":x}}']
        for other, tokens in others.items():
            values += [f'{{"k":2,"{other}":{each},{own}}}' for each in tokens]
            values += [f'{{{own},"{other}":{each},"k":3}}' for each in tokens]
    schema = parse_ddl(MISFIT_SCHEMA + required + maps)
    decode_with_all(schema, pa.array([each.encode() for each in values], pa.binary()))


MAP_RECORDS = [
    '{"l":1,"m":{"a":1,"é":2},"c":"äx","r":{"k":1,"m":{"k":1}},"a":[{"a":1},{"b":2}],"x":[1,{}]}',
    ' {"l": 3, "m": {"a" : 1, "b": 99999999999},\n "d": 1.5, "c": "x", "zz": {"a":null}} ',
    '{"m":{"q":1},"i":5,"l":-7,"d":-Infinity,"c":"t"}',
]
MAP_SCHEMA = (
    "l BIGINT, i INT NOT NULL, m MAP<STRING, BIGINT>, c STRING, d DOUBLE, "
    "r STRUCT<k: INT NOT NULL, m: MAP<STRING, INT>>, a ARRAY<MAP<STRING, BIGINT>>"
)
DAMAGES = [
    *('"', ",", ":", "{", "}", "[", "]", "null", "tru", "1", "-", ".", "e5", "1e400", "9" * 20),
    *("Inf", "NaN", "-NaN", "-Inf", '"a"', "\n", " ", "é", "\\", "\\ud800", "\x01", '"c":5,'),
    *('"l":1,', '"l":"x",', '"m":{},', '"m":3,', '"m":{"a":1,"a":2},', '"u":tru,'),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    text = draw(st.sampled_from(MAP_RECORDS))
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(text)))
        text = text[:at] + draw(st.sampled_from(["", *DAMAGES])) + text[at + draw(
            st.integers(0, 2)) :]  # fmt: skip
    return text.encode()


@settings(deadline=None, max_examples=examples(300))
@given(st.lists(damaged(), min_size=1, max_size=30))
@example([b' {"l": 3, "m": {"a" : 1},\n "zz": {"a":null} '])  # the text ends in a space
def test_damaged_records_with_maps(values: list[bytes]):
    """What is said first is what JsonDecoder meets: Python's parser, then maps, then columns."""
    decode_with_all(parse_ddl(MAP_SCHEMA), pa.array(values, pa.binary()))


TROUBLES = [
    *('"l":"x"', '"l":true', '"l":{}', '"l":[tru]', '"l":[[', '"l":1e400', '"l":-Inf', '"l"'),
    *('"l":"\\ud800"', '"l":1,"l":2', '"l":1,"l":tru', '"c":7', '"c":NaN', '"c":"a","c":"b"'),
    *('"c":"a","c":"\\q"', '"m":"x"', '"m":7', '"m":{},"m":{}', '"m":{"a":1,"a":2}'),
    *('"m":{"a":"x"}', '"m":null,"m":[1]', '"r":[]', '"r":{"k":"x"}', '"r":{"k":1,"k":2}'),
    *('"r":{"k":null}', '"a":{}', '"a":[{"a":1,"a":2}]', '"i":3000000000', '"i":null'),
    *('"p":true', '"p":1e-3', '"p":"1e3"', '"u":"e-"', '"u":tru', '"u":1'),
]  # fmt: skip


BESIDE = [
    "m STRING",
    "p DECIMAL(5,2), m MAP<STRING, BIGINT>, a ARRAY<MAP<STRING, INT>>",
    pytest.param("p DECIMAL(5,2), m STRING", marks=pytest.mark.long),
    pytest.param("m MAP<STRING, BIGINT>, a ARRAY<MAP<STRING, INT>>", marks=pytest.mark.long),
]


@pytest.mark.thirds
@pytest.mark.parametrize("beside", BESIDE)
@pytest.mark.parametrize("first", TROUBLES)
def test_what_is_said_of_a_record_with_two_faults(first: str, beside: str):
    """A key twice, a value of another kind, and what JsonDecoder meets before these."""
    ddl = f"l BIGINT, i INT NOT NULL, r STRUCT<k: INT NOT NULL>, c STRING, {beside}"
    values = [f"{{{first}", f"{{{first}}} x", f" {{{first} , }}"]
    for second in TROUBLES:
        values.append(f"{{{first},{second}}}")
        values.append(f'{{"x":[],{first}, "m":{{}},"y":1, {second} ,"i":3}}\n')
    decode_with_all(parse_ddl(ddl), pa.array([each.encode() for each in values], pa.binary()))


def test_more_rows_than_a_block_and_a_slice_of_them():
    values = [b'{"l":%d,"c":"%s","a":[%d]}' % (i, b"x" * (i % 50), i) for i in range(20_000)]
    for at in (0, 8_191, 8_192, 12_345, 19_999):
        values[at] = b'{"l":"x"}'
    array = pa.array(values, pa.binary())
    schema = parse_ddl("l BIGINT, c STRING, a ARRAY<BIGINT>")
    assert len(decode_with_all(schema, array).bad) == 5
    assert len(decode_with_all(schema, array.slice(8_190, 5_000)).bad) == 3


def test_inputs_of_any_schema_in_a_process_of_their_own():
    """A crash of the decoder would be one of that process."""
    fuzz("json", 0, examples(300))
