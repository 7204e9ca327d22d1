"""Checkpoints whose query reads other sources: what Spark makes of the offsets that are written.

A query reads the first half of its topics and is migrated; another one reads the rest. What the
state holds stays, so where the verdict promises it the result is that of the new SQL over all.
"""

import json
import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from tests.checkpoint_files import opened
from tests.kafka_tools import create_topic, produce

from ashore.log.entries import Join, Joined
from ashore.log.entries.slices import fold_join
from ashore.log.fold import EMPTY, Fold
from ashore.log.names import SliceName, query_source
from ashore.log.plan_query import QueryBatch, WriteRows, plan_query_batch
from ashore.log.positions import ShardKey
from ashore.log.query import QueryState
from ashore.plans.change.judge import judge_query
from ashore.plans.change.verdicts import QueryVerdict, StateVerdict
from ashore.plans.graph import StoredPlan
from ashore.queries.spark.internals.reading import read_plan
from ashore.queries.spark.sql.batches import plan_ranges
from ashore.queries.state.checkpoint import Checkpoint, copy_renamed
from ashore.queries.state.layout import BatchLog, BatchPath, HiddenPath, SourcePath
from ashore.queries.state.source_changes import Firsts, SourcesPlan, lay_out_sources, plan_sources
from ashore_lab.services.kafka import Kafka

NAME = SliceName("job", "ods__result")
HALVES = {"a": (6, 9), "b": (4, 3), "c": (5, 7)}  # records of each topic, before and after
COUNTRIES = ("DE", "CN", "IS")
Row = tuple[str, int]  # country, id

A, B, C = (f"SELECT country, id FROM {each}" for each in "abc")
COUNT = "SELECT country, count(*) AS n, sum(id) AS s FROM ({}) GROUP BY country"
JOINED = "SELECT l.country, l.id FROM a l JOIN b r ON l.id = r.id"


@dataclass(frozen=True, slots=True)
class Case:
    """A change, and what is counted after it.

    Arguments:
        old: SQL.
        new: SQL.
        verdict: on it.
        read: topics that the old query has read, and those that the new one reads after it.
        begins: offsets from which topics are read that are new.

    """

    old: str
    new: str
    verdict: StateVerdict
    read: tuple[str, str]
    begins: Mapping[str, int] = field(default_factory=dict)


CONVERT, PARTIAL, LOST = StateVerdict.CONVERT, StateVerdict.PARTIAL, StateVerdict.LOST
FULL = StateVerdict.FULL
CASES = {
    "a member for another, and places": Case(
        COUNT.format(f"{A} UNION ALL {B}"),
        COUNT.format(f"{C} UNION ALL {A}"),
        LOST,
        ("ab", "ca"),
    ),
    "places exchanged": Case(
        COUNT.format(f"{A} UNION ALL {B}"),
        COUNT.format(f"{B} UNION ALL {A}"),
        CONVERT,
        ("ab", "ba"),
    ),
    "places exchanged without state": Case(
        f"{A} UNION ALL {B}", f"{B} UNION ALL {A}", CONVERT, ("ab", "ba")
    ),
    "a member more, in front": Case(
        COUNT.format(f"{A} UNION ALL {B}"),
        COUNT.format(f"{C} UNION ALL {A} UNION ALL {B}"),
        PARTIAL,
        ("ab", "cab"),
    ),
    "a member more, from an offset": Case(
        COUNT.format(A),
        COUNT.format(f"{C} UNION ALL {A}"),
        PARTIAL,
        ("a", "ca"),
        {"c": 3},
    ),
    "a member less": Case(COUNT.format(f"{A} UNION ALL {B}"), COUNT.format(B), LOST, ("ab", "b")),
    "a topic more in a source, from an offset": Case(
        COUNT.format(A), COUNT.format("SELECT country, id FROM ac"), FULL, ("a", "ac"), {"c": 3}
    ),
    "a topic less in a source": Case(
        COUNT.format("SELECT country, id FROM ac"), COUNT.format(A), LOST, ("ac", "a")
    ),
    "a stream before a join": Case(JOINED, f"{C} UNION ALL {JOINED}", PARTIAL, ("ab", "cab")),
}
EVERY_DAY = {"a member for another, and places"}


