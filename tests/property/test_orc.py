"""ORC files hold what they were given, however the pieces that come are cut."""

import io
from datetime import date

import pyarrow as pa
import pyarrow.orc as po
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from ashore.topics.decode.registry import open_encoder

LEAVES = {
    pa.int64(): st.integers(0, 99),
    pa.string(): st.sampled_from(["", "é", "ab"]),
    pa.bool_(): st.booleans(),
    pa.date32(): st.just(date(2026, 11, 21)),
    pa.binary(): st.just(b"\0"),
}


leaves = st.sampled_from(list(LEAVES))


def structs(kinds):
    names = st.sampled_from(["x", "y", "z"])
    parts = st.lists(st.tuples(names, kinds), min_size=1, max_size=2, unique_by=lambda f: f[0])
    return parts.map(pa.struct)


def inside(kinds):
    maps = kinds.map(lambda kind: pa.map_(pa.string(), kind))
    return structs(kinds) | structs(kinds) | kinds.map(pa.list_) | maps


types = structs(leaves | inside(leaves | structs(leaves))) | inside(leaves | structs(leaves))


def values(kind):
    """Return a strategy for values of a type, null among them."""
    if pa.types.is_struct(kind):
        whole = st.fixed_dictionaries({field.name: values(field.type) for field in kind})
    elif pa.types.is_map(kind):
        pairs = st.tuples(st.sampled_from("abc"), values(kind.item_type))
        whole = st.lists(pairs, max_size=2, unique_by=lambda pair: pair[0])
    elif pa.types.is_list(kind):
        whole = st.lists(values(kind.value_type), max_size=2)
    else:
        whole = LEAVES[kind]
    return st.none() | whole


@settings(deadline=None, max_examples=examples(60))
@given(st.data(), types)
def test_a_slice_is_written_as_it_is(data, kind):
    column = pa.array(data.draw(st.lists(values(kind), min_size=4, max_size=8)), kind)
    schema = pa.schema([("a", kind)])
    file, wanted = io.BytesIO(), []
    encoder = open_encoder("orc", file, schema)
    for start in range(len(column)):
        pieces = [column.slice(start, 3), column.slice(start)][: data.draw(st.integers(1, 2))]
        table = pa.table([pa.chunked_array(pieces)], schema=schema)
        encoder.write(table)
        wanted += table["a"].to_pylist()
    encoder.close({})
    assert po.read_table(io.BytesIO(file.getvalue()))["a"].to_pylist() == wanted
