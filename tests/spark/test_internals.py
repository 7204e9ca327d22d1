"""What Ashore relies on inside Spark: fails on a Spark that nobody has looked into."""

import ast
import re
from pathlib import Path

import pyspark
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.spark.streams import CLICKS, NOWHERE, make_views, topic_view

import ashore
from ashore.errors import SparkUnknown
from ashore.plans.operators import OperatorKind, StatefulOperator
from ashore.plans.operators import describe_operators as describe_graph
from ashore.queries.spark.internals.reading import check_streaming, read_plan, read_sources
from ashore.topics.run.spark.internals import jvm
from ashore.topics.run.spark.internals.spark_version import (
    KNOWN_SPARKS,
    refuse_unknown,
    require_known_spark,
)

PARTITIONS = 4  # of the session that tests share
CODE = Path(ashore.__file__).parent
# PySpark's private members that lead into the JVM.
WAYS_IN = {
    "_gateway", "_gateway_client", "_javaAccumulator", "_jc", "_jdf", "_jrdd", "_jreader", "_jsc",
    "_jsparkSession", "_jvm", "_jwrite", "_python_includes",
}  # fmt: skip


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


# --- the version ---------------------------------------------------------------------------------


def test_the_installed_spark_is_known(spark: SparkSession) -> None:
    assert spark.version == pyspark.__version__
    assert spark.version in KNOWN_SPARKS, (
        f"Spark {spark.version}: look through every failure of this file, mend "
        "ashore/queries/spark/internals, and only then add the version to KNOWN_SPARKS"
    )
    require_known_spark(spark)


@pytest.mark.parametrize("version", ["4.1.0", "4.2.1", "4.2.0-preview1", "5.0.0", ""])
def test_another_spark_is_refused_in_words(version: str) -> None:
    with pytest.raises(SparkUnknown) as caught:
        refuse_unknown(version)
    assert version in caught.value.message
    assert KNOWN_SPARKS[0] in caught.value.hint
    assert caught.value.exit_code == 7


# --- signatures ----------------------------------------------------------------------------------


DECLARED = {
    name: value for name, value in vars(jvm).items() if isinstance(value, jvm.Method | jvm.Static)
}


def java_class(spark: SparkSession, name: str) -> object:
    return spark._jvm.java.lang.Class.forName(name)


def signatures(owner: object, name: str) -> set[tuple[str, tuple[str, ...], bool]]:
    """Return what the JVM has: result, parameters, and whether it is static, of each overload."""
    is_constructor = name == "<init>"
    found = owner.getConstructors() if is_constructor else owner.getMethods()
    return {
        (
            owner.getName() if is_constructor else each.getReturnType().getName(),
            tuple(parameter.getName() for parameter in each.getParameterTypes()),
            is_constructor or bool(each.getModifiers() & 8),
        )
        for each in found
        if is_constructor or each.getName() == name
    }


@pytest.mark.parametrize("name", DECLARED)
def test_the_jvm_has_what_is_declared(spark: SparkSession, name: str) -> None:
    call = DECLARED[name]
    found = signatures(java_class(spark, call.owner), call.name)
    wanted = (call.returns, call.parameters, isinstance(call, jvm.Static))
    assert wanted in found, f"{name}: Spark {spark.version} has {sorted(found)}"


def test_only_declared_calls_reach_the_jvm() -> None:
    """All of Ashore goes through `jvm`: PySpark's private members stand nowhere else."""
    places = set()
    for path in CODE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            is_private = isinstance(node, ast.Attribute) and node.attr in WAYS_IN
            if is_private and path != Path(jvm.__file__):
                places.add(path.name)
    assert places == set()


def test_every_declared_call_is_used() -> None:
    text = "".join(path.read_text("utf-8") for path in CODE.rglob("internals/*.py"))
    assert [name for name in DECLARED if not re.search(rf"\b{name}\b(?! = )", text)] == []


# --- operators -----------------------------------------------------------------------------------

