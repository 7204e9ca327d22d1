"""Partition transforms of Iceberg tables, as a job file and a log spell them: `day(ts)`.

What it is: `Transform`, its spelling, the name of its partition field, and the value that a text in
a path and in the log stands for.
What it promises: pure; `parse_transform(str(transform)) == transform`. A text gives back the one
value that it was made of, so that a commit needs the log alone. Transforms are those of
https://iceberg.apache.org/spec#partition-transforms; names of fields are as other writers choose.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Final

from ashore.tables.names import DEFAULT_PARTITION

TIMES: Final = ("year", "month", "day", "hour")
_WITH_NUMBER: Final = ("bucket", "truncate")
KINDS: Final = (*TIMES, *_WITH_NUMBER)
NUMBER_MAX: Final = (1 << 31) - 1

_DATES = frozenset({"DATE"})
_INSTANTS = frozenset({"TIMESTAMP", "TIMESTAMP_NTZ"})
_NUMBERS = frozenset({"TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"})
# The types of columns that each may have, as DDL.
SOURCES: Final = {
    **dict.fromkeys(("year", "month", "day"), _DATES | _INSTANTS),
    "hour": _INSTANTS,
    "bucket": _NUMBERS | _DATES | _INSTANTS | {"STRING", "BINARY"},
    "truncate": _NUMBERS | {"STRING"},
}

_SPELLING = re.compile(r"\s*(\w+)\s*\((?:\s*(\d{1,10})\s*,)?\s*([A-Za-z0-9]\w*)\s*\)\s*", re.ASCII)
_QUOTE = '"'
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Transform:
    """What rows are partitioned by: not a column, but something that is computed of it."""

    kind: str
    column: str
    number: int | None = None  # of buckets; the width of `truncate`

    def __str__(self) -> str:
        number = "" if self.number is None else f"{self.number}, "
        return f"{self.kind}({number}{self.column})"

    @property
    def iceberg(self) -> str:
        """The transform as the metadata of a table has it: `day`, `bucket[16]`."""
        return self.kind if self.number is None else f"{self.kind}[{self.number}]"

    @property
    def field(self) -> str:
        """The name of the partition field, which directories have too: `ts_day`."""
        return f"{self.column}_{'trunc' if self.kind == 'truncate' else self.kind}"

    @property
    def family(self) -> tuple[str, str]:
        """What a table may have once: of one column no two transforms to a time."""
        return self.column, "time" if self.kind in TIMES else self.kind


def parse_transform(text: str) -> Transform | None:
    """Return the transform that a text spells; None: it is the name of a column.

    Raises ValueError.
    """
    if not set("()") & set(text):
        return None
    found = _SPELLING.fullmatch(text)
    kind = found[1].lower() if found else ""
    if found is None or kind not in KINDS or (kind in _WITH_NUMBER) is not bool(found[2]):
        raise ValueError(f"{text!r} is not one of {', '.join(_examples())}")
    number = int(found[2]) if found[2] else None
    if number is not None and not 1 <= number <= NUMBER_MAX:
        raise ValueError(f"{kind} takes a number from 1 to {NUMBER_MAX}, not {number}")
    return Transform(kind, found[3], number)


def _examples() -> list[str]:
    return [f"{kind}({'N, ' if kind in _WITH_NUMBER else ''}COLUMN)" for kind in KINDS]


def find_transforms(partition_by: Sequence[str]) -> tuple[Transform, ...]:
    """Return the transforms among what a table is partitioned by."""
    return tuple(filter(None, map(parse_transform, partition_by)))


def partition_name(text: str) -> str:
    """Return the name that directories have of a column or of a transform."""
    transform = parse_transform(text)
    return transform.field if transform else text


def quote(text: str) -> str:
    """Return a string so that it is not empty, and not what stands for null in a path."""
    is_plain = text and text[0] != _QUOTE and text != DEFAULT_PARTITION
    return text if is_plain else _QUOTE + text


def read_value(transform: Transform, type_ddl: str, text: str) -> int | str | Decimal:
    """Return the value of a partition field, as the format stores it.

    Arguments:
        transform: of the field.
        type_ddl: the type of its column.
        text: the value in a path, unescaped, as `topics/route/transforms` wrote it.

    """
    match transform.kind:
        case "year":
            return int(text) - _EPOCH.year
        case "month":
            year, month = map(int, text.split("-"))
            return (year - _EPOCH.year) * 12 + month - 1
        case "day":
            return (date.fromisoformat(text) - _EPOCH_DAY).days
        case "hour":
            return (datetime.fromisoformat(f"{text}:00+00:00") - _EPOCH) // timedelta(hours=1)
        case "truncate" if type_ddl == "STRING":
            return text.removeprefix(_QUOTE)
        case "truncate" if type_ddl.startswith("DECIMAL"):
            return Decimal(text)
        case _:
            return int(text)
