"""Partition directories as Hive names them.

What it is: escaping, and paths such as `date=2026-11-21/hour=08`.
What it promises: what Hive's FileUtils and Spark escape is escaped the same way, and
`parse_partition_path` gives back what `partition_path` was given.
"""

import re
from collections.abc import Sequence

DEFAULT_PARTITION = "__HIVE_DEFAULT_PARTITION__"  # null, and the empty string
NAME_BYTES_MAX = 255  # what file systems take as one name

# Control characters, DEL, and what means something in a path, a URI or a glob.
_ESCAPED = re.compile(r"""[\x00-\x1f\x7f"#%'*/:=?\\{\[\]^]""")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")


def escape(text: str) -> str:
    """Return a name or a value as Hive writes it in a path: `a/b` becomes `a%2Fb`."""
    return _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", text)


def unescape(text: str) -> str:
    """Return what `escape` was given. A `%` that begins no escape stays."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_path(columns: Sequence[str], values: Sequence[str]) -> str:
    """Return the directory of a partition, relative to its table; no columns: the empty path."""
    pairs = zip(columns, values, strict=True)
    return "/".join(f"{escape(column)}={escape(value)}" for column, value in pairs)


def partition_values(
    columns: tuple[str, ...], values: tuple[str, ...]
) -> tuple[tuple[str, str | None], ...]:
    """Return columns with their values; null is what stands for it in a path."""
    return tuple(
        (column, None if value == DEFAULT_PARTITION else value)
        for column, value in zip(columns, values, strict=True)
    )


def parse_partition_path(path: str) -> list[tuple[str, str]]:
    """Return the columns and values of a partition's directory. Raises ValueError."""
    pairs = []
    for part in path.split("/") if path else ():
        name, equals, value = part.partition("=")
        if not (name and equals and value):
            raise ValueError(f"{path!r} is not a partition: {part!r} is not column=value")
        pairs.append((unescape(name), unescape(value)))
    return pairs


def fits_path(column: str, value: str) -> bool:
    """Whether a partition value can be the name of a directory."""
    return len(partition_path([column], [value]).encode()) <= NAME_BYTES_MAX