BOUND = "ON c.id = v.id AND v.seen BETWEEN c.ts AND c.ts + INTERVAL 1 HOUR"
MINUTES = "SELECT country, window(ts, '1 minute') AS w, count(*) AS n FROM clicks GROUP BY 1, 2"

# What a query is, and the names of its operators by id: from the sink up.
GOLDEN = {
    # aggregates
    "SELECT country, count(*) FROM clicks GROUP BY country": ["aggregate by country"],
    "SELECT count(*), sum(amount) FROM clicks": ["aggregate all rows"],
    "SELECT country, id, count(*) FROM clicks GROUP BY country, id": ["aggregate by country, id"],
    "SELECT upper(country) AS u, max(id) FROM clicks GROUP BY u": ["aggregate by upper(country)"],
    "SELECT id % 10, max(id) FROM clicks GROUP BY 1": ["aggregate by id % 10"],
    "SELECT date_format(ts, 'yyyy-MM-dd') AS day, max(id) FROM clicks GROUP BY day": [
        "aggregate by date_format(ts, 'yyyy-MM-dd')"
    ],
    "SELECT country, id, count(*) FROM clicks GROUP BY ROLLUP (country, id)": [
        "aggregate by country, id, spark_grouping_id"
    ],
    "SELECT country, count(*) FROM clicks GROUP BY country HAVING count(*) > 2": [
        "aggregate by country"
    ],
    # windows
    MINUTES: ["aggregate by country, window 1 minute"],
    "SELECT window(ts, '90 seconds') AS w, count(*) FROM clicks GROUP BY w": [
        "aggregate by window 1 minute 30 seconds"
    ],
    "SELECT window(ts, '10 minutes', '2 minutes') AS w, count(*) FROM clicks GROUP BY w": [
        "aggregate by window 10 minutes every 2 minutes"
    ],
    "SELECT window(ts, '1 hour', '1 hour', '15 minutes') AS w, count(*) FROM clicks GROUP BY w": [
        "aggregate by window 1 hour from 15 minutes"
    ],
    "SELECT country, session_window(ts, '5 minutes') AS s, count(*) FROM clicks GROUP BY 1, 2": [
        "aggregate by country, session window 5 minutes"
    ],
    "SELECT country, session_window(ts, IF(id > 1, '5 minutes', '1 minute')) AS s, count(*) "
    "FROM clicks GROUP BY 1, 2": ["aggregate by country, session window of varying length"],
    "SELECT window(current_timestamp(), '10 seconds') AS w, count(*) FROM clicks GROUP BY w": [
        "aggregate by window 10 seconds of processing time"
    ],
    # distinct
    "SELECT DISTINCT id, ts FROM clicks": ["distinct id, ts"],
    "SELECT id FROM clicks UNION SELECT id FROM views": ["distinct id"],
    # joins
    f"SELECT c.id FROM clicks c JOIN views v {BOUND}": ["join on clicks.id = views.id"],
    f"SELECT c.id FROM clicks c LEFT JOIN views v {BOUND}": [
        "left outer join on clicks.id = views.id"
    ],
    f"SELECT c.id FROM clicks c RIGHT JOIN views v {BOUND}": [
        "right outer join on clicks.id = views.id"
    ],
    f"SELECT c.id FROM clicks c FULL JOIN views v {BOUND}": [
        "full outer join on clicks.id = views.id"
    ],
    f"SELECT c.id FROM clicks c LEFT SEMI JOIN views v {BOUND}": [
        "left semi join on clicks.id = views.id"
    ],
    "SELECT c.id FROM clicks c JOIN views v ON c.id = v.id AND c.country = lower(v.page)": [
        "join on clicks.id = views.id and clicks.country = lower(views.page)"
    ],
    "SELECT c.id FROM clicks c JOIN views v ON c.ts + INTERVAL 90 SECONDS = v.seen": [
        "join on clicks.ts + interval 1 minute 30 seconds = views.seen"
    ],
    "SELECT a.id FROM clicks a JOIN clicks b ON a.id = b.id": ["join on clicks.id = clicks.id"],
    "SELECT c.id FROM clicks c JOIN views v ON c.id = v.id JOIN other o ON v.id = o.id": [
        "join on views.id = other.id",
        "join on clicks.id = views.id",
    ],
    f"SELECT * FROM ({MINUTES}) a JOIN ({MINUTES}) b ON a.w = b.w": [
        "join on window 1 minute = window 1 minute",
        "aggregate by country, window 1 minute",
        "aggregate by country, window 1 minute",
    ],
    # chains
    "SELECT country, count(*) FROM (SELECT country, ts FROM clicks UNION ALL "
    "SELECT page, seen FROM views) GROUP BY country, window(ts, '1 minute')": [
        "aggregate by country, window 1 minute"
    ],
    f"SELECT window(w, '1 hour') AS h, sum(n) FROM ({MINUTES}) GROUP BY h": [
        "aggregate by window 1 hour",
        "aggregate by country, window 1 minute",
    ],
    f"SELECT country, count(*) FROM (SELECT c.country, c.ts FROM clicks c JOIN views v {BOUND}) "
    "GROUP BY country, window(ts, '1 minute')": [
        "aggregate by country, window 1 minute",
        "join on clicks.id = views.id",
    ],
    "SELECT DISTINCT id, ts FROM clicks LIMIT 5": ["limit 5", "distinct id, ts"],
    # no state
    "SELECT id FROM clicks WHERE amount > 3": [],
    "SELECT id, name FROM clicks LEFT JOIN countries ON country = code": [],
    "SELECT id FROM clicks UNION ALL SELECT id FROM views": [],
}


