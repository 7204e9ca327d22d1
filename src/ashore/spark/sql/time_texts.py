"""Times that are written as texts, in Spark.

What it is: `read_times`, what `routing.time_text` is for Arrow, as an expression of Spark.
What it promises: the same texts are times, and the same ones, as where they land; digits down to
microseconds are kept, as a timestamp holds them.
What it must not know: views, watermarks.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention

from ashore.base.time_format import TimeFormat

_MICROS_PER_SECOND = 1_000_000


def read_times(texts: Column, form: TimeFormat) -> Column:
    """Return the times of a column of texts as timestamps: null where a text is none."""

    def digits(part: str) -> Column:
        return F.regexp_extract(texts, form.unnamed, form.group_of(part))

    def number(part: str, default: int) -> Column:
        if not form.group_of(part):
            return F.lit(default)
        return F.when(digits(part) == "", F.lit(default)).otherwise(digits(part).try_cast("int"))

    date = (number("year", 1970), number("month", 1), number("day", 1))
    second = number("second", 0).cast("decimal(16,6)")
    clock = (number("hour", 0), number("minute", 0), second)
    time = F.try_make_timestamp(*date, *clock, F.lit("UTC"))
    micros = F.unix_micros(time)
    if form.group_of("fraction"):
        fraction = F.substring(F.rpad(digits("fraction"), 6, "0"), 1, 6)
        micros += F.when(digits("fraction") == "", F.lit(0)).otherwise(fraction.try_cast("int"))
    if form.group_of("sign"):
        zone_s = (number("zh", 0) * 60 + number("zm", 0)) * 60
        ahead = F.when(digits("sign") == "-", -zone_s).otherwise(zone_s)
        micros -= ahead.cast("bigint") * _MICROS_PER_SECOND
    return F.when(texts.rlike(form.unnamed), F.timestamp_micros(micros))