class Topics:
    """Topics of one test, and views of them."""

    def __init__(self, spark: SparkSession, kafka: Kafka) -> None:
        self.session, self._servers = spark.newSession(), kafka.bootstrap_servers
        self.session.conf.set("spark.sql.shuffle.partitions", "2")
        self._ids = Counter[str]()
        unique = uuid.uuid4().hex[:8]
        self.names = {each: f"{each}-{unique}" for each in HALVES}
        for name in self.names.values():
            create_topic(self._servers, name)

    def produce(self, half: int) -> None:
        """Produce one half of the records of each topic."""
        for topic, name in self.names.items():
            count = HALVES[topic][half]
            rows = self.rows(topic, self._ids[topic], count)
            values = (json.dumps({"country": country, "id": id_}) for country, id_ in rows)
            produce(self._servers, name, [each.encode() for each in values])
            self._ids[topic] += count

    @staticmethod
    def rows(topic: str, first: int, count: int) -> list[Row]:
        """Return records of a topic, from an offset on. Those of `a` and `b` have ids in common."""
        start = 1000 if topic == "c" else 0
        return [(COUNTRIES[at % 3], start + at) for at in range(first, first + count)]

    def expected(self, case: Case) -> list[Row]:
        """Return what both queries together have read, once each."""
        before, after = case.read
        found: list[Row] = []
        for topic, (early, late) in HALVES.items():
            begin = 0 if topic in before else case.begins.get(topic, 0)
            if topic in before + after:
                end = early + late if topic in after else early
                found += self.rows(topic, begin, end - begin)
        return found

    def frame(self, sql: str, *, is_strict: bool = True) -> DataFrame:
        """Return what SQL selects of the topics, each from its beginning."""
        for view in ("a", "b", "c", "ac"):
            stream = self.session.readStream.format("kafka").options(
                **{"kafka.bootstrap.servers": self._servers, "startingOffsets": "earliest"},
                subscribe=",".join(self.names[each] for each in view),
                failOnDataLoss=str(is_strict).lower(),
            )
            value = "from_json(CAST(value AS STRING), 'country STRING, id BIGINT') AS record"
            frame = stream.load().selectExpr(value).select("record.*")
            frame.createOrReplaceTempView(view)
        return self.session.sql(sql)


def run(frame: DataFrame, checkpoint: Path) -> list[tuple[object, ...]]:
    """Run a query over what is there, and return what it emits."""
    emitted: list[tuple[object, ...]] = []

    def collect(rows: DataFrame, _batch: int) -> None:
        emitted.extend(tuple(each) for each in rows.collect())

    mode = "update" if "n" in frame.columns else "append"
    writer = frame.writeStream.outputMode(mode).foreachBatch(collect)
    writer = writer.option("checkpointLocation", checkpoint.as_uri())
    writer.trigger(availableNow=True).start().awaitTermination()
    return emitted


def judge(topics: Topics, old: str, new: str) -> QueryVerdict:
    before, after = (
        StoredPlan("one", (each,), (), read_plan(topics.frame(each))) for each in (old, new)
    )
    return judge_query(before, after)


def log_of(checkpoint: Checkpoint) -> Fold:
    """Return the fold of a log that has all batches of a checkpoint."""
    position = checkpoint.read_position()
    nexts = {
        ShardKey(query_source(NAME), topic, 1, shard): offset
        for topics in checkpoint.read_ends(position.committed).values()
        for topic, shards in topics.items()
        for shard, offset in shards.items()
    }
    joined = tuple(Joined(key, "id", 0, "earliest") for key in nexts)
    shards = {
        key: replace(state, next=nexts[key])
        for key, state in fold_join(EMPTY, Join(joined), 0)["shards"].items()
    }
    query = QueryState(position.query_id or "", position.committed, "0" * 64, "1" * 64)
    return Fold(shards=shards, query=query)