def describe_operators(frame: DataFrame) -> list[StatefulOperator]:
    return describe_graph(read_plan(frame))


@pytest.mark.thirds
@pytest.mark.parametrize(("query", "names"), GOLDEN.items(), ids=range(len(GOLDEN)))
def test_operators_have_readable_names(views: SparkSession, query: str, names: list[str]) -> None:
    found = describe_operators(views.sql(query))
    assert [each.name for each in found] == names
    assert [each.operator_id for each in found] == list(range(len(names)))


def test_deduplications_have_readable_names(views: SparkSession) -> None:
    """SQL has no words for them."""
    clicks = views.table("clicks")
    frames = [
        clicks.dropDuplicates(["id"]),
        clicks.dropDuplicates(),
        clicks.dropDuplicatesWithinWatermark(["id", "country"]),
        clicks.dropDuplicatesWithinWatermark(["id"]).dropDuplicates(["country", "ts"]),
    ]
    assert [[each.name for each in describe_operators(frame)] for frame in frames] == [
        ["deduplicate by id"],
        ["deduplicate by id, country, ts, amount"],
        ["deduplicate by id, country within the watermark"],
        ["deduplicate by country, ts", "deduplicate by id within the watermark"],
    ]


def only(frame: DataFrame) -> StatefulOperator:
    (operator,) = describe_operators(frame)
    return operator


def test_an_aggregate_tells_keys_and_state(views: SparkSession) -> None:
    operator = only(
        views.sql(
            "SELECT country AS land, window(ts, '1 minute'), count(*), avg(amount), min(id), "
            "count(id) FILTER (WHERE amount > 3), collect_set(id), sum(CAST(id AS DECIMAL(9, 2))) "
            "FROM clicks GROUP BY 1, 2"
        )
    )
    assert operator.kind is OperatorKind.AGGREGATE
    assert operator.keys == ("country", "window 1 minute")
    assert operator.state_partitions == PARTITIONS
    assert [(each.name, each.type) for each in operator.state_columns] == [
        ("count(*)", "bigint"),
        ("avg(amount).sum", "double"),
        ("avg(amount).count", "bigint"),
        ("min(id)", "bigint"),
        ("count(id where amount > 3.0)", "bigint"),
        ("collect_set(id)", "binary"),
        ("sum(id).sum", "decimal(19,2)"),
        ("sum(id).isEmpty", "boolean"),
    ]


