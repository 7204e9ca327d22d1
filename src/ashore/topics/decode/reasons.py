"""Reasons of bad records: codes, and the words for them.

What it is: a reason is written `code` or `code: detail`. The detail has the path of the field, the
type of its column and the value, as far as they are known, or the place of the fault. Codes are for
queries and alerts; `describe` makes the sentence that people read, here and nowhere else.
What it promises: every decoder, the native one too, gives a record the same reason.
"""

REASON_CHARS_MAX = 200

EMPTY = "empty"
NOT_OBJECT = "not-object"
NOT_UTF8 = "not-utf8"
NOT_JSON = "not-json"
TOO_DEEP = "too-deep"
FIELD_TWICE = "field-twice"
KEY_TWICE = "key-twice"
WRONG_TYPE = "wrong-type"
NULL = "null"
NOT_INTEGER = "not-integer"
NUMBER_RANGE = "number-range"
NOT_DECIMAL = "not-decimal"
DECIMAL_DIGITS = "decimal-digits"
NOT_TIME = "not-time"
TIME_RANGE = "time-range"
NOT_BASE64 = "not-base64"
NOT_DECODED = "not-decoded"
UNWRITABLE_TIME = "unwritable-time"
UNNAMEABLE = "unnameable"
CRASH = "crash"
NOT_COMPUTED = "not-computed"
TOO_FAR = "too-far"

WORDS = {
    EMPTY: "the record has no value",
    NOT_OBJECT: "the value is not a JSON object",
    NOT_UTF8: "the value is not UTF-8",
    NOT_JSON: "the value is not JSON",
    TOO_DEEP: "the value is nested too deep",
    FIELD_TWICE: "a field is there twice",
    KEY_TWICE: "a key of a MAP is there twice",
    WRONG_TYPE: "a value has another type than its column",
    NULL: "a NOT NULL column has no value",
    NOT_INTEGER: "a number is not an integer",
    NUMBER_RANGE: "a number is out of the range of its column",
    NOT_DECIMAL: "a text is not a number",
    DECIMAL_DIGITS: "a number has too many digits after the point",
    NOT_TIME: "a text is not a date or time of its column's type",
    TIME_RANGE: "a time is not within the years 1 to 9999, in UTC",
    NOT_BASE64: "a text is not base64",
    NOT_DECODED: "Spark cannot decode the value",
    UNWRITABLE_TIME: "the table's format cannot hold a time of the record",
    UNNAMEABLE: "a partition value is too long for the name of a directory",
    CRASH: "the record crashes the decoder",
    NOT_COMPUTED: "SQL cannot compute the record",
    TOO_FAR: "the event time is too far ahead (late.future_max)",
}


def write_reason(code: str, *detail: str) -> str:
    """Return a reason as dead letters have it."""
    found = " ".join(part for part in detail if part)
    return (f"{code}: {found}" if found else code)[:REASON_CHARS_MAX]


def code_of(reason: str) -> str:
    """Return the code of a reason; of one that an earlier release wrote, all of it."""
    code = reason.partition(":")[0]
    return code if code in WORDS else reason


def describe(reason: str) -> str:
    """Return a reason as a sentence for people."""
    code = code_of(reason)
    return WORDS[code] + reason.removeprefix(code) if code in WORDS else reason
