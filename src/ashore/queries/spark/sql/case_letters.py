"""Dead letters in a test case: those that its records become, and those that are expected.

What it is: `CaseLetter`; `land_letters`, the records of a topic that its table would not take; and
`letter_problems`, what differs from the dead letters that a case expects.
What it promises: the topic's own decoding and checks, as where it lands. No file is written.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyspark.sql import SparkSession

from ashore.jobs.file.cases import Expected, GivenBatch
from ashore.log.batch_time import BatchTime
from ashore.log.files import Role
from ashore.log.names import SliceName
from ashore.log.positions import ShardKey
from ashore.queries.spark.sql.case_source import SOURCE, list_ranges, open_ranges, write_batches
from ashore.queries.spark.sql.row_comparison import SHOWN_MAX
from ashore.queries.spark.sql.views import View
from ashore.topics.loop.assembly import JobAssembly
from ashore.topics.loop.job import MAIN
from ashore.topics.run.spark.reader import decode_records, record_columns
from ashore.topics.write.batch import BatchOrder
from ashore.topics.write.data_file import OffsetRun
from ashore.topics.write.runs import split_shards
from ashore.topics.write.sorting import TopicSorter
from ashore.topics.write.specs import LandingSpec


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


def land_letters(
    session: SparkSession,
    assembly: JobAssembly,
    view: View,
    given: Sequence[GivenBatch],
    directory: Path,
) -> list[CaseLetter]:
    """Return the records that become dead letters of the table in which they land.

    The lake of the job is not touched. `directory`: does not exist yet, for the records.
    Raises JobFileInvalid, PySparkException.
    """
    spec = assembly.refine(view.spec)
    write_batches(directory, view, given)
    ranges = [each for batch in list_ranges(given) for each in batch]
    records = open_ranges(session, directory, ranges).coalesce(1)
    records = records.select(*record_columns(spec))
    if spec.is_decoded_by_spark:
        records = decode_records(records, spec)
    order = BatchOrder(
        lake=assembly.environment.lake,
        name=SliceName(assembly.job.job, MAIN),
        epoch=1,
        batch=0,
        time=BatchTime(time.time_ns() // 1_000_000),
        ranges=tuple(ranges),
        tables=tuple((topic, spec) for topic in view.topics),
    )
    batches = records.toArrow().combine_chunks().to_batches()
    return sorted(letter for batch in batches for letter in _sort(order, spec, batch))


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