def test_a_join_tells_the_columns_of_both_sides(views: SparkSession) -> None:
    operator = only(views.sql(f"SELECT c.id, upper(page) AS up FROM clicks c JOIN views v {BOUND}"))
    assert operator.kind is OperatorKind.JOIN
    assert operator.keys == ("clicks.id = views.id",)
    assert [(each.name, each.type) for each in operator.state_columns] == [
        ("left.id", "bigint"),
        ("left.ts", "timestamp"),
        ("right.id", "bigint"),
        ("right.page", "string"),
        ("right.seen", "timestamp"),
    ]


@pytest.mark.parametrize(
    ("query", "is_bounded"),
    [
        (MINUTES, True),
        ("SELECT ts, count(*) FROM clicks GROUP BY ts", True),
        ("SELECT country, count(*) FROM clicks GROUP BY country", False),
        ("SELECT count(*) FROM clicks", True),
        (f"SELECT c.id FROM clicks c JOIN views v {BOUND}", True),
        ("SELECT c.id FROM clicks c JOIN views v ON c.id = v.id", False),
        ("SELECT window(ts, '1 minute'), count(*) FROM plain GROUP BY 1", False),
    ],
)
def test_state_that_only_grows_is_reported(
    views: SparkSession, query: str, is_bounded: bool
) -> None:
    assert only(views.sql(query)).is_bounded is is_bounded


def test_names_do_not_depend_on_what_a_query_calls_things(views: SparkSession) -> None:
    """Views, subqueries, aliases and the ids of expressions: nothing of them is in a name."""
    plain = (
        "SELECT c.country, window(c.ts, '1 minute'), count(*), max(v.page) "
        f"FROM clicks c JOIN views v {BOUND} GROUP BY 1, 2"
    )
    views.sql(
        "CREATE OR REPLACE TEMPORARY VIEW renamed AS "
        "SELECT country AS land, id AS number, ts AS at FROM (SELECT * FROM clicks)"
    )
    renamed = (
        "SELECT l AS key, win, count(*) AS total, max(p) AS last FROM (SELECT x.land AS l, "
        "window(x.at, '1 minute') AS win, y.p FROM renamed AS x JOIN "
        "(SELECT id AS n, page AS p, seen AS s FROM views) AS y "
        "ON x.number = y.n AND y.s BETWEEN x.at AND x.at + INTERVAL 1 HOUR) GROUP BY l, win"
    )
    first, second = describe_operators(views.sql(plain)), describe_operators(views.sql(renamed))
    assert [each.name for each in first] == [each.name for each in second]
    assert [each.keys for each in first] == [each.keys for each in second]
    assert [set(each.state_columns) for each in first] == [set(e.state_columns) for e in second]


def test_a_key_that_is_too_long_to_read_is_cut(views: SparkSession) -> None:
    words = ", ".join(f"'{letter * 20}'" for letter in "abcdef")
    operator = only(views.sql(f"SELECT country IN ({words}) AS k, count(*) FROM clicks GROUP BY k"))
    assert operator.name.startswith("aggregate by in(country, 'aaaa")
    assert operator.name.endswith("...")
    assert len(operator.name) < 80


def test_many_keys_are_counted_in_the_name(views: SparkSession) -> None:
    keys = ", ".join(f"id % {number}" for number in range(2, 11))
    operator = only(views.sql(f"SELECT count(*) FROM clicks GROUP BY {keys}"))
    assert operator.name.endswith("id % 7 and 3 more")
    assert len(operator.keys) == 9


