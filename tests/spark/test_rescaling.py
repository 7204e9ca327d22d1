"""State in another number of partitions: the query goes on as if nothing had happened."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - Spark's own convention
from tests.checkpoint_files import opened, unpack
from tests.marks import but
from tests.plain_spark import CASES, feed_again, run

from ashore.checkpoints.layout import OperatorFile
from ashore.checkpoints.rescaling import finish, lay_out, plan_rescale
from ashore.checkpoints.survey import take_survey
from ashore.spark.sql.settings import CHANGELOG, FORMAT, JOIN_FORMAT, PROVIDER, ROCKSDB
from ashore.spark.state.rescaling import Cut, rescale

PARTITIONS = "spark.sql.shuffle.partitions"
Rows = list[tuple[int, list[str]]]


def clicks(spark: SparkSession, directory: Path) -> DataFrame:
    stream = spark.readStream.schema("k INT, v BIGINT, ts TIMESTAMP")
    return stream.option("maxFilesPerTrigger", 1).json(str(directory)).withWatermark("ts", "1 hour")


def joined(stream: DataFrame, other: DataFrame, how: str) -> DataFrame:
    condition = "a.k = b.k AND a.v = b.v AND a.ts = b.ts"
    both = stream.alias("a").join(other.alias("b"), F.expr(condition), how)
    return both.selectExpr("a.k", "a.v", "b.v AS w")


QUERIES: dict[str, tuple[str, Callable[[DataFrame, DataFrame], DataFrame]]] = {
    "aggregate": ("update", lambda s, _: s.groupBy("k").agg(F.sum("v"), F.count("*"))),
    "total": ("update", lambda s, _: s.agg(F.sum("v"), F.count("*"))),
    "window": ("update", lambda s, _: s.groupBy(F.window("ts", "5 minutes"), "k").agg(F.avg("v"))),
    "session window": (
        "append",
        lambda s, _: s.groupBy(F.session_window("ts", "1 minute"), "k").count(),
    ),
    "distinct": ("append", lambda s, _: s.dropDuplicates(["k"])),
    "distinct within watermark": ("append", lambda s, _: s.dropDuplicatesWithinWatermark(["k"])),
    "inner join": ("append", lambda s, o: joined(s, o, "inner")),
    "outer join": ("append", lambda s, o: joined(s, o, "leftOuter")),
    "two operators": ("update", lambda s, _: s.dropDuplicates(["k", "v"]).groupBy("k").count()),
}


class Program:
    """A query of plain Spark, and what it handed to its sink."""

    def __init__(self, spark: SparkSession, home: Path, kind: str) -> None:
        self.spark, self.home, self.kind = spark, home, kind
        self._files = 0
        (home / "in").mkdir(parents=True)

    def put(self, count: int = 100) -> None:
        first = self._files * count
        lines = [
            json.dumps({"k": n % 250, "v": n, "ts": f"2026-01-01T{n // 60:02}:{n % 60:02}:00Z"})
            for n in range(first, first + count)
        ]
        (self.home / "in" / f"{self._files}.json").write_text("\n".join(lines), "utf-8")
        self._files += 1

    def run(self, checkpoint: Path) -> Rows:
        mode, make = QUERIES[self.kind]
        frame = make(clicks(self.spark, self.home / "in"), clicks(self.spark, self.home / "in"))
        found: Rows = []

        def take(rows: DataFrame, batch: int) -> None:
            found.append((batch, sorted(str(tuple(row)) for row in rows.collect())))

        writer = frame.writeStream.outputMode(mode).option("checkpointLocation", str(checkpoint))
        writer.trigger(availableNow=True).foreachBatch(take).start().awaitTermination()
        return found


Use = Callable[[dict[str, str]], None]


@pytest.fixture
def use(spark: SparkSession) -> Iterator[Use]:
    """Set settings of the session, until the test ends."""
    before: dict[str, str | None] = {}

    def set_all(wanted: dict[str, str]) -> None:
        for name, value in wanted.items():
            before.setdefault(name, spark.conf.get(name, None))
            spark.conf.set(name, value)

    yield set_all
    for name, value in before.items():
        if value is None:
            spark.conf.unset(name)
        else:
            spark.conf.set(name, value)


def conf(state_format: int = 1, join: int = 3, partitions: int = 2) -> dict[str, str]:
    return {
        PROVIDER: ROCKSDB,
        CHANGELOG: "true",
        FORMAT: str(state_format),
        JOIN_FORMAT: str(join),
        PARTITIONS: str(partitions),
    }


def rescaled(spark: SparkSession, source: Path, wanted: int) -> Path:
    """Do what `ashore checkpoint rescale` does, with the Spark of this process."""
    target = source.with_name(f"{source.name}-{wanted}")
    old, new = opened(source), opened(target)
    plan = plan_rescale(old, wanted)
    lay_out(old, new, plan)
    done = rescale(spark, old, new, Cut(plan.batch, wanted), lambda _event: None)
    assert sum(each.rows for each in done.stores) > 0
    finish(old, new)
    return target


def at_home(root: Path) -> Path:
    """Let operators name the schemas of their state where they are."""
    for path in root.glob("state/*/_metadata/v2/[0-9]*"):
        path.with_name(f".{path.name}.crc").unlink()
        says = OperatorFile.parse(path.read_bytes(), str(path))
        path.write_bytes(
            says.move(lambda place: f"file:{root}/state/{place.partition('/state/')[2]}").write()
        )
    return root


def contents(directory: Path) -> dict[str, bytes]:
    files = (each for each in directory.rglob("*") if each.is_file())
    return {str(each.relative_to(directory)): each.read_bytes() for each in files}


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


KEPT = {"rocksdb-changelog": 1, "rocksdb": 1, "no-keys": 1, "named-sources": 1}
KEPT |= {"format-2": 2, "join-2": 1, "join-3": 1}


@pytest.mark.parametrize(
    "case", but(pytest.mark.long, [*KEPT], lambda case: case in {"join-3", "no-keys", "format-2"})
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
