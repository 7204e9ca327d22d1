"""The times of rows, read from the column that says when they happened, whatever its type.

What it promises: a field of a struct that is null is null; a column whose own name has a dot is
found before a field. What cannot be a time is refused before a row is read.
What it must not know: buckets, lateness.
"""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import parse_time_format
from ashore.routing.event_columns import EventColumn
from ashore.routing.event_time import event_millis, is_event_time
from ashore.routing.time_text import text_millis


def check_event_column(event: EventColumn, schema: pa.Schema) -> None:
    """Raise ValueError where rows of this schema do not say their time there."""
    names = find_path(schema, event.path)
    if not names:
        raise ValueError(f"there is no column {event.path} for the event time")
    found: pa.DataType = schema.field(names[0]).type
    for name in names[1:]:
        found = found.field(name).type
    is_text = pa.types.is_string(found)
    if is_text and event.format:
        parse_time_format(event.format)
    elif is_text or event.format or not is_event_time(found):
        raise ValueError(f"column {event.path} cannot be a time: it is {found}")


def read_event_times(event: EventColumn, table: pa.Table) -> pa.Int64Array:
    """Return the event time of each row in ms, null where there is none."""
    first, *below = find_path(table.schema, event.path)
    column = table.column(first).combine_chunks()
    for name in below:
        column = pc.struct_field(column, name)
    if pa.types.is_string(column.type):
        return event_millis(text_millis(column, parse_time_format(event.format)), "ms")
    return event_millis(column, event.unit)


def find_path(schema: pa.Schema | pa.StructType, path: str) -> list[str]:
    """Return the names that lead to a column or a field; empty: there is none."""
    fields: Sequence[pa.Field] = list(schema)
    for field in fields:
        if field.name == path:
            return [field.name]
    for field in fields:
        below = path.removeprefix(f"{field.name}.")
        if below != path and pa.types.is_struct(field.type):
            found = find_path(field.type, below)
            if found:
                return [field.name, *found]
    return []