def test_ids_names_and_partitions_are_those_of_a_run(spark: SparkSession, tmp_path: Path) -> None:
    """What Spark writes into the checkpoint of a query that really ran is the judge."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.json").write_text('{"id": 1, "country": "DE", "ts": "2026-11-21"}\n')
    read = spark.readStream.schema(CLICKS).json(str(tmp_path / "in")).withWatermark("ts", "1 hour")
    frame = read.dropDuplicates(["id", "ts"]).groupBy("country", "ts").count().limit(5)
    described = describe_operators(frame)
    checkpoint = str(tmp_path / "checkpoint")
    started = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
    started.trigger(availableNow=True).start().awaitTermination()

    rows = spark.read.format("state-metadata").load(checkpoint).collect()
    written = {(row.operatorId, row.operatorName) for row in rows}
    assert written == {(0, "globalLimit"), (1, "stateStoreSave"), (2, "dedupe")}
    assert [(each.operator_id, each.kind) for each in described] == [
        (0, OperatorKind.LIMIT),
        (1, OperatorKind.AGGREGATE),
        (2, OperatorKind.DEDUPLICATE),
    ]
    for each in described:
        directory = tmp_path / "checkpoint" / "state" / str(each.operator_id)
        partitions = [path for path in directory.iterdir() if path.name.isdigit()]
        assert len(partitions) == each.state_partitions, each.name


def test_nothing_is_written_and_settings_stay(
    views: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    before = views.conf.get("spark.sql.exchange.reuse")
    assert describe_operators(views.sql(MINUTES))
    assert list(tmp_path.iterdir()) == []
    assert views.conf.get("spark.sql.exchange.reuse") == before == "true"


def test_the_session_says_how_many_partitions_state_has(views: SparkSession) -> None:
    try:
        views.conf.set("spark.sql.shuffle.partitions", "7")
        assert only(views.sql(MINUTES)).state_partitions == 7
    finally:
        views.conf.set("spark.sql.shuffle.partitions", str(PARTITIONS))


# --- sources -------------------------------------------------------------------------------------


def test_sources_are_reported_without_secrets(views: SparkSession, tmp_path: Path) -> None:
    views.range(3).write.parquet(str(tmp_path / "numbers"))
    views.read.parquet(str(tmp_path / "numbers")).createOrReplaceTempView("numbers")
    files = views.readStream.schema("id BIGINT").parquet(str(tmp_path / "numbers"))
    files.createOrReplaceTempView("files")
    pattern = views.readStream.format("kafka").option("subscribePattern", "events.*")
    pattern = pattern.option("kafka.bootstrap.servers", NOWHERE)
    pattern.option("kafka.sasl.jaas.config", "password=secret").load().createOrReplaceTempView("p")
    frame = views.sql(
        "SELECT id FROM clicks JOIN numbers USING (id) JOIN countries ON code = country "
        "UNION ALL SELECT id FROM files UNION ALL SELECT offset FROM p"
    )
    found = read_sources(frame)
    numbers = f"file:{tmp_path}/numbers"
    assert [(each.name, each.format, each.reads, each.is_streaming) for each in found] == [
        ("clicks", "kafka", "clicks", True),
        ("numbers", "parquet", numbers, False),
        ("LogicalRDD", "LogicalRDD", "LogicalRDD", False),
        ("numbers", "FileSource", numbers.removeprefix("file:"), True),
        ("topics like events.*", "kafka", "topics like events.*", True),
    ]
    assert "secret" not in repr(found)


def test_a_source_that_has_a_name_is_called_by_it(spark: SparkSession) -> None:
    setting = "spark.sql.streaming.queryEvolution.enableSourceEvolution"
    try:
        spark.conf.set(setting, "true")
        named = spark.readStream.name("orders").format("kafka").option("subscribe", "o-2026")
        frame = named.option("kafka.bootstrap.servers", NOWHERE).load()
        assert [(each.name, each.reads) for each in read_sources(frame)] == [("orders", "o-2026")]
        counted = frame.groupBy("topic").count()
        assert only(counted).name == "aggregate by topic"
    finally:
        spark.conf.unset(setting)


def test_a_check_passes_what_spark_would_start(views: SparkSession) -> None:
    check_streaming(views.sql(MINUTES), "append")
    check_streaming(topic_view(views, "plain", CLICKS).groupBy("country").count(), "update")
