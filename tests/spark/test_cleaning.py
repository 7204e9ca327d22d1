"""Plain Spark goes on from a checkpoint that was cleaned, as if nothing had been deleted."""

import shutil
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.plain_spark import CASES, feed_again, run
from tests.spark.test_savepoints import expected
from tests.unit.queries.test_garbage import clean, keep_last

from ashore.queries.state.survey import take_survey

EVERY_DAY = {("hdfs-backed", 1), ("join-3", 1)}
TRIED = [(case, kept) for case in CASES for kept in (1, 3)]


def with_garbage(root: Path, kept: int) -> Path:
    """Let a checkpoint forget batches, and lay into it what dead tasks and a rescale leave."""
    keep_last(root, kept)
    if (root / "state/0/1").exists():
        shutil.copytree(root / "state/0/1", root / "state/0/9")
        (root / "state/0/0/.7.delta.a-b.TID7.tmp").write_bytes(b"half")
        (root / "state/0/_stateSchema/default").mkdir(parents=True, exist_ok=True)
        (root / "state/0/_stateSchema/default/1_dead-1").write_bytes(b"nobody's")
    return root


@pytest.mark.parametrize(
    ("case", "kept"), but(pytest.mark.long, TRIED, lambda *each: each in EVERY_DAY)
)
def test_a_query_goes_on_after_its_checkpoint_was_cleaned(
    spark: SparkSession, case: str, kept: int, tmp_path: Path
) -> None:
    root = with_garbage(unpack(case, tmp_path), kept)
    read = feed_again(root, tmp_path / "inputs")
    last = take_survey(opened(root)).required.batch

    gone = clean(opened(root))

    assert gone
    assert not (root / "state/0/9").exists()
    assert ("state/0/_stateSchema/default/1_dead-1" in gone) == (case == "join-3")
    emitted = run(spark, CASES[case], root, tmp_path / "inputs")
    # Time alone makes batches too, which emit nothing.
    assert sorted(emitted) == sorted(expected(case, read))
    assert take_survey(opened(root)).done[-1] > last
