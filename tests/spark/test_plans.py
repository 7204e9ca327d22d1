"""What two queries do is the same, or told apart: whatever Spark itself would make of a change."""

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T  # noqa: N812 - Spark's own convention
from tests.spark.streams import make_views

from ashore.errors import QueryRefused
from ashore.plans.hints import strip_ids
from ashore.plans.operator_graph import identify
from ashore.plans.physical import type_name
from ashore.plans.regions import find_regions
from ashore.queries.spark.internals.reading import read_plan

HOUR = "INTERVAL 1 HOUR"
BOUND = f"a.id = b.id AND b.seen BETWEEN a.ts AND a.ts + {HOUR}"
RENAMED = "(SELECT id AS i, page AS p, seen AS s FROM views)"
SUM = "SELECT country, window(ts, '1 minute') AS w, sum(amount) AS s FROM clicks GROUP BY 1, 2"


@pytest.fixture(scope="module")
def views(spark: SparkSession) -> SparkSession:
    make_views(spark)
    return spark


def done_by(frame: DataFrame) -> tuple[list[tuple[str, str]], dict[int, str]]:
    """Return what a query does, but for what it calls the columns that it hands on."""
    graph = read_plan(frame)
    digests = [(each.own, each.with_inputs) for each in identify(graph)]
    return digests, {number: each.digest for number, each in find_regions(graph).items()}


UNION = "SELECT id, country AS c FROM clicks UNION ALL SELECT id, page FROM views"
BOTH = f"SELECT c, count(*) AS n FROM ({UNION}) GROUP BY c"

SAME = [
    (UNION, UNION.replace("AS c", "AS land")),
    (BOTH, f"SELECT l, count(*) FROM ({UNION.replace('AS c', 'AS l')}) GROUP BY l"),
    (SUM, SUM.replace("AS w", "AS minute").replace("AS s", "AS total")),
    (SUM, SUM.replace("FROM clicks", "FROM (SELECT amount AS amount, country, ts FROM clicks) x")),
    (SUM, f"WITH sums AS ({SUM}) SELECT country AS land, w, s FROM sums"),
    (SUM, SUM.replace("GROUP BY 1, 2", "GROUP BY country, window(ts, '60 seconds')")),
    ("SELECT id, upper(country) AS u FROM clicks", "SELECT id AS n, upper(country) FROM clicks"),
    (
        f"SELECT a.id, b.page FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT x.id, p FROM clicks x JOIN {RENAMED} ON id = i AND s BETWEEN ts AND ts + {HOUR}",
    ),
    (
        "SELECT filter(split(country, ','), each -> each > 'a') AS f FROM clicks",
        "SELECT filter(split(country, ','), x -> x > 'a') AS g FROM clicks",
    ),
]


@pytest.mark.thirds
@pytest.mark.parametrize(("one", "other"), SAME, ids=range(len(SAME)))
def test_names_and_the_order_of_columns_play_no_part(
    views: SparkSession, one: str, other: str
) -> None:
    assert done_by(views.sql(one)) == done_by(views.sql(other))


# Spark compares the types of a state alone, so that it takes most of these for the same query.
APART = [
    (SUM, SUM.replace("sum(amount)", "max(amount)")),
    (SUM, SUM.replace("sum(amount)", "sum(amount * 2)")),
    (SUM, SUM.replace("sum(amount)", "sum(DISTINCT amount)")),
    (SUM, SUM.replace("sum(amount)", "sum(amount) FILTER (WHERE id > 3)")),
    (SUM, SUM.replace("1 minute", "5 minutes")),
    (SUM, SUM.replace("'1 minute'", "'1 minute', '30 seconds'")),
    (SUM, SUM.replace("'1 minute'", "'1 minute', '1 minute', '10 seconds'")),
    (SUM, SUM.replace("SELECT country", "SELECT lower(country)")),
    (SUM, SUM.replace("GROUP BY", "WHERE id > 3 GROUP BY")),
    (
        SUM.replace("GROUP BY", "WHERE id > 3 GROUP BY"),
        SUM.replace("GROUP BY", "WHERE id > 4 GROUP BY"),
    ),
    (SUM, SUM.replace("sum(amount)", "sum(CAST(amount AS INT))")),
    (
        "SELECT id, count(id), ts FROM clicks GROUP BY id, ts",
        "SELECT id, count(amount), ts FROM clicks GROUP BY id, ts",
    ),
    (
        "SELECT a.id FROM clicks a JOIN clicks b ON a.id = b.id",
        "SELECT a.id FROM clicks a JOIN clicks b ON a.country = b.country",
    ),
    (
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND.replace('1 HOUR', '2 HOURS')}",
    ),
    (
        f"SELECT a.id FROM clicks a JOIN views b ON {BOUND}",
        f"SELECT a.id FROM clicks a LEFT JOIN views b ON {BOUND}",
    ),
    (UNION, UNION.replace("page", "upper(page)")),
    (UNION, UNION.replace("SELECT id, page", "SELECT id + 1, page")),
    (UNION, UNION.replace("country", "upper(country)")),
    (BOTH, BOTH.replace("page", "upper(page)")),
    (BOTH, BOTH.replace("country", "upper(country)")),
    (
        "SELECT country, id, count(*) FROM clicks GROUP BY ROLLUP (country, id)",
        "SELECT country, id, count(*) FROM clicks GROUP BY CUBE (country, id)",
    ),
    (
        "SELECT posexplode(split(country, ',')) AS (i, part) FROM clicks",
        "SELECT posexplode_outer(split(country, ',')) AS (i, part) FROM clicks",
    ),
]


