"""Errors that a row is to blame for: SQL cannot compute a value of it.

What it is: `find_row_error`, from what Spark says to the class of the error, a sentence and what to
write instead.
What it promises: pure. Only classes that stand here are the data's; anything else may pass, and the
batch is run again.
"""

import re
from dataclasses import dataclass

_CASTS = "`try_cast(x AS TYPE)` is NULL where the cast fails"
_SUMS = (
    "`try_add`, `try_subtract`, `try_multiply` and `try_sum` are NULL on overflow; or cast to a "
    "wider type first, such as DECIMAL(38, 0)"
)
_DIVISIONS = "`try_divide(a, b)` and `try_mod(a, b)` are NULL where b is 0"
_TIMES = (
    "`try_to_timestamp`, `try_to_date` and `try_make_timestamp` are NULL where the value is not a "
    "time"
)
_ITEMS = "`get(array, index)` and `try_element_at(array, index)` are NULL where there is no element"
_KEYS = "leave such rows out: `WHERE key IS NOT NULL`, or keep one of the keys"
_RAISED = "the SQL raises it itself: `raise_error` or `assert_true`"
_BYTES = "`try_to_binary` and `try_parse_url` are NULL where the string is not valid"

# Spark's conditions: data exceptions (the SQL standard's class 22), a key that is there twice, and
# what the SQL raises itself.
ROW_ERRORS = {
    "ARITHMETIC_OVERFLOW": _SUMS,
    "BINARY_ARITHMETIC_OVERFLOW": _SUMS,
    "CANNOT_PARSE_TIMESTAMP": _TIMES,
    "CAST_INVALID_INPUT": _CASTS,
    "CAST_OVERFLOW": _CASTS,
    "CONVERSION_INVALID_INPUT": _BYTES,
    "DATETIME_FIELD_OUT_OF_BOUNDS": _TIMES,
    "DATETIME_OVERFLOW": _TIMES,
    "DIVIDE_BY_ZERO": _DIVISIONS,
    "DUPLICATED_MAP_KEY": _KEYS,
    "INTERVAL_ARITHMETIC_OVERFLOW": _SUMS,
    "INTERVAL_DIVIDED_BY_ZERO": _DIVISIONS,
    "INVALID_ARRAY_INDEX": _ITEMS,
    "INVALID_ARRAY_INDEX_IN_ELEMENT_AT": _ITEMS,
    "INVALID_FRACTION_OF_SECOND": _TIMES,
    "INVALID_INDEX_OF_ZERO": _ITEMS,
    "INVALID_URL": _BYTES,
    "NULL_MAP_KEY": _KEYS,
    "NUMERIC_VALUE_OUT_OF_RANGE": _CASTS,
    "REMAINDER_BY_ZERO": _DIVISIONS,
    "USER_RAISED_EXCEPTION": _RAISED,
}
_TEXT_LENGTH_MAX = 300
# One may name another in the same line.
_CONDITION = re.compile(r"\[([A-Z][A-Z0-9_]*(?:\.[A-Z][A-Z0-9_]*)*)\] (?=([^\n]*))")
_PLACE = re.compile(
    r"== SQL(?: of VIEW (?P<view>\S+))?[^\n]*\(line (?P<line>\d+), position (?P<column>\d+)\) ==\n"
    r"(?P<text>[^\n]*)\n(?P<before> *)(?P<marks>\^+)"
)


@dataclass(frozen=True, slots=True)
class RowError:
    """Why a row cannot be computed."""

    condition: str  # Spark's class of the error
    sentence: str  # what Spark says, without its advice
    part: str  # of the SQL; empty where it is not known
    advice: str  # what to write instead
    view: str = ""  # whose SELECT line and column are of
    line: int = 0  # of the text that Spark was given, from 1; 0 where it is not known
    column: int = 0


def find_row_error(text: str) -> RowError | None:
    """Return why a row cannot be computed; None: nothing in `text` says that a row is to blame."""
    for found in _CONDITION.finditer(text):
        condition = _known(found[1])
        if condition is not None:
            sentence, advice = _first_sentence(found[2]), ROW_ERRORS[condition]
            place = _PLACE.search(text, found.end())
            if place is None:
                return RowError(found[1], sentence, "", advice)
            start = len(place["before"])
            part = place["text"][start : start + len(place["marks"])]
            line, column = int(place["line"]), int(place["column"])
            return RowError(found[1], sentence, part, advice, place["view"] or "", line, column)
    return None


def _known(condition: str) -> str | None:
    if condition in ROW_ERRORS:
        return condition
    main = condition.partition(".")[0]
    return main if main in ROW_ERRORS else None


def _first_sentence(text: str) -> str:
    """Return what happened. A value may hold a dot: a sentence ends before a capital letter."""
    message = text.partition(" SQLSTATE:")[0]
    return re.split(r"\.\s+(?=[A-Z])", message)[0].rstrip(". ")[:_TEXT_LENGTH_MAX]
