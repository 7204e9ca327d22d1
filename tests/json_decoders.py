"""Every decoder for JSON that this machine has: one answer, or a test fails."""

import shutil

import pyarrow as pa

from ashore.base.native import why_not_native
from ashore.tables.ddl import Schema
from ashore.topics.decode.decode import Decoded, Decoder
from ashore.topics.decode.json import SAMPLE_ROWS, JsonDecoder, NativeJsonDecoder

IS_NATIVE = not why_not_native()


def other_decoders(schema: Schema, *, takes_whole: bool = False) -> list[Decoder]:
    """Return the decoders beside JsonDecoder. Where cargo is there, so is the native module."""
    assert IS_NATIVE or shutil.which("cargo") is None, why_not_native()
    if not IS_NATIVE:
        return []
    engines = (None, "scalar")
    return [NativeJsonDecoder(schema, each, takes_whole=takes_whole) for each in engines]


def decode_with_all(schema: Schema, values: pa.Array, *, takes_whole: bool = False) -> Decoded:
    """Return what JsonDecoder makes of values; every other decoder has made the same of them."""
    expected = JsonDecoder(schema, takes_whole=takes_whole).decode(values)
    for decoder in other_decoders(schema, takes_whole=takes_whole):
        for _ in range(2):  # it learns
            assert_same(decoder.decode(values), expected)
    return expected


def assert_same(found: Decoded, expected: Decoded) -> None:
    """Assert that two decoders agree, to the bit of a number and the letter of a reason."""
    found.table.validate(full=True)
    assert list(found.bad) == list(expected.bad)
    assert found.table.schema == expected.table.schema
    goods = [None if each.good is None else each.good.to_pylist() for each in (found, expected)]
    assert goods[0] == goods[1]
    # Not-a-number is no more equal to itself than -0.0 is different from 0.0: their texts are.
    assert repr(found.table.to_pylist()) == repr(expected.table.to_pylist())
    if expected.table.num_rows + len(expected.bad) <= SAMPLE_ROWS:
        assert found.unknown_records == expected.unknown_records
        assert found.unknown_names == expected.unknown_names
