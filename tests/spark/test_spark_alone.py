"""Spark's own comparison of a query with its state: of one that has not changed it refuses none."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened
from tests.spark.migrations import Changed
from tests.spark.programs import Use, conf, contents

from ashore.base.clock import SystemClock
from ashore.queries.spark.internals.planning import check_state
from ashore.queries.state.checkpoint import open_directory
from ashore.queries.state.layout import STATE, Settings
from ashore.queries.state.outline import copy_outline

PAIRED = (
    "SELECT a.k, a.v, b.w FROM clicks a {} views b ON a.k = b.k "
    "AND b.ts BETWEEN a.ts AND a.ts + INTERVAL 1 HOUR"
)
QUERIES = {
    "an interval join": PAIRED.format("JOIN"),
    "an outer join": PAIRED.format("LEFT JOIN"),
    "a filter above a join": PAIRED.format("JOIN") + " WHERE a.v > 3 AND b.w < 900",
    "groups": "SELECT window(ts, '1 hour') AS w, k, sum(v) AS s FROM clicks GROUP BY 1, 2",
}


@pytest.mark.parametrize("case", QUERIES)
def test_spark_accepts_the_state_of_a_query_that_has_not_changed(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    use(conf())
    program = Changed(spark, tmp_path / "program", "append")
    program.put(30)
    program.run(QUERIES[case], tmp_path / "old")
    assert ask(program, QUERIES[case], tmp_path) == ""


def test_spark_refuses_the_state_of_another_join(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use(conf())
    program = Changed(spark, tmp_path / "program", "append")
    program.put(30)
    program.run(QUERIES["an interval join"], tmp_path / "old")
    before = contents(tmp_path / "old")
    other = QUERIES["an interval join"].replace("b.w", "b.d")
    assert ask(program, other, tmp_path).startswith("STATE_STORE_VALUE_SCHEMA")
    assert contents(tmp_path / "old") == before


def ask(program: Changed, sql: str, home: Path) -> str:
    """Return the error of Spark's comparison, on a copy."""
    old, copy = opened(home / "old"), open_directory(f"{home}/outline/copy", SystemClock())
    batch = copy_outline(old, copy)
    copy.plan(batch + 1, old.read_offsets(batch))
    settings = old.read_offsets(batch).settings or Settings()
    return check_state(program.frame(sql), program.mode, f"{copy.uri}/{STATE}", batch + 1, settings)
