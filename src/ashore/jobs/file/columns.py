"""Columns as checks of the job file need to know them.

What it is: `Column`, and the way from a name in the job file to one.
What it promises: pure; a column whose own name has a dot is found before a field of a struct.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_WALL_TIME = re.compile(r"\bTIMESTAMP_NTZ\b(?!:)")  # a field of a struct may be called so
_OF_PARTITIONS = {"STRING", "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "DATE", "DECIMAL"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a schema, or a field of a struct.

    Arguments:
        name: its own.
        type: as DDL.
        is_time: whether values of this type are times, or numbers that may count time.
        fields: what a struct holds.
        has_text_keys: whether all maps in it have STRING keys, as those of JSON have.

    """

    name: str
    type: str
    is_time: bool
    fields: tuple["Column", ...] = ()
    has_text_keys: bool = True

    @property
    def has_wall_time(self) -> bool:
        """Whether it is, or holds, a time without a zone."""
        return _WALL_TIME.search(self.type) is not None

    @property
    def can_partition(self) -> bool:
        """Whether its values can be directories of a table."""
        return self.type.partition("(")[0] in _OF_PARTITIONS


def find_column(columns: Sequence[Column], path: str) -> Column | None:
    """Return the column that is called `path`, or the field there, as `meta.producer.ts`."""
    for column in columns:
        if column.name == path:
            return column
        inner = path.removeprefix(f"{column.name}.")
        found = find_column(column.fields, inner) if inner != path else None
        if found is not None:
            return found
    return None


def list_times(columns: Sequence[Column], above: str = "") -> Iterator[str]:
    """Yield the paths of all columns that may be times."""
    for column in columns:
        if column.is_time:
            yield above + column.name
        yield from list_times(column.fields, f"{above}{column.name}.")
