"""What a test case expects, compared with the rows and the dead letters that it gives.

What it is: rows as the text of JSON objects, by the types of the query's columns, and what differs;
`CaseLetter`; `land_letters`, the records of a topic that its table would not take.
What it promises: what does not fit the type of its column is reported, and never taken for NULL.
Dead letters are by the topic's own decoding and checks, as where it lands. No file is written.
"""

import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from pyspark.sql.types import StructType

from ashore.jobs.file.cases import Expected, GivenBatch
from ashore.log.files import Role
from ashore.log.names import SliceName
from ashore.log.positions import BatchTime, ShardKey
from ashore.queries.spark.sql.case_source import SOURCE, list_ranges, open_ranges, write_batches
from ashore.queries.spark.sql.topics import JSON_OPTIONS, quoted
from ashore.queries.spark.sql.views import View
from ashore.topics.loop.assembly import JobAssembly
from ashore.topics.loop.job import MAIN
from ashore.topics.run.spark.causes import outermost_cause, text_of
from ashore.topics.run.spark.reader import select_decoded
from ashore.topics.run.spark.source.record_schema import REASON
from ashore.topics.write.batch import BatchOrder, LandingSpec
from ashore.topics.write.data_files import OffsetRun
from ashore.topics.write.runs import split_shards
from ashore.topics.write.sorting import TopicSorter

SHOWN_MAX = 10
_UNFIT = re.compile(r"\[CANNOT_PARSE_JSON_FIELD\] ([^\n]*?)\.? SQLSTATE")


def rows_as_text(names: Sequence[str]) -> Column:
    """Return columns of a frame as one: the text of a JSON object."""
    columns = [F.col(quoted(name)) for name in names]
    return F.to_json(F.struct(*columns), JSON_OPTIONS) if columns else F.lit("")


class RowsUnfit(ValueError):
    """Rows of a file cannot be rows of these columns."""


def read_case_rows(
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
    found = spark.createDataFrame(read_case_rows(spark, schema, rows), schema)
    return [str(row[0]) for row in found.select(rows_as_text(schema.names)).collect()]


def differences(expected: Counter[str], found: Counter[str]) -> Iterator[str]:
    """Yield rows that are missing, then those that are not expected, each as often as it is."""
    missing, more = sorted((expected - found).elements()), sorted((found - expected).elements())
    for text, rows in (("missing", missing), ("not expected", more)):
        yield from (f"{text}: {row}" for row in rows[:SHOWN_MAX])
        if len(rows) > SHOWN_MAX:
            yield f"{text}: {len(rows) - SHOWN_MAX} more rows"


# ---- dead letters


@dataclass(frozen=True, slots=True, order=True)
class CaseLetter:
    """A record that becomes a dead letter, and why."""

    topic: str
    partition: int
    offset: int
    reason: str

    @property
    def record(self) -> str:
        """The record, as messages name it."""
        return f"{self.topic}/{self.partition}/{self.offset}"


def read_case_letters(
    session: SparkSession,
    assembly: JobAssembly,
    view: View,
    batches: Sequence[GivenBatch],
    directory: Path,
) -> list[CaseLetter]:
    """Return the records that become dead letters of the table in which they land.

    The lake of the job is not touched. `directory`: does not exist yet, for the records.
    Raises JobFileInvalid, PySparkException.
    """
    spec = assembly.refine(view.spec)
    write_batches(directory, view, batches)
    ranges = [each for batch in list_ranges(batches) for each in batch]
    records = open_ranges(session, directory, view, ranges).coalesce(1)
    if spec.is_selected:
        records = select_decoded(records, spec, REASON)
    order = BatchOrder(
        lake=assembly.environment.lake,
        name=SliceName(assembly.job.job, MAIN),
        epoch=1,
        batch=0,
        time=BatchTime(time.time_ns() // 1_000_000),
        ranges=tuple(ranges),
        tables=tuple((topic, spec) for topic in view.topics),
    )
    read = records.toArrow().combine_chunks().to_batches()
    return sorted(letter for batch in read for letter in _sort(order, spec, batch))


def _sort(order: BatchOrder, spec: LandingSpec, batch: pa.RecordBatch) -> Iterator[CaseLetter]:
    sorter = TopicSorter(order, spec)
    for number, run in enumerate(split_shards(batch)):
        (partition,) = run.partitions
        key = ShardKey(SOURCE, run.topic, 1, str(partition))
        for sorted_rows in sorter.sort(run, [OffsetRun(number, number, key)]).rows:
            if sorted_rows.target.role is Role.DEAD:
                for row in sorted_rows.rows.select(["offset", "reason"]).to_pylist():
                    yield CaseLetter(run.topic, partition, row["offset"], row["reason"])


def letter_problems(expected: Expected, found: Sequence[CaseLetter]) -> Iterator[str]:
    """Yield dead letters that are missing or not expected; none: all is as expected.

    Without `dead_letters` none are expected.
    """
    left = {each.record: each for each in found}
    for dead_letter in expected.dead_letters or ():
        record = f"{dead_letter.topic}/{dead_letter.partition}/{dead_letter.offset}"
        letter = left.pop(record, None)
        if letter is None:
            yield f"{expected.table}: dead letter missing: {record}"
        elif dead_letter.reason not in letter.reason:
            yield (
                f"{expected.table}: dead letter {record} has another reason: {letter.reason}; "
                f"expected: {dead_letter.reason}"
            )
    more = list(left.values())
    for each in more[:SHOWN_MAX]:
        yield f"{expected.table}: dead letter not expected: {each.record}: {each.reason}"
    if len(more) > SHOWN_MAX:
        yield f"{expected.table}: dead letter not expected: {len(more) - SHOWN_MAX} more records"
