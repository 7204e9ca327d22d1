"""State that is rewritten wrongly is found before it counts: each check, seen to refuse."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.checkpoint_files import opened
from tests.marks import but
from tests.spark.migrations import Changed
from tests.spark.programs import Use, conf, contents

from ashore.errors import CheckpointUnfit
from ashore.plans.change.rewriting import OperatorRewrite
from ashore.queries.spark.state import (
    new_rows,
    rewrite,
)

SUMS = "SELECT k, s, sum(v) AS sv, avg(d) AS a, min(w) AS lo FROM clicks GROUP BY k, s"
MOVED = (
    "SELECT k, s, min(w) AS lo, count(*) AS n, sum(v) AS sv, avg(d) AS a FROM clicks GROUP BY k, s"
)
MERGED = "SELECT k, sum(v) AS sv, avg(d) AS a, min(w) AS lo FROM clicks GROUP BY k"
Recode = Callable[..., DataFrame]


def with_value(place: int, change: Callable[[F.Column], F.Column]) -> Recode:
    """Return a rewriting that writes one of the values otherwise."""
    rule = new_rows._with_values

    def wrong(rows: DataFrame, form: object, rewrite: OperatorRewrite, keys: object) -> DataFrame:
        made = rule(rows, form, rewrite, keys)
        return made.withColumn(f"v{place}", change(F.col(f"v{place}")))

    return wrong


def merged_with(place: int) -> Callable[..., DataFrame]:
    """Return a merging that gets one of the values wrong."""
    rule = new_rows._merged
    name = f"v{place}"
    return lambda *given: rule(*given).withColumn(name, F.col(name) + 1)


def in_other_partitions(rows: DataFrame, partitions: int) -> DataFrame:
    return rows.repartition(partitions, F.col("partition_key"), F.lit(1))


def in_too_few(rows: DataFrame, partitions: int) -> DataFrame:
    return rows.repartition(partitions - 1, "partition_key")


@dataclass(frozen=True)
class Wrong:
    """A rewriting that is wrong: of which SQL, what is replaced, and what is said."""

    new: str
    owner: object
    name: str
    wrong: Callable[..., object]
    why: str
    said: str


CASES = {
    "a value": Wrong(
        *(MOVED, new_rows, "_with_values", with_value(2, lambda each: each + 1)),
        *("sample_differs", r"operator 0, key \{.*\}: value 3 is .*, expected "),
    ),
    "a new value": Wrong(
        *(MOVED, new_rows, "_with_values", with_value(1, lambda each: each + 1)),
        *("sample_differs", "value 2 is .*1.*, expected .*0"),
    ),
    "a merged value": Wrong(
        *(MERGED, new_rows, "_merged", merged_with(0)),
        *("sample_differs", "value 1 is .*, expected "),
    ),
    "a merged mean": Wrong(
        *(MERGED, new_rows, "_merged", merged_with(2)),
        *("sample_differs", "value 3 is .*, expected "),
    ),
    "partitions": Wrong(
        *(MOVED, new_rows, "deal_out", in_other_partitions),
        *("misplaced", "operator 0, default: the key .* is in another partition"),
    ),
    "a number of partitions": Wrong(
        *(MOVED, new_rows, "deal_out", in_too_few),
        *("misplaced|rows_differ|missing|not_loaded", "nothing was changed"),
    ),
}
EVERYDAY = {"a value", "a merged value", "partitions"}


@pytest.fixture(scope="module")
def program(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Changed:
    """Run the old SQL, over a stream that all tests share: they only read its checkpoint."""
    session = spark.newSession()
    for name, value in conf().items():
        session.conf.set(name, value)
    program = Changed(session, tmp_path_factory.mktemp("program"))
    program.put()
    program.run(SUMS, program.home / "old")
    return program


@pytest.mark.parametrize("case", but(pytest.mark.long, CASES, EVERYDAY.__contains__))
def test_a_wrong_rewriting_is_refused(
    program: Changed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: str
) -> None:
    wrong = CASES[case]
    before = contents(program.home / "old")
    monkeypatch.setattr(wrong.owner, wrong.name, wrong.wrong)
    with pytest.raises(CheckpointUnfit, match=wrong.said) as refused:
        program.migrate(SUMS, wrong.new, program.home / "old", tmp_path / "new")
    assert refused.value.fields["why"] in wrong.why.split("|")
    assert "nothing was changed" in refused.value.message
    assert contents(program.home / "old") == before


def test_a_wrong_column_of_rows_that_wait_is_refused(
    spark: SparkSession, use: Use, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(conf())
    pairs = "SELECT a.v, b.v AS other{} FROM clicks a JOIN views b ON a.k = b.k"
    program = Changed(spark, tmp_path / "program", "append")
    program.put(20)
    program.run(pairs.format(""), tmp_path / "old")
    monkeypatch.setattr(new_rows, "_with_values", with_value(1, lambda each: each + 1))
    with pytest.raises(CheckpointUnfit, match=r"value 2 is .*, expected ") as refused:
        program.migrate(pairs.format(""), pairs.format(", b.w"), tmp_path / "old", tmp_path / "new")
    assert refused.value.fields["why"] == "sample_differs"


def test_a_store_that_is_not_there_is_refused(
    program: Changed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    compare = rewrite._Migrator._compare

    def after_loss(migrator: rewrite._Migrator, written: object) -> object:
        yield from compare(migrator, written)
        target = opened(tmp_path / "new")
        target.delete_all("state/0/1")

    monkeypatch.setattr(rewrite._Migrator, "_compare", after_loss)
    with pytest.raises(CheckpointUnfit, match=r"operator 0|state/0/1"):
        program.migrate(SUMS, MOVED, program.home / "old", tmp_path / "new")


def test_nothing_of_the_verification_is_left(program: Changed, tmp_path: Path) -> None:
    program.migrate(SUMS, MOVED, program.home / "old", tmp_path / "new")
    assert sorted(each.name for each in (tmp_path / "new").iterdir()) == [
        *("commits", "metadata", "offsets", "sources", "state")
    ]