@pytest.mark.thirds
@pytest.mark.parametrize(("one", "other"), APART, ids=range(len(APART)))
def test_what_is_computed_tells_queries_apart(views: SparkSession, one: str, other: str) -> None:
    assert done_by(views.sql(one)) != done_by(views.sql(other))


def test_what_duplicates_are_dropped_by_tells_queries_apart(views: SparkSession) -> None:
    clicks = views.table("clicks")
    assert done_by(clicks.dropDuplicates(["id"])) != done_by(clicks.dropDuplicates(["amount"]))


def identities(frame: DataFrame) -> list[tuple[str, str, str]]:
    """Return id and digests of what keeps state, and of the sink."""
    graph = read_plan(frame)
    found = zip(graph.nodes, identify(graph), strict=True)
    return [
        (each.id, each.with_inputs, each.with_outputs)
        for place, (node, each) in enumerate(found)
        if node.state is not None or place == 0
    ]


AGGREGATES = "SELECT country, sum(amount) AS s, min(id) AS lo, ts FROM clicks GROUP BY country, ts"
JOINED = f"SELECT a.id, a.country, b.page FROM clicks a JOIN views b ON {BOUND}"
OVER = "SELECT lo, sum(s) AS n, ts FROM ({}) GROUP BY lo, ts"
SAME_OPERATORS = [
    *SAME,
    (AGGREGATES, "SELECT min(id), ts AS t, sum(amount), country FROM clicks GROUP BY ts, country"),
    (
        OVER.format(AGGREGATES),
        OVER.format(
            AGGREGATES.replace("sum(amount) AS s, min(id) AS lo", "min(id) lo, sum(amount) s")
        ),
    ),
    (JOINED, JOINED.replace("a.id, a.country, b.page", "b.page AS p, a.id")),
    (
        JOINED,
        JOINED.replace("a.id = b.id AND b.seen", "b.seen").replace("HOUR", "HOUR AND a.id = b.id"),
    ),
    (SUM, f"SELECT s * 2 AS twice, country FROM ({SUM})"),
    (
        SUM.replace("GROUP BY", "WHERE id > 3 AND amount > 1 GROUP BY"),
        SUM.replace("GROUP BY", "WHERE amount > 1 AND id > 3 GROUP BY"),
    ),
    (UNION, UNION.replace("id, country AS c", "country AS c, id").replace("id, page", "page, id")),
    (
        f"SELECT DISTINCT id, c FROM ({UNION})",
        f"SELECT DISTINCT c, id FROM ({UNION})",
    ),
    ("SELECT id, rand() AS r FROM clicks", "SELECT id, rand() AS q FROM clicks"),
    (
        "SELECT posexplode(split(country, ',')) AS (i, part) FROM clicks",
        "SELECT posexplode(split(country, ',')) AS (n, piece) FROM clicks",
    ),
]


@pytest.mark.thirds
@pytest.mark.parametrize(("one", "other"), SAME_OPERATORS, ids=range(len(SAME_OPERATORS)))
def test_ids_and_digests_survive_names_and_orders(
    views: SparkSession, one: str, other: str
) -> None:
    before, after = identities(views.sql(one)), identities(views.sql(other))
    assert before == after


@pytest.mark.thirds
@pytest.mark.parametrize(("one", "other"), APART[:-2], ids=range(len(APART) - 2))
def test_digests_tell_apart_what_computes_something_else(
    views: SparkSession, one: str, other: str
) -> None:
    before, after = identities(views.sql(one)), identities(views.sql(other))
    assert before[0][1] != after[0][1]


