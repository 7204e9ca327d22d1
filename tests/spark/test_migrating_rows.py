"""Rows that a deduplication has seen, where it tells rows apart by fewer columns from now on."""

from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.checkpoint_files import opened
from tests.marks import but
from tests.spark.migrations import Changed
from tests.spark.programs import Use, conf

from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import StateVerdict
from ashore.queries.spark.internals.state import read_decoded
from ashore.queries.state.survey import take_survey


class Deduplicated(Changed):
    """`once ts, k`, or `within k`: rows whose columns were not seen before; `g` is new at times."""

    def frame(self, sql: str) -> DataFrame:
        how, _, names = sql.partition(" ")
        columns = names.split(", ")
        rows = super().frame("SELECT *, v DIV 50 AS g FROM clicks")
        apart = rows.dropDuplicates if how == "once" else rows.dropDuplicatesWithinWatermark
        return apart(columns).select(*columns)

    def state(self, checkpoint: Path) -> DataFrame:
        batch = opened(checkpoint).read_position().committed
        return read_decoded(self.spark, opened(checkpoint).uri, batch, 0, {})


REDUCED = {
    "a column less": ("once g, s, k", "once g", StateVerdict.CONVERT),
    "a column less beside event time": ("once ts, g, k", "once ts, g", StateVerdict.CONVERT),
    "event time less": ("once ts, g, k", "once g, k", StateVerdict.PARTIAL),
    "another order": ("once g, s", "once s, g", StateVerdict.CONVERT),
    "within the watermark": ("within g, s, k", "within g", StateVerdict.PARTIAL),
    "another order within the watermark": ("within g, s", "within s, g", StateVerdict.CONVERT),
}


EVERYDAY = {"event time less"}


@pytest.mark.thirds("a job whose checkpoint is changed")
@pytest.mark.parametrize("case", but(pytest.mark.long, [*REDUCED], EVERYDAY.__contains__))
def test_rows_that_were_seen_do_not_come_again(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    """Nothing that was seen is forgotten here: results are those of the new query, always."""
    use(conf())
    old, new, verdict = REDUCED[case]
    program = Deduplicated(spark, tmp_path / "program", "append")
    program.put(120)
    program.run(old, tmp_path / "old")
    assert judge_query(program.plan(old), program.plan(new)).verdict is verdict

    (moved,) = program.migrate(old, new, tmp_path / "old", tmp_path / "new").stores

    assert moved.before
    assert moved.after <= moved.before
    before = program.run(new, tmp_path / "until then")
    take_survey(opened(tmp_path / "new"))
    program.put(90)  # some of it was there: from minute 90 on
    emitted = program.run(new, tmp_path / "new")
    program.run(new, tmp_path / "until then")
    whole = program.run(new, tmp_path / "whole")
    assert emitted
    assert emitted == [row for row in whole if row not in before]


@pytest.mark.thirds("a job whose checkpoint is changed")
def test_rows_that_become_one_expire_with_the_last(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    use(conf())
    program = Deduplicated(spark, tmp_path / "program", "append")
    program.put(120)
    program.run("within g, s, k", tmp_path / "old")
    program.migrate("within g, s, k", "within g", tmp_path / "old", tmp_path / "new")
    was = program.state(tmp_path / "old").groupBy("key.g").agg(F.max("value.expiresAtMicros"))
    now = program.state(tmp_path / "new").select("key.g", "value.expiresAtMicros")
    assert sorted(now.collect()) == sorted(was.collect())
    assert now.count() == 3
