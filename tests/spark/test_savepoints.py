"""Spark goes on from a savepoint: from the files that its batch needs, and from no others."""

import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.plain_spark import CASES, CHANGELOG, COUNTRIES, Case, Rows, feed, feed_again, run

from ashore.base.clock import SystemClock
from ashore.errors import CheckpointUnfit
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.inspect import inspect
from ashore.queries.tools.savepoints import restore_savepoint, take_savepoint

EVERY_DAY = {("rocksdb-changelog", 10), ("hdfs-backed", 7)}
# Batches in the middle: of snapshots alone, of changes alone, of both.
TRIED = [
    *[("rocksdb-changelog", 0), ("rocksdb-changelog", 10), ("rocksdb", 6), ("hdfs-backed", 7)],
    *[("format-2", 6), ("no-keys", 10), ("stateless", 3), ("named-sources", 4)],
    *[("join-2", 6), ("join-3", 6)],
]


def expected(case: str, read: int) -> Rows:
    """What a query emits that reads file 0 once more after `read` files."""
    minute = datetime(2026, 11, 21, 8, 0)  # noqa: DTZ001 - as Spark gives it to Python
    hour = (minute, datetime(2026, 11, 21, 9, 0))  # noqa: DTZ001 - as above
    match case:
        case "no-keys":
            return [(len(COUNTRIES) * (read + 1),)]
        case "stateless":
            return [(each,) for each in COUNTRIES]
        case "named-sources":
            return [(each, 2 * (read + 1)) for each in COUNTRIES]
        case "rocksdb-changelog":
            return [(hour, each, read + 1) for each in COUNTRIES]
        case "join-2" | "join-3":  # the new record of either side with the old one, and the new two
            return [(each, minute) for each in COUNTRIES for _pair in range(3)]
        case _:
            return [(each, read + 1) for each in COUNTRIES]


def silent(_done: int, _total: int) -> None:
    """Show no progress."""


@pytest.mark.parametrize(
    ("case", "batch"), but(pytest.mark.long, TRIED, lambda *each: each in EVERY_DAY)
)
def test_spark_goes_on_from_a_savepoint_when_all_else_is_deleted(
    spark: SparkSession, case: str, batch: int, tmp_path: Path
) -> None:
    whole, shelf, clock = unpack(case, tmp_path / "whole"), tmp_path / "savepoints", SystemClock()
    saved = take_savepoint(
        opened(whole), batch, open_shelf(str(shelf), clock, links=False), clock, silent
    )
    shutil.rmtree(whole)
    copy = tmp_path / "copy"
    restore_savepoint(saved.savepoint, str(copy), clock, silent, links=True)
    shutil.rmtree(shelf)
    read = feed_again(copy, tmp_path / "inputs")

    emitted = run(spark, CASES[case], copy, tmp_path / "inputs")

    # Time alone makes batches too, which emit nothing.
    assert sorted(emitted) == sorted(expected(case, read))
    assert take_survey(opened(copy)).done[-1] > batch


@pytest.mark.parametrize(
    "case", ["rocksdb-changelog", pytest.param("join-2", marks=pytest.mark.long)]
)
def test_inspect_counts_the_rows_that_spark_reads(
    spark: SparkSession, case: str, tmp_path: Path
) -> None:
    root = unpack(case, tmp_path)
    (operator,) = inspect(str(root), None, None, SystemClock()).operators
    session = spark.newSession()
    assert session.streams.active == []  # without this Spark has no coordinator of state stores
    reader = session.read.format("statestore").option("path", root.as_uri())
    known = [each for each in operator.parts if each.rows is not None]
    for part in known:
        rows = reader.option("storeName", part.store or "default").load()
        assert part.rows == rows.where(f"partition_id = {part.partition}").count()
    assert known


@pytest.mark.long
def test_savepoints_are_taken_beside_a_query_that_deletes_old_files(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Spark keeps two batches, so that files go while they are copied."""
    inputs, live, clock = tmp_path / "inputs", tmp_path / "live", SystemClock()
    for number in range(12):
        feed(inputs, number, number % 10)
    settings = {
        **CHANGELOG,
        "spark.sql.streaming.minBatchesToRetain": "2",
        "spark.sql.streaming.stateStore.minDeltasForSnapshot": "2",
    }
    case = Case("SELECT country, count(*) AS n FROM clicks GROUP BY country", settings)
    shelf, taken = open_shelf(str(tmp_path / "saved"), clock, links=True), []
    with ThreadPoolExecutor(1) as pool:
        running = pool.submit(run, spark, case, live, inputs)
        while not running.done():
            with suppress(CheckpointUnfit):  # before the first batch is done
                taken.append(take_savepoint(opened(live), None, shelf, clock, silent))
        running.result()
    batches = [each.manifest.batch for each in taken]
    assert len(set(batches)) > 3
    assert batches == sorted(batches)
    shutil.rmtree(live)
    chosen = taken[len(taken) // 2]
    restore_savepoint(chosen.savepoint, str(live), clock, silent, links=True)

    emitted = run(spark, case, live, inputs)

    assert {row for row in emitted if row[1] == 12} == {(each, 12) for each in COUNTRIES}