def test_code_generation_and_exchanges_play_no_part(views: SparkSession) -> None:
    name = "spark.sql.codegen.wholeStage"
    before = identities(views.sql(OVER.format(AGGREGATES)))
    views.conf.set(name, "false")
    try:
        assert identities(views.sql(OVER.format(AGGREGATES))) == before
    finally:
        views.conf.unset(name)
    moved = f"SELECT /*+ REPARTITION(3) */ * FROM ({AGGREGATES})"
    assert identities(views.sql(OVER.format(moved))) == before


def test_an_operator_keeps_its_id_where_one_comes_above_or_below(views: SparkSession) -> None:
    """Its number in the checkpoint does not: those are counted from the sink."""
    (own,) = {each[0] for each in identities(views.sql(AGGREGATES))}
    above = read_plan(views.sql(OVER.format(AGGREGATES)))
    found = {
        identity.id: node.state.operator_id
        for node, identity in zip(above.nodes, identify(above), strict=True)
        if node.state
    }
    assert found[own] == 1
    below = AGGREGATES.replace("FROM clicks", "FROM (SELECT DISTINCT * FROM clicks)")
    assert identities(views.sql(below))[0][0] == own


INNER = f"SELECT {{}} a.id, a.ts, a.country FROM clicks a JOIN views b ON {BOUND}"
OUTER = "SELECT {} country, ts, count(*) AS n FROM ({}) GROUP BY country, ts"
CTE = "WITH c AS (SELECT /*+ id('x') */ DISTINCT id, ts FROM clicks) "
IDS = [
    (OUTER.format("/*+ id('sums') */", INNER.format("/*+ id('pairs') */")), ["sums", "pairs"]),
    (OUTER.format("", INNER.format("/*+ MERGE(b), id('pairs') */")), ["", "pairs"]),
    (OUTER.format("/*+ id('sums') */", "SELECT * FROM named"), ["sums", "in_view"]),
    (
        f"{CTE} SELECT /*+ id('y') */ id, ts, count(*) AS n FROM c GROUP BY id, ts",
        ["y", "x"],
    ),
    ("SELECT /*+ id('session') */ id, max(ts) FROM clicks GROUP BY 1, session_window(ts, '1 day')",
     ["session"]),
    ("SELECT /*+ id('all') */ count(*) FROM clicks", ["all"]),
    ("SELECT '\U0001f4be' AS a, * FROM (SELECT /*+ id('e') */ DISTINCT id FROM clicks)", ["e"]),
    (f"SELECT /*+ id('u') */ DISTINCT id, c FROM ({UNION})", ["u"]),
]  # fmt: skip


@pytest.mark.parametrize(("text", "ids"), IDS, ids=range(len(IDS)))
def test_an_id_of_the_author_is_that_of_its_operator(
    views: SparkSession, text: str, ids: list[str]
) -> None:
    views.sql(
        "CREATE OR REPLACE TEMPORARY VIEW named AS "
        "SELECT /*+ id('in_view') */ DISTINCT id, ts, country FROM clicks"
    )
    graph = read_plan(views.sql(text))
    assert [node.given for node in graph.nodes if node.state] == ids
    bare = read_plan(views.sql(strip_ids(text)))
    assert [each.own for each in identify(bare)] == [each.own for each in identify(graph)]


@pytest.mark.parametrize(
    "text",
    [
        INNER.format("/*+ id('x') */ DISTINCT"),
        OUTER.format("/*+ id('x') */", INNER.format("/*+ id('x') */")),
        f"{CTE} SELECT * FROM c UNION ALL SELECT * FROM c",
        "SELECT /*+ id('x') */ DISTINCT id, ts FROM clicks INTERSECT SELECT id, seen FROM views",
    ],
)
def test_an_id_that_names_two_operators_or_none_is_refused(views: SparkSession, text: str) -> None:
    with pytest.raises(QueryRefused, match=r"id\('x'\)"):
        read_plan(views.sql(text))


TYPES = [
    *(T.ByteType(), T.ShortType(), T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType()),
    *(T.StringType(), T.BinaryType(), T.BooleanType(), T.DateType(), T.TimestampType()),
    *(T.TimestampNTZType(), T.DecimalType(9, 2), T.NullType(), T.VariantType()),
    *(T.DayTimeIntervalType(), T.DayTimeIntervalType(1, 2), T.YearMonthIntervalType()),
    *(T.CharType(3), T.VarcharType(4), T.CalendarIntervalType()),
    T.ArrayType(T.LongType()),
    T.MapType(T.StringType(), T.ArrayType(T.ShortType())),
    T.StructType().add("a", T.ByteType()).add("b c", T.StructType().add("d", T.LongType())),
]


@pytest.mark.parametrize("of", TYPES, ids=str)
def test_types_are_called_as_spark_calls_them(of: T.DataType) -> None:
    assert type_name(of.jsonValue()) == of.simpleString()
