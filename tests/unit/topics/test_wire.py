import pyarrow as pa
import pytest

from ashore.tables.ddl import parse_ddl
from ashore.topics.decode.arrow_types import to_arrow
from ashore.topics.decode.wire import find_nulls, wire_schema

DDL = (
    "a INT, l ARRAY<STRUCT<x: INT NOT NULL>>, m MAP<STRING, STRUCT<x: INT NOT NULL>>, "
    "n MAP<STRING, ARRAY<STRUCT<x: INT NOT NULL>>>, s STRUCT<t: STRUCT<x: INT NOT NULL>>"
)
WHOLE, LACKING = {"x": 1}, {"x": None}
ROWS = [
    {},
    {"l": [WHOLE, None, LACKING]},
    {"m": [("k", None), ("l", WHOLE)]},
    {"m": [("k", LACKING)]},
    {"n": [("k", [WHOLE]), ("l", [WHOLE, LACKING])]},
    {"l": [], "m": [], "n": [("k", None)], "s": {"t": None}},
    {"s": {"t": LACKING}},
    {"s": {"t": WHOLE}, "l": [WHOLE]},
]
MISSING = [False, True, False, True, True, False, True, False]


def as_wire(row):
    """Maps are lists of entries there."""
    entries = {
        name: [{"key": key, "value": value} for key, value in row[name]]
        for name in ("m", "n")
        if name in row
    }
    return row | entries


def nullable(kind):
    """The type without its promises: what a row may break, a table must be able to hold."""
    if pa.types.is_struct(kind):
        return pa.struct([(part.name, nullable(part.type)) for part in kind])
    if pa.types.is_map(kind):
        return pa.map_(kind.key_type, nullable(kind.item_type))
    if pa.types.is_list(kind):
        return pa.list_(nullable(kind.value_type))
    return kind


@pytest.mark.parametrize("is_wire", [True, False])
@pytest.mark.parametrize("start", [0, 1, 4])
def test_not_null_is_found_at_any_depth(is_wire, start):
    ddl = parse_ddl(DDL)
    schema = wire_schema(ddl.fields) if is_wire else to_arrow(ddl)
    schema = pa.schema([(field.name, nullable(field.type)) for field in schema])
    rows = [as_wire(row) for row in ROWS] if is_wire else ROWS
    table = pa.Table.from_pylist(rows, schema=schema).slice(start)
    assert find_nulls(table, ddl).to_pylist() == MISSING[start:]


def test_whole_tables_cost_no_mask():
    ddl = parse_ddl("a INT NOT NULL, s STRUCT<x: INT>")
    table = pa.Table.from_pylist([{"a": 1, "s": LACKING}], schema=wire_schema(ddl.fields))
    assert find_nulls(table, ddl) is None
