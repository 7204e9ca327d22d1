"""The native decoder's own part: where it is missing, and where it asks JsonDecoder."""

import pyarrow as pa
import pytest
from tests.json_decoders import IS_NATIVE, decode_with_all, other_decoders

from ashore.base import native
from ashore.errors import NotInstalled
from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.json import JsonDecoder, NativeJsonDecoder, require_native
from ashore.topics.decode.registry import make_decoder

SCHEMA = parse_ddl("a BIGINT, d DOUBLE")


@pytest.fixture
def is_missing(monkeypatch):
    monkeypatch.setattr(native.importlib.util, "find_spec", lambda _name: None)
    native.why_not_native.cache_clear()
    yield
    native.why_not_native.cache_clear()


@pytest.mark.usefixtures("is_missing")
def test_without_the_module_auto_goes_on_and_native_says_what_to_type():
    assert isinstance(make_decoder("json", SCHEMA, "auto"), JsonDecoder)
    described = native.describe_reader("auto")
    assert described.startswith("python, as ashore-native is not")
    for refused in (require_native, lambda: make_decoder("json", SCHEMA, "native")):
        with pytest.raises(NotInstalled) as error:
            refused()
        assert "pip install ashore-native" in error.value.hint
        assert error.value.exit_code == 7


def test_a_module_of_another_interface_is_not_used(monkeypatch):
    native.why_not_native.cache_clear()
    interface = native.INTERFACE
    monkeypatch.setattr(native, "INTERFACE", -1)
    reason = native.why_not_native()
    native.why_not_native.cache_clear()
    assert reason.startswith(
        f"ashore-native has interface {interface}, and" if IS_NATIVE else "ashore-native is"
    )


def test_who_decodes_is_what_the_job_file_says():
    kinds = {reader: type(make_decoder("json", SCHEMA, reader)) for reader in ("auto", "python")}
    assert kinds["python"] is JsonDecoder
    assert kinds["auto"] is (NativeJsonDecoder if IS_NATIVE else JsonDecoder)
    assert native.describe_reader("python") == "python"
    assert native.describe_reader("auto").startswith("native" if IS_NATIVE else "python, as")


def test_rows_of_both_decoders_stand_in_the_order_of_their_values():
    """What the native decoder leaves to the other one may be a row after all."""
    odd = [b'{"a":1,"d":Inf}', b'{"a":2,"d":1e400}', b'{"a":3,"x":1e-300}']
    values = [b'{"a":%d}' % (10 * i) if i % 3 else odd[i // 3 % 3] for i in range(60)]
    decoded = decode_with_all(SCHEMA, pa.array(values, pa.binary()))
    assert decoded.table["a"].to_pylist()[:4] == [1, 10, 20, 40]
    assert len(decoded.bad) == 7


def test_only_what_the_other_decoder_must_judge_is_given_to_it(monkeypatch):
    asked = []
    decode = JsonDecoder.decode

    def counted(self, values):
        asked.append(len(values))
        return decode(self, values)

    monkeypatch.setattr(JsonDecoder, "decode", counted)
    usual = [b'{"a":"x"}', b"", b"7", b'{"a":1', b'{"a":1.5}', b'{"a":}', b'{"a":1,"a":1}', b"\xff"]
    usual += [
        b'{"a":1,"d":1e400}',
        b'{"a":"one-way"}',
        b'{"a":1,"d":true}',
        b'{"a":"\\q"}',
        b'{"a":1,}',
    ]
    for decoder in other_decoders(SCHEMA):
        decoded = decoder.decode(pa.array([*usual, b'{"a":1,"d":Inf}'], pa.binary()))
        assert len(decoded.bad) == len(usual)
    assert set(asked) <= {1}


def test_broken_text_beside_a_map_is_not_given_to_the_other_decoder(monkeypatch):
    """A record that is asked about costs as much as fifty."""
    values = [
        b'{"a" 1}',
        b'{"a":1 "m":{}}',
        b'{"a":}',
        '{\n"é":1,\n"ü":{"x":tru}}'.encode(),
        b"{a:1}",
    ]
    values += [b'{"a":1,"a":1}', b'{"a":"x"}', b'{"m":7}', b'{"m":{"k":1,"k":1}}', b'{"a":[1 2]}']
    schema = parse_ddl("a BIGINT, m MAP<STRING, INT>")
    array = pa.array(values, pa.binary())
    expected = decode_with_all(schema, array)
    assert expected.bad[3].reason == "not-json: byte 20"
    monkeypatch.setattr(JsonDecoder, "decode", None)
    for decoder in other_decoders(schema):
        assert decoder.decode(array).bad == expected.bad


def test_what_a_reason_quotes_is_cut_where_all_decoders_cut_it():
    """Of each type that quotes values; between two letters, and also where more words follow."""
    schema = parse_ddl(
        "d DATE, t TIMESTAMP, n TIMESTAMP_NTZ, p DECIMAL(12,2), b BINARY, i INT, l BIGINT"
    )
    sizes = (1, 100, *range(120, 205, 5), 65_600)
    values = [
        f'{{"{name}":"{letter * size}"}}'
        for size in sizes
        for letter in "xé漢😀"
        for name in "dtnpb"
    ]
    values += [f'{{"{name}":{"9" * min(size, 299)}}}' for size in sizes for name in "il"]
    found = decode_with_all(schema, pa.array(values, pa.large_string()).cast(pa.large_binary())).bad
    assert len(found) > len(values) - 20  # some of `b` are base64
    assert max(len(row.reason) for row in found) == 200


def test_reasons_that_quote_the_same_differ_by_what_is_said_of_it():
    schema = parse_ddl("i INT, l BIGINT, d DATE, t TIMESTAMP")
    number, text = "9" * 20, '"x"'
    values = [f'{{"{name}":{number}}}' for name in "il"] + [f'{{"{name}":{text}}}' for name in "dt"]
    found = decode_with_all(schema, pa.array(values, pa.large_string()).cast(pa.large_binary())).bad
    assert len({row.reason for row in found}) == len(values)


def test_what_is_said_of_many_names_the_column_and_the_kind_of_each():
    schema = parse_ddl("a BIGINT, b BIGINT, c STRING")
    others = [("a", ['"x"', "[]", "{}", "true"]), ("b", ['"x"', "[]"]), ("c", ["1", "[]"])]
    values = [f'{{"{name}":{other}}}' for name, kinds in others for other in kinds]
    values += [f'{{"{name}":null,"{name}":null}}' for name in "abc"]
    found = decode_with_all(schema, pa.array(values * 2, pa.binary())).bad
    assert len({row.reason for row in found}) == len(values)


def test_a_mistake_in_the_module_is_an_error_with_a_sentence():
    for decoder in other_decoders(SCHEMA):
        with pytest.raises(TypeError, match="binary"):
            decoder.decode(pa.array([1, 2]))


@pytest.mark.skipif(not IS_NATIVE, reason="needs the native module")
def test_an_array_of_the_module_is_taken_once():
    """So that the memory of a batch is the one's who took it."""
    import ashore_native  # noqa: PLC0415 - it may not be there

    schema = JsonDecoder(SCHEMA).schema
    values = pa.array([b'{"a":1}', b'{"a":2}'], pa.binary())
    (block,) = ashore_native.JsonDecoder(schema).decode(values).blocks

    assert pa.record_batch(block).num_rows == 2
    with pytest.raises(ValueError, match="taken before"):
        pa.record_batch(block)
