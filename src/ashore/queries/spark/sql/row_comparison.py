"""Rows that are expected, and rows that came, in one form.

What it is: both as the text of JSON objects, by the types of the query's columns.
What it promises: what does not fit the type of its column is reported, and never taken for NULL.
"""

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from ashore.queries.spark.sql.topics import JSON_OPTIONS, quoted
from ashore.topics.run.spark.causes import outermost_cause, text_of

SHOWN_MAX = 10
_UNFIT = re.compile(r"\[CANNOT_PARSE_JSON_FIELD\] ([^\n]*?)\.? SQLSTATE")


def rows_as_text(names: Sequence[str]) -> SparkColumn:
    """Return columns of a frame as one: the text of a JSON object."""
    columns = [F.col(quoted(name)) for name in names]
    return F.to_json(F.struct(*columns), JSON_OPTIONS) if columns else F.lit("")


class RowsUnfit(ValueError):
    """Rows of a file cannot be rows of these columns."""


def read_rows(
    spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]
) -> list[Row]:
    """Return rows of a file by the types of their columns. Raises RowsUnfit."""
    texts = [(json.dumps(row, ensure_ascii=False),) for row in rows]
    parsed = F.from_json("value", schema, {"mode": "FAILFAST"})
    try:
        frame = spark.createDataFrame(texts, "value STRING").select(parsed.alias("row"))
        found: list[Row] = frame.select("row.*").collect()
    except (PySparkException, Py4JError) as error:
        why = _UNFIT.search(text_of(error))
        raise RowsUnfit(why[1] if why else outermost_cause(error)) from error
    return found


def typed(spark: SparkSession, schema: StructType, rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return rows of a file as `rows_as_text` writes them. Raises RowsUnfit."""
    if not schema.fields:
        return []
    found = spark.createDataFrame(read_rows(spark, schema, rows), schema)
    return [str(row[0]) for row in found.select(rows_as_text(schema.names)).collect()]


def differences(expected: Counter[str], found: Counter[str]) -> Iterator[str]:
    """Yield rows that are missing, then those that are not expected, each as often as it is."""
    missing, more = sorted((expected - found).elements()), sorted((found - expected).elements())
    for text, rows in (("missing", missing), ("not expected", more)):
        yield from (f"{text}: {row}" for row in rows[:SHOWN_MAX])
        if len(rows) > SHOWN_MAX:
            yield f"{text}: {len(rows) - SHOWN_MAX} more rows"
