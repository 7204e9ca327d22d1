"""Schemas of state stores, written as those of values that may all be NULL."""

import struct
from dataclasses import replace
from pathlib import Path

import pytest
from tests.checkpoint_files import list_paths, unpack

from ashore.errors import CheckpointUnfit
from ashore.queries.state.layout import SchemaField, StoreSchema, parse_schemas, with_nulls

NESTED = (
    '{{"type":"struct","fields":[{{"name":"w","type":{{"type":"struct","fields":[{{"name":"start",'
    '"type":"timestamp","nullable":{0},"metadata":{{"nullable":false}}}}]}},"nullable":{0},'
    '"metadata":{{}}}},{{"name":"ns\\u0000𝄞","type":{{"type":"array","elementType":"long",'
    '"containsNull":{0}}},"nullable":{0},"metadata":{{}}}}]}}'
)
JAVA = {"𝄞": b"\xed\xa0\xb4\xed\xb4\x9e", "\0": b"\xc0\x80"}


def long_text(text: str) -> bytes:
    data = text.encode()
    for one, written in JAVA.items():
        data = data.replace(one.encode(), written)
    return struct.pack(">iH", 1, len(data)) + data


@pytest.mark.parametrize("case", ["rocksdb-changelog", "join-3"])
def test_schemas_of_spark_keep_all_but_what_may_be_null(case: str, tmp_path: Path) -> None:
    root = unpack(case, tmp_path)
    paths = [each for each in list_paths(root) if not Path(each).name.startswith(".")]
    found = [root / each for each in paths if "schema" in each.lower()]
    assert found
    for each in found:
        data = each.read_bytes()
        loose = with_nulls(data, "file")
        assert parse_schemas(loose, "file") == tuple(map(with_null_fields, parse_schemas(data, "")))
        assert with_nulls(loose, "file") == loose
        same = data.replace(b'"nullable":false', b'"nullable":true')
        assert len(loose) == len(same)


def with_null_fields(schema: StoreSchema) -> StoreSchema:
    key, value = (
        tuple(replace(each, is_nullable=True) for each in some)
        for some in (schema.key, schema.value)
    )
    return StoreSchema(schema.family, key, value)


def test_what_is_inside_of_a_value_may_be_null_too() -> None:
    """Metadata of a column stay as they are, and so do strings as Java writes them."""
    strict, loose = (b"\0\x02v2" + 2 * long_text(NESTED.format(text)) for text in ("false", "true"))
    assert with_nulls(strict, "file") == loose
    assert parse_schemas(loose, "file")[0].key == (
        SchemaField("w", "struct<start: timestamp>", is_nullable=True),
        SchemaField("ns\0𝄞", "array<long>", is_nullable=True),
    )


def test_a_schema_that_is_too_long_for_one_string_is_cut() -> None:
    text = NESTED.format("true").replace("𝄞", "𝄞" * 30_000).replace("\\u0000", "")
    parts = [text[at : at + 5_000] for at in range(0, len(text), 5_000)]
    written = b"".join(long_text(each)[4:] for each in parts)
    data = b"\0\x02v2" + 2 * (struct.pack(">i", len(parts)) + written)
    assert parse_schemas(with_nulls(data, "file"), "file") == parse_schemas(data, "file")


def test_schemas_of_old_releases_stay_and_others_are_refused() -> None:
    text = NESTED.format("false").replace("𝄞", "").replace("\\u0000", "")
    old = b"\0\x02v1" + 2 * long_text(text)[4:]
    assert with_nulls(old, "file") == old
    with pytest.raises(CheckpointUnfit):
        with_nulls(b"\0\x02v9", "file")
