"""Checkpoints of queries whose sources have names, and what the tools make of their state."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened
from tests.plain_spark import CASES, CHANGELOG, COUNTRIES, Case, Rows, feed, run
from tests.spark.programs import Use, contents, rescaled
from tests.spark.test_savepoints import silent

from ashore.base.clock import SystemClock
from ashore.log.plan_query import CheckpointPosition
from ashore.queries.spark.sql.settings import FORMAT
from ashore.queries.state.checkpoint import copy_checkpoint
from ashore.queries.state.layout import BatchLog
from ashore.queries.state.savepoints.save import open_shelf
from ashore.queries.state.survey import take_survey
from ashore.queries.tools.doctor import DoctorOptions, examine
from ashore.queries.tools.savepoints import restore_savepoint, take_savepoint

CLOCK = SystemClock()
NAMED = CASES["named-sources"]
FED = 3  # files of each source, a batch each


@pytest.mark.thirds("a job whose checkpoint is changed")
@pytest.mark.parametrize("state_format", [1, pytest.param(2, marks=pytest.mark.long)])
def test_sources_keep_their_names_in_whatever_is_made_of_a_checkpoint(
    spark: SparkSession, use: Use, tmp_path: Path, state_format: int
) -> None:
    """The last file is read once more after each tool: every copy has counted the same before."""
    use({FORMAT: str(state_format)})
    case = Case(
        NAMED.select,
        {**NAMED.settings, **CHANGELOG, FORMAT: str(state_format)},
        has_names=True,
    )
    inputs, checkpoint = tmp_path / "inputs", tmp_path / "checkpoint"
    for number in range(FED):
        feed(inputs, number, number)
        run(spark, case, checkpoint, inputs)
    before = contents(checkpoint)
    shelf = open_shelf(str(tmp_path / "shelf"), CLOCK, links=False)
    saved = take_savepoint(opened(checkpoint), None, shelf, CLOCK, silent).savepoint

    made = {name: tmp_path / name for name in ("restored", "back", "wider", "narrower")}
    restore_savepoint(saved, str(made["restored"]), CLOCK, silent, links=True)
    earlier = opened(checkpoint).list_finished()[-2]
    upto = CheckpointPosition(opened(checkpoint).read_query_id(), earlier, earlier)
    copy_checkpoint(opened(checkpoint), opened(made["back"]), upto)
    rescaled(spark, checkpoint, 5, made["wider"])
    rescaled(spark, made["wider"], 1, made["narrower"])
    assert contents(checkpoint) == before, "the original was changed"

    feed(inputs, FED, 0)
    for name, root in made.items():
        survey = take_survey(opened(root))
        names = {each.source for each in survey.required.offsets.sources}
        assert names == {"clicks", "views"}, name
        assert examine(DoctorOptions(str(root), None, None, None), CLOCK).findings == [], name
        emitted = run(spark, case, root, inputs)
        assert sorted(last_rows(emitted)) == [
            (each, 2 * (FED + 1)) for each in sorted(COUNTRIES)
        ], name
        assert opened(root).list_batches(BatchLog.COMMITS)


def last_rows(emitted: Rows) -> Rows:
    """Return what is counted of each country in the end."""
    return [*{row[0]: row for row in emitted}.values()]
