"""Numbers that no DOUBLE holds, which the parser below Arrow makes infinite.

What it is: what tells `1.8e308` from the bare word `Infinity`, where a column holds an infinity.
What it promises: only texts are touched that have such a number outside of their strings.
What it must not know: Arrow's parser; what else makes a record bad.
"""

import math
import re

import pyarrow as pa
import pyarrow.compute as pc

TOO_LARGE = "a number does not fit into DOUBLE"

_STRING_OR_NUMBER = re.compile(rb'"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*', re.DOTALL)


def count_infinite(column: pa.Array) -> int:
    """Return how many infinities a wire column holds, at any depth."""
    if pa.types.is_floating(column.type):
        return int(pc.sum(pc.is_inf(column)).as_py() or 0)
    if pa.types.is_struct(column.type):
        return sum(count_infinite(part) for part in column.flatten())
    if pa.types.is_list(column.type):
        return count_infinite(column.flatten())
    return 0


def without_too_large(text: bytes) -> bytes:
    """Return a JSON text with 0 for every number that no DOUBLE holds."""
    return _STRING_OR_NUMBER.sub(_shrink, text)


def _shrink(token: re.Match[bytes]) -> bytes:
    found = token[0]
    return found if found.startswith(b'"') or math.isfinite(float(found)) else b"0"
