"""Times that are written as texts, read a column at a time.

What it is: `text_millis`, from a column of texts to milliseconds since 1970 UTC.
What it promises: a text is a date that the calendar has, in the format as a whole, or it is no
time: null, never another one. A text that tells no zone is UTC. Digits below a millisecond are cut,
which is towards the past.
What it must not know: tables, what becomes of a record without a time.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ashore.base.time_format import TimeFormat


def text_millis(texts: pa.StringArray, form: TimeFormat) -> pa.Int64Array:
    """Return the times in ms since 1970 UTC, null where a text is none."""
    found = pc.extract_regex(texts, form.pattern)

    def part(name: str, default: str) -> np.ndarray:
        if name not in form.parts:
            return np.full(len(texts), int(default), np.int64)
        written = pc.fill_null(pc.struct_field(found, name), default)
        written = pc.if_else(pc.equal(written, ""), default, written)
        return np.asarray(written.cast(pa.int64()))

    year, month, day = part("year", "1970"), part("month", "1"), part("day", "1")
    clock_s = (part("hour", "0") * 60 + part("minute", "0")) * 60 + part("second", "0")
    zone_s = (part("zh", "0") * 60 + part("zm", "0")) * 60
    millis = (_days(year, month, day) * 86_400 + clock_s) * 1_000
    millis += _fraction_ms(found, form) - np.where(_is_west(found, form), -zone_s, zone_s) * 1_000
    is_time = np.asarray(found.is_valid()) & (year >= 1) & (month >= 1) & (month <= 12)
    is_time &= (day >= 1) & (day <= _month_days(year, month))
    return pa.array(millis, pa.int64(), mask=~is_time)


def _fraction_ms(found: pa.StructArray, form: TimeFormat) -> np.ndarray:
    if "fraction" not in form.parts:
        return np.zeros(len(found), np.int64)
    digits = pc.fill_null(pc.struct_field(found, "fraction"), "")
    padded = pc.utf8_slice_codeunits(pc.utf8_rpad(digits, 3, "0"), 0, 3)
    return np.asarray(padded.cast(pa.int64()))


def _is_west(found: pa.StructArray, form: TimeFormat) -> np.ndarray:
    if "sign" not in form.parts:
        return np.zeros(len(found), np.bool_)
    return np.asarray(pc.fill_null(pc.equal(pc.struct_field(found, "sign"), "-"), False))


def _month_days(year: np.ndarray, month: np.ndarray) -> np.ndarray:
    days = np.array([31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31])
    is_leap = (year % 4 == 0) & ((year % 100 != 0) | (year % 400 == 0))
    found: np.ndarray = days[np.clip(month, 1, 12) - 1] + (is_leap & (month == 2))
    return found


def _days(year: np.ndarray, month: np.ndarray, day: np.ndarray) -> np.ndarray:
    """Return days since 1970-01-01; years begin in March, so that a leap day is their last."""
    shifted = year - (month <= 2)
    in_year = (153 * ((month + 9) % 12) + 2) // 5 + day - 1
    leap_days = shifted // 4 - shifted // 100 + shifted // 400
    found: np.ndarray = shifted * 365 + leap_days + in_year - 719_468
    return found
