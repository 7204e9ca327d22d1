"""State in another number of partitions: the query goes on as if nothing had happened."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.plain_spark import CASES, feed_again, run
from tests.spark.programs import QUERIES, Program, Use, conf, contents, rescaled

from ashore.queries.spark.sql.settings import FORMAT
from ashore.queries.state.layout import OperatorFile
from ashore.queries.state.survey import take_survey


def at_home(root: Path) -> Path:
    """Let operators name the schemas of their state where they are."""
    for path in root.glob("state/*/_metadata/v2/[0-9]*"):
        path.with_name(f".{path.name}.crc").unlink()
        says = OperatorFile.parse(path.read_bytes(), str(path))
        path.write_bytes(says.move_to(f"file://{root}").write())
    return root


def partitions_of(checkpoint: Path) -> set[str]:
    return {each.name for each in (checkpoint / "state" / "0").iterdir() if each.name.isdigit()}


FORMATS = [
    (kind, state_format, join)
    for kind in QUERIES
    for state_format in (1, 2)
    for join in ((2, 3) if "join" in kind else (3,))
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "state_format", "join"), FORMATS)
def test_a_rescaled_query_goes_on_as_the_old_one_would(
    spark: SparkSession, use: Use, tmp_path: Path, kind: str, state_format: int, join: int
) -> None:
    use(conf(state_format, join))
    program = Program(spark, tmp_path / "program", kind)
    program.put()
    program.put()
    program.run(tmp_path / "old")

    up = rescaled(spark, tmp_path / "old", 5)
    down = rescaled(spark, up, 1)

    program.put()
    expected = program.run(tmp_path / "old")
    assert any(rows for _, rows in expected), "nothing came of the state"
    assert program.run(up) == expected
    assert program.run(down) == expected


KEPT = {"rocksdb-changelog": 1, "rocksdb": 1, "no-keys": 1}
KEPT |= {"format-2": 2, "join-2": 1, "join-3": 1}


@pytest.mark.parametrize(
    "case", but(pytest.mark.long, [*KEPT], lambda case: case in {"join-3", "no-keys"})
)
def test_a_checkpoint_of_plain_spark_is_rescaled(
    spark: SparkSession, use: Use, tmp_path: Path, case: str
) -> None:
    use({FORMAT: str(KEPT[case])})
    old = at_home(unpack(case, tmp_path / "whole"))
    before = contents(old)

    up = rescaled(spark, old, 3)

    assert contents(old) == before, "the original was changed"
    has_keys = case != "no-keys"
    assert partitions_of(up) == ({"0", "1", "2"} if has_keys else {"0"})
    assert take_survey(opened(up)).required.offsets.settings.partitions == 3
    read = feed_again(old, tmp_path / "inputs")
    feed_again(up, tmp_path / "inputs")
    emitted = run(spark, CASES[case], up, tmp_path / "inputs")
    assert sorted(emitted) == sorted(run(spark, CASES[case], old, tmp_path / "inputs"))
    assert emitted
    assert read > 0


@pytest.mark.long
def test_state_of_a_program_of_its_own_is_rescaled(
    spark: SparkSession, use: Use, tmp_path: Path
) -> None:
    """Each variable of transformWithState, and what is to expire, has rows of its own to compare.

    The program itself needs protobuf, which is no package of Ashore: it does not go on here.
    """
    use({FORMAT: "1"})
    old = at_home(unpack("transform-with-state", tmp_path / "whole"))
    before = contents(old)

    up = rescaled(spark, old, 3)

    assert contents(old) == before, "the original was changed"
    assert partitions_of(up) == {"0", "1", "2"}