def migrate(old: Checkpoint, new: Checkpoint, found: QueryVerdict, firsts: Firsts) -> SourcesPlan:
    """Lay a checkpoint out for the new query. Its state is taken as it is."""
    plan = plan_sources(old, NAME, log_of(old), found.sources, firsts)
    written = {BatchPath(BatchLog.OFFSETS, each) for each in plan.offsets}
    kept = [
        each
        for each in old.list_files()
        if each.of not in written and not isinstance(each.of, SourcePath | HiddenPath)
    ]
    copy_renamed(old, new, [(each, each.path) for each in kept])
    lay_out_sources(old, new, plan)
    return plan


def require_continued(old: Checkpoint, new: Checkpoint, firsts: Firsts) -> None:
    """Require that the log takes the batch after the migration: no gap, nothing read twice."""
    fold = log_of(old)
    joined = [
        Joined(ShardKey(query_source(NAME), topic, 1, shard), "id", offset, "checkpoint")
        for topic, shards in firsts.items()
        for shard, offset in shards.items()
    ]
    fold = replace(fold, shards=fold_join(fold, Join(tuple(joined)), 0)["shards"])
    done = old.read_position().committed
    ranges = plan_ranges(NAME, fold, new.read_ends(done), new.read_ends(done + 1))
    assert ranges
    query_id = new.read_query_id() or ""
    assert isinstance(
        plan_query_batch(fold, QueryBatch(query_id, done + 1, "plan", ranges)), WriteRows
    )


def totals(emitted: list[tuple[object, ...]]) -> dict[object, tuple[object, ...]]:
    """Return the last row of each key."""
    return {each[0]: each[1:] for each in emitted}


@pytest.mark.parametrize(
    "name",
    [each if each in EVERY_DAY else pytest.param(each, marks=pytest.mark.long) for each in CASES],
)
def test_nothing_is_read_twice_and_nothing_skipped(
    spark: SparkSession, kafka: Kafka, tmp_path: Path, name: str
) -> None:
    case, topics = CASES[name], Topics(spark, kafka)
    old, new = tmp_path / "old", tmp_path / "new"
    topics.produce(0)
    emitted = run(topics.frame(case.old), old)
    found = judge(topics, case.old, case.new)
    assert found.verdict is case.verdict
    firsts = {topics.names[topic]: {"0": offset} for topic, offset in case.begins.items()}
    plan = migrate(opened(old), opened(new), found, firsts)
    assert plan.begins == firsts
    topics.produce(1)

    emitted += run(topics.frame(case.new), new)

    require_continued(opened(old), opened(new), firsts)
    rows = topics.expected(case)
    if "JOIN" in case.new:
        ids = {at for _, at in topics.rows("b", 0, sum(HALVES["b"]))}
        rows = [each for each in rows if each[1] in ids or each[1] >= 1000]
        rows = [*dict.fromkeys(rows)]
    if "count(" not in case.new:
        assert sorted(emitted) == sorted(rows)
    else:
        counts = Counter(country for country, _ in rows)
        sums = {each: sum(id_ for country, id_ in rows if country == each) for each in counts}
        assert totals(emitted) == {each: (counts[each], sums[each]) for each in counts}


def test_spark_alone_reads_all_again_or_fails(
    spark: SparkSession, kafka: Kafka, tmp_path: Path
) -> None:
    """It gives each source the offsets of the other, of a topic that it does not read."""
    topics, checkpoint = Topics(spark, kafka), tmp_path / "checkpoint"
    topics.produce(0)
    case = CASES["places exchanged without state"]
    read = run(topics.frame(case.old), checkpoint)
    assert len(read) == HALVES["a"][0] + HALVES["b"][0]
    topics.produce(1)
    with pytest.raises(StreamingQueryException, match="may have been lost"):
        run(topics.frame(case.new), checkpoint)
    again = run(topics.frame(case.new, is_strict=False), checkpoint)
    assert len(again) == sum(HALVES["a"]) + sum(HALVES["b"])
