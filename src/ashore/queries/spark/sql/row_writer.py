"""Rows of a query into files: one Spark action, and what its tasks report.

What it promises: each task has reported once what it did, or nothing is returned.
"""

import functools

from pyspark.sql import DataFrame

from ashore.queries.spark.internals import count_partitions
from ashore.topics.run.spark.task import RESULT_DDL, land_rows, read_row
from ashore.topics.write.batch import RowsOrder, TaskResult, check_tasks


def land_frame(frame: DataFrame, order: RowsOrder) -> DataFrame:
    """Return a lazy frame whose tasks write the rows of a batch."""
    return frame.mapInArrow(functools.partial(land_rows, order), RESULT_DDL)


def run_tasks(frame: DataFrame) -> list[TaskResult]:
    """Run the tasks of such a frame and return what each did. Raises BatchFailed, BadRecord."""
    results = [read_row(row.is_error, bytes(row.content)) for row in frame.collect()]
    check_tasks(results, count_partitions(frame))
    return results
